"""Run a program on this machine in a sandbox without network access.

The program can write only to its working directory and its home directory.

The sandbox consists of Linux namespaces, which `unshare` of util-linux creates for an unprivileged user. The network
namespace has no usable interface. In the mount namespace, all other directories are read-only. The setup prints a line
when it is complete. Output without this first line does not come from the program.
"""

from __future__ import annotations

import secrets

_LINE = "patchstack: caged"
_SETUP = """
set -e
place=$1; told=$2; shift 2
mount --make-rprivate /
for kept in "$place" "$HOME"; do mount --bind "$kept" "$kept"; done
while read -r _ _ _ _ point options _
do
    point=$(printf '%b' "$point")
    case $point in "$place"|"$place"/*|"$HOME"|"$HOME"/*) continue ;; esac
    flags=ro
    for flag in nosuid nodev noexec noatime nodiratime relatime
    do case ,$options, in *,$flag,*) flags=$flags,$flag ;; esac; done
    mount -o "remount,bind,$flags" "$point" 2>/dev/null || { [ ! -w "$point" ] || ! [ -d "$point" ]; }
done </proc/self/mountinfo
cd "$place"
export TMPDIR="$HOME"
printf '%s\\n' "$told"
command -v "$1" >/dev/null || exit 127
exec unshare --user -- "$@"
"""


class Cage:
    """The sandbox for a program. `place` is the working directory of the program."""

    def __init__(self, place: str) -> None:
        self._place = place

    def around(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command line that runs a program in the sandbox."""
        names = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--ipc", "--")
        return (*names, "/bin/sh", "-c", _SETUP, "sh", self._place, f"{_LINE} {secrets.token_hex(4)}", *argv)

    @staticmethod
    def opened(printed: bytes) -> tuple[bool, bytes]:
        """Return whether the sandbox was set up, and the output of the program."""
        head, _, rest = printed.partition(b"\n")
        return head.startswith(_LINE.encode()), rest
