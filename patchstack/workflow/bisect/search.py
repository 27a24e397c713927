"""Which of a row of points is the first bad one? The deciding, without the doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PointState(StrEnum):
    """What was found of a point."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class Ending(StrEnum):
    """How a bisection ends. `first-bad` names one; `between-skips` cannot; the rest tell why there is nothing to
    find."""

    FIRST_BAD = "first-bad"
    BETWEEN_SKIPS = "between-skips"
    ALL_GOOD = "all-good"
    ALL_BAD = "all-bad"
    END_SKIPPED = "end-skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The end: `candidates` are the points that may be the first bad one, in order; exactly one where it was found."""

    ending: Ending
    candidates: tuple[int, ...] = ()


def next_point(good: int, bad: int, said: Mapping[int, PointState]) -> int | SearchResult:
    """The point to try next between a good and a bad end, or the answer. Both ends are tried first.

    The middle of what is left is tried; where it was skipped, the nearest that was not. A point is the first bad one if
    it is bad and the one before it good; with skipped ones between the two it may be any of them.
    """
    for end, wanted, other in ((bad, PointState.BAD, Ending.ALL_GOOD), (good, PointState.GOOD, Ending.ALL_BAD)):
        if end not in said:
            return end
        if said[end] is PointState.SKIP:
            return SearchResult(ending=Ending.END_SKIPPED, candidates=(end,))
        if said[end] is not wanted:
            return SearchResult(ending=other)
    low = max(point for point, one in said.items() if one is PointState.GOOD and good <= point < bad)
    high = min(point for point, one in said.items() if one is PointState.BAD and low < point <= bad)
    left = [point for point in range(low + 1, high) if point not in said]
    if left:
        middle = (low + high) / 2
        return min(left, key=lambda point: (abs(point - middle), point))
    candidates = tuple(range(low + 1, high + 1))
    return SearchResult(
        ending=Ending.FIRST_BAD if len(candidates) == 1 else Ending.BETWEEN_SKIPS,
        candidates=candidates,
    )


def comes_and_goes(said: Mapping[int, PointState]) -> tuple[int, int] | None:
    """A bad point with a good one behind it: then there is more than one place where good turns bad, and the answer is
    only one of them."""
    bad = [point for point, one in said.items() if one is PointState.BAD]
    good = [point for point, one in said.items() if one is PointState.GOOD]
    if bad and good and min(bad) < max(good):
        return min(bad), max(good)
    return None
