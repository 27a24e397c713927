"""Write canonical JSON, whose bytes depend only on the value.

Keys are sorted. No other module writes canonical JSON. Digests and names are computed from these bytes. If one of the
forms below changed, even by one space, stored builds, observations and decisions would no longer be found.
"""

from __future__ import annotations

import json
from typing import Any


def canonical(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002  (json's own word is ensure_ascii)
    """Return a value as JSON without spaces between tokens, for digests.

    If `ascii` is false, non-ASCII characters are not escaped.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii).encode()


def one_line(value: Any) -> str:
    """Return a value as one line of JSON.

    The line is ASCII, with a space after every colon and comma, and without a newline at the end. This form is also
    used for requests to a server, and for the digests of toolchains and requests.
    """
    return json.dumps(value, sort_keys=True)


def indented(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002
    """Return a value as indented JSON, for files that people read.

    Each level is indented by two spaces. The text ends with a newline. `ascii` has the same meaning as in `canonical`.
    """
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=ascii) + "\n").encode()
