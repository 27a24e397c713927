"""Limit the work for one patch.

Patches above the limit are applied by git, which is faster. A hostile patch of a few kilobytes can make a search
quadratic. So the work is counted, in nanoseconds of a slow machine. The time is not measured, so that the result for a
patch is always the same.
"""

from __future__ import annotations

from patchstack.git.patch.diff import Unsupported

LARGEST = 4 << 20
"""The maximum size in bytes of a patch that this package reads itself."""
MOST_LINES = 100_000
"""The maximum number of lines of a patch that this package reads itself."""
MOST_HUNKS = 10_000
MOST_FILES = 5_000
"""A patch with at least `MOST_HUNKS` hunks or `MOST_FILES` files is applied but not analysed."""


A_FILE_LINE, A_PATCH_LINE = 30, 100
"""The allowed work, in nanoseconds, for each line of a changed file and for each line of the patch.

All lines of a changed file count, because git must read the whole file too.
"""
SPARE = 60_000_000
"""The additional work that is allowed for a patch, or for a whole series, in nanoseconds."""


class TooCostly(Unsupported):
    """A patch that git applies faster.

    The patch is too large, a changed file has too many lines, or the hunks need more work than the limit allows.
    """


def too_large(data: bytes) -> bool:
    """Return whether a patch is too large for this package to read."""
    return len(data) > LARGEST or (len(data) > MOST_LINES and data.count(b"\n") > MOST_LINES)


def bulky(data: bytes) -> bool:
    """Return whether a patch is too large to analyse.

    Such a patch is applied by git alone. The rules of lint, the comparison with GNU patch, and the analysis of `canary`
    skip it.
    """
    files = data.startswith(b"diff --git ") + data.count(b"\ndiff --git ")
    return too_large(data) or files >= MOST_FILES or data.count(b"\n@@ ") >= MOST_HUNKS


class Effort:
    """The remaining work that is allowed, in nanoseconds."""

    __slots__ = ("left",)

    def __init__(self, nanoseconds: int) -> None:
        self.left = nanoseconds

    def spend(self, nanoseconds: int) -> None:
        """Count work before it is done.

        Raises `TooCostly` if the work exceeds the remaining limit.
        """
        self.left -= nanoseconds
        if self.left < 0:
            raise TooCostly("hunks that are too costly to place", 1)


class Pool:
    """The additional work that is still allowed for several patches together, in nanoseconds.

    A hostile series can have many patches, so a limit for each patch alone is not enough.
    """

    __slots__ = ("left",)

    def __init__(self, nanoseconds: int = SPARE) -> None:
        self.left = nanoseconds


class PooledEffort(Effort):
    """An effort that uses the work of a pool after its own work is used up."""

    __slots__ = ("_pool",)

    def __init__(self, nanoseconds: int, pool: Pool) -> None:
        super().__init__(nanoseconds)
        self._pool = pool

    def spend(self, nanoseconds: int) -> None:
        self.left -= nanoseconds
        if self.left < 0:
            self._pool.left += self.left
            self.left = 0
            if self._pool.left < 0:
                raise TooCostly("hunks that are too costly to place", 1)


def unbounded() -> Effort:
    """Return an unlimited effort, for patches that patchstack itself created."""
    return Effort(1 << 62)
