"""Limit the work for one patch. Patches beyond the limit are left to git, which is faster. A hostile patch of a few
kilobytes can make a search quadratic. So the work is counted, in nanoseconds of a slow machine, and never timed: the
same patch is always judged in the same way.
"""

from __future__ import annotations

from patchstack.git.patch.diff import Unsupported

LARGEST = 4 << 20
"""The largest patch that is read here, in bytes."""
MOST_LINES = 100_000
"""The largest patch that is read here, in lines."""
MOST_HUNKS = 10_000
"""The largest patch whose hunks are kept in memory for more than one step."""


A_FILE_LINE, A_PATCH_LINE = 30, 100
"""What a patch may take for each line of the files that it changes, which git must read too, and for each line of its
own, in nanoseconds."""
SPARE = 60_000_000
"""What a patch, or a whole series, may take beyond that, in nanoseconds."""


class TooCostly(Unsupported):
    """A patch whose hunks take more work than its limit."""


def too_large(data: bytes) -> bool:
    """Return whether a patch is too large to read here."""
    return len(data) > LARGEST or (len(data) > MOST_LINES and data.count(b"\n") > MOST_LINES)


class Effort:
    """The remaining work that is allowed, in nanoseconds."""

    __slots__ = ("left",)

    def __init__(self, nanoseconds: int) -> None:
        self.left = nanoseconds

    def spend(self, nanoseconds: int) -> None:
        """Count work before doing it. Raises `TooCostly` if it is more than what remains."""
        self.left -= nanoseconds
        if self.left < 0:
            raise TooCostly("its hunks are too costly to place here", 1)


def unbounded() -> Effort:
    """Return an unlimited effort, for our own patches."""
    return Effort(1 << 62)
