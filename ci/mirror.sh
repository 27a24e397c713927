#!/bin/sh
# Print the Debian mirror that this machine's own apt uses: the first of its sources, one-line or deb822.
{
    sed -nE 's/^deb +(\[[^]]*\] +)?(https?:[^ ]+debian\/?) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    sed -nE 's/^URIs: *(https?:[^ ]+debian\/?)( .*)?$/\1/p' /etc/apt/sources.list.d/*.sources
} 2>/dev/null | grep -v security | head -n 1 | grep . || echo http://deb.debian.org/debian
