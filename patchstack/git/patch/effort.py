"""How much work a patch may be here. What is more is left to git itself, which is quicker at it.

A hostile patch of a few kilobytes can make a search quadratic. So the work is counted, in steps of a nanosecond on a
slow machine, and never timed: the same patch is always judged in the same way.
"""

from __future__ import annotations

from patchstack.git.patch.diff import Unsupported

LARGEST = 4 << 20
"""Bytes of a patch that is read here."""
MOST_LINES = 100_000
"""Lines of a patch that is read here."""


class TooCostly(Unsupported):
    """A patch whose hunks take more work than is spent on them here."""


def too_large(data: bytes) -> bool:
    """Whether a patch is more than is read here."""
    return len(data) > LARGEST or data.count(b"\n") > MOST_LINES


class Effort:
    """What may still be spent, in nanoseconds."""

    __slots__ = ("left",)

    def __init__(self, nanoseconds: int) -> None:
        self.left = nanoseconds

    def spend(self, nanoseconds: int) -> None:
        """Count work that is about to be done. Raises `TooCostly` if it is more than is left."""
        self.left -= nanoseconds
        if self.left < 0:
            raise TooCostly("its hunks are too costly to place here", 1)


def unbounded() -> Effort:
    """Return an effort that is never spent: for patches of one's own."""
    return Effort(1 << 62)
