"""Compute the Hodges-Lehmann estimate of a location."""

from __future__ import annotations

from collections.abc import Sequence


def hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of all pair means. A pair consists of two of the values, or of one value twice.

    Raises `ValueError` if there are no values. Source: Hodges and Lehmann, "Estimates of location based on rank tests"
    (1963).
    """
    if not values:
        raise ValueError("the Hodges-Lehmann estimate needs at least one value")
    sums = sorted(one + other for index, one in enumerate(values) for other in values[index:])
    half, odd = divmod(len(sums), 2)
    return sums[half] / 2 if odd else (sums[half - 1] + sums[half]) / 4
