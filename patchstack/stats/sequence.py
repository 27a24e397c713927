"""Compute the e-values, the estimate and the confidence interval for one row of a comparison, after every pair.

For a pair, x is ln(B/A). The coin s is +1 if B ran second, and −1 if A ran second. v is the predicted effect of running
second (see `slot`). If the true effect of B is b, the remainder x − b comes from the machine alone. Given all earlier
pairs, the sign of x − b − s·v is then a fair coin. This holds for every machine that does not know s.

The statement "the effect is above b" wins a pair if x − s·v > b. A tie counts as a loss. The module `coin` computes
the e-value from the wins. The statement is proven once its e-value has reached 1/alpha after any pair.
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
    """A confidence interval of the effect, as logarithms of B/A. A side without a bound is infinite.

    If early and late pairs contradict each other, the interval is empty: `low` is above `high`.
    """

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


class Evidence:
    """The evidence from the pairs of one row so far. Values are logarithms of B/A. A larger value is better for B."""

    def __init__(self, xs: Sequence[float], coins: Sequence[int]) -> None:
        """Subtract the predicted effect of running second from x = ln(B/A) of each pair.

        `coins` contains +1 for a pair in which B ran second, and -1 for a pair in which A ran second. Raises
        `ValueError` if an x is not finite, if the numbers of values and coins differ, or if a coin is not +1 or -1.
        """
        if not all(map(math.isfinite, xs)):
            raise ValueError("a ratio is not finite")
        self.cleaned = tuple(without_slot(xs, coins))

    def __len__(self) -> int:
        return len(self.cleaned)

    def above(self, bound: float) -> tuple[float, ...]:
        """Return one value per pair: the largest e-value so far of the statement "the effect is above `bound`"."""
        return _running([one > bound for one in self.cleaned])

    def below(self, bound: float) -> tuple[float, ...]:
        """Return one value per pair: the largest e-value so far of the statement "the effect is below `bound`"."""
        return _running([one < bound for one in self.cleaned])

    def wins(self, bound: float, *, above: bool) -> int:
        """Return how many pairs a statement has won.

        If `above` is true, the statement is "the effect is above `bound`", otherwise "the effect is below `bound`".
        """
        return sum(one > bound if above else one < bound for one in self.cleaned)

    def estimate(self) -> float | None:
        """Return the Hodges-Lehmann estimate of the effect, or None if there are no pairs."""
        return hodges_lehmann(self.cleaned) if self.cleaned else None

    def interval(self, alpha: float) -> Interval:
        """Return the confidence interval of the effect.

        The error rate of each side is at most alpha, even if the interval is computed after every pair. `low` is above
        b if and only if "the effect is above b" is proven. `high` is below b if and only if "the effect is below b" is
        proven.
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
    """Return how many pairs a proof needs in total, including the pairs so far.

    The share of wins is assumed to stay the same. `wins` and `pairs` are the numbers so far. If `pairs` is 0, all pairs
    are assumed to be won. Return None if `most` pairs are not enough.
    """
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
