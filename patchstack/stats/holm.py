"""Test several statements with Holm's procedure, which controls the family-wise error rate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def holm(e_values: Mapping[Name, float], alpha: float) -> frozenset[Name]:
    """Return the statements that are proven. The probability that any of them is false is at most alpha.

    The statements may depend on each other. `e_values` contains the largest e-value of each statement so far; 1/e-value
    is the p-value. With n statements, the largest e-value must reach n/alpha, the second largest (n − 1)/alpha, and so
    on. The first e-value that is too small ends the search. Source: Holm, "A simple sequentially rejective multiple
    test procedure" (1979).
    """
    held: set[Name] = set()
    left = len(e_values)
    for name, value in sorted(e_values.items(), key=lambda one: -one[1]):
        if value * alpha < left:
            break
        held.add(name)
        left -= 1
    return frozenset(held)
