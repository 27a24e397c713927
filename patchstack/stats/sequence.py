"""The result of the pairs of one row at every look: e-values of statements, the estimate and its interval.

Let the effect be b. Then x − b is the influence of the machine on the run of B relative to that of A. Given everything
before the pair, sign(x − b − s·v) is a fair coin, whatever the machine does, as long as the machine does not know the
coin. A statement "the effect is above b" wins a pair if x − s·v > b; a tie counts against it. Its e-value is that of
`coin`. The statement is proven once its e-value has reached 1/alpha at any look.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.stats.coin import e_value, least_wins
from patchstack.stats.location import hodges_lehmann
from patchstack.stats.slot import without_slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Effects that no look has ruled out, as logarithms of B/A; infinite on a side that is open. It is empty, with
    `low` above `high`, if early and late pairs contradict each other."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


class Evidence:
    """The evidence of the pairs of one row so far. Values are logarithms of B/A, larger is better for B."""

    def __init__(self, xs: Sequence[float], coins: Sequence[int]) -> None:
        """Take x = ln(B/A) of each pair in order, and its coin: +1 if B ran second, -1 if A did.

        Raises `ValueError` for an x that is not finite, and what `without_slot` raises.
        """
        if not all(map(math.isfinite, xs)):
            raise ValueError("a ratio is not finite")
        self.cleaned = tuple(without_slot(xs, coins))

    def __len__(self) -> int:
        return len(self.cleaned)

    def above(self, bound: float) -> tuple[float, ...]:
        """Return the largest e-value of "the effect is above the bound" so far, at each look."""
        return _running([one > bound for one in self.cleaned])

    def below(self, bound: float) -> tuple[float, ...]:
        """Return the largest e-value of "the effect is below the bound" so far, at each look."""
        return _running([one < bound for one in self.cleaned])

    def wins(self, bound: float, *, above: bool) -> int:
        """Return how many pairs the statement has won."""
        return sum(one > bound if above else one < bound for one in self.cleaned)

    def estimate(self) -> float | None:
        """Return the Hodges-Lehmann estimate of the effect; None for no pairs."""
        return hodges_lehmann(self.cleaned) if self.cleaned else None

    def interval(self, alpha: float) -> Interval:
        """Return the effects that no look has ruled out, each side at alpha.

        `low` is above b exactly if "above b" has been shown, and `high` below b exactly if "below b" has.
        """
        low, high = -math.inf, math.inf
        ordered: list[float] = []
        for number, one in enumerate(self.cleaned, 1):
            insort(ordered, one)
            if (wins := least_wins(number, alpha)) is not None:
                low = max(low, ordered[number - wins])
                high = min(high, ordered[wins - 1])
        return Interval(low=low, high=high)


def pairs_needed(wins: int, pairs: int, alpha: float, *, most: int = 1000) -> int | None:
    """Return after how many pairs a statement is shown if it continues to win at the same rate; None if not within
    `most`."""
    for number in range(pairs, most + 1):
        expected = wins + round((number - pairs) * wins / pairs) if pairs else number
        if e_value(number, expected) * alpha >= 1:
            return number
    return None


def _running(wins: Sequence[bool]) -> tuple[float, ...]:
    best, count, found = 0.0, 0, []
    for number, won in enumerate(wins, 1):
        count += won
        best = max(best, e_value(number, count))
        found.append(best)
    return tuple(found)
