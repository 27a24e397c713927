"""Test several hypotheses with Holm's procedure, which controls the family-wise error rate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def holm(e_values: Mapping[Name, float], alpha: float) -> frozenset[Name]:
    """Return the hypotheses that are proven. The probability that any of them is false is at most alpha.

    The hypotheses may depend on each other. `e_values` contains the largest e-value of each hypothesis so far. The
    procedure uses 1/e-value as the p-value. With n hypotheses, the largest e-value must reach n/alpha, the second
    largest (n − 1)/alpha, and so on. The test stops at the first e-value that is too small.

    Source: Holm, "A simple sequentially rejective multiple test procedure" (1979).
    """
    held: set[Name] = set()
    left = len(e_values)
    for name, value in sorted(e_values.items(), key=lambda one: -one[1]):
        if value * alpha < left:
            break
        held.add(name)
        left -= 1
    return frozenset(held)
