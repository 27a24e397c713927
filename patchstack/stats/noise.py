"""The noise of a machine, from pairs that compare a side with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_NORMAL = 1.4826  # converts the median absolute deviation to the standard deviation of a normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise of pairs, as logarithms of a ratio: the deviation of one pair, from the median absolute deviation; the
    median effect of running second; and the autocorrelation of that effect from pair to pair (-1 to 1, None for fewer
    than four pairs or no spread)."""

    deviation: float
    second: float
    autocorrelation: float | None


def noise_of(xs: Sequence[float], coins: Sequence[int]) -> Noise:
    """Return the noise of pairs of one side, from their x = ln(B/A) and coins. Raises `ValueError` for no pairs."""
    if not xs or len(xs) != len(coins):
        raise ValueError("each pair needs a coin, and there must be at least one pair")
    middle = median(xs)
    seconds = [coin * x for x, coin in zip(xs, coins, strict=True)]
    return Noise(
        deviation=_NORMAL * median([abs(x - middle) for x in xs]),
        second=median(seconds),
        autocorrelation=_autocorrelation(seconds),
    )


def _autocorrelation(values: Sequence[float]) -> float | None:
    """Return the correlation of neighbours about the mean."""
    if len(values) < 4:
        return None
    mean = sum(values) / len(values)
    apart = [value - mean for value in values]
    spread = sum(one * one for one in apart)
    return sum(one * other for one, other in pairwise(apart)) / spread if spread else None
