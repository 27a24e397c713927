"""Limit the work for one patch. Patches above the limit are applied by git, which is faster.

A hostile patch of a few kilobytes can make a search quadratic. So the work is counted, in nanoseconds of a slow
machine. The time is not measured, so that the result for a patch is always the same.
"""

from __future__ import annotations

from patchstack.git.patch.diff import Unsupported

LARGEST = 4 << 20
"""The maximum size in bytes of a patch that this package reads itself."""
MOST_LINES = 100_000
"""The maximum number of lines of a patch that this package reads itself."""
MOST_HUNKS = 10_000
"""By default, lint and the comparison with GNU patch skip a patch that has this number of hunks or more."""


A_FILE_LINE, A_PATCH_LINE = 30, 100
"""The allowed work in nanoseconds for each line of the changed files and of the patch. git must read the files too."""
SPARE = 60_000_000
"""The additional work that is allowed for a patch, or for a whole series, in nanoseconds."""


class TooCostly(Unsupported):
    """A patch whose hunks need more work than the limit allows."""


def too_large(data: bytes) -> bool:
    """Return whether a patch is too large to read here."""
    return len(data) > LARGEST or (len(data) > MOST_LINES and data.count(b"\n") > MOST_LINES)


class Effort:
    """The remaining work that is allowed, in nanoseconds."""

    __slots__ = ("left",)

    def __init__(self, nanoseconds: int) -> None:
        self.left = nanoseconds

    def spend(self, nanoseconds: int) -> None:
        """Count work before it is done. Raises `TooCostly` if the work exceeds the remaining limit."""
        self.left -= nanoseconds
        if self.left < 0:
            raise TooCostly("its hunks are too costly to place here", 1)


def unbounded() -> Effort:
    """Return an unlimited effort, for patches that patchstack itself created."""
    return Effort(1 << 62)
