"""Estimate the noise of a machine from A/A pairs, which compare a side with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_NORMAL = 1.4826  # converts the median absolute deviation to the standard deviation of a normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise of A/A pairs.

    `deviation` is the standard deviation of ln(B/A) of a pair, estimated from the median absolute deviation. `second`
    is the median effect of running second, also as a logarithm. `autocorrelation` is the correlation of this effect
    between consecutive pairs (-1 to 1). It is None if there are fewer than four pairs, or if the effect is the same in
    all pairs.
    """

    deviation: float
    second: float
    autocorrelation: float | None


def noise_of(xs: Sequence[float], coins: Sequence[int]) -> Noise:
    """Return the noise of A/A pairs.

    `xs` contains ln(B/A) of each pair. `coins` contains +1 for a pair in which B ran second, and -1 for a pair in which
    A ran second. Raises `ValueError` if there are no pairs, or if the numbers of values and coins differ.
    """
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
    """Return the correlation of consecutive values.

    Return None if there are fewer than four values, or if all values are equal.
    """
    if len(values) < 4:
        return None
    mean = sum(values) / len(values)
    apart = [value - mean for value in values]
    spread = sum(one * one for one in apart)
    return sum(one * other for one, other in pairwise(apart)) / spread if spread else None
