"""Holm's procedure: find the statements that hold together, with one error rate for the whole family."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def holm(e_values: Mapping[Name, float], alpha: float) -> frozenset[Name]:
    """Return the statements that hold: the chance that any is false is at most alpha, under any dependence.

    `e_values` has the largest e-value so far of each; its inverse is the p-value. The largest must reach
    `len(e_values) / alpha`, the next one less of them, and so on. Source: Holm, "A simple sequentially rejective
    multiple test procedure" (1979).
    """
    held: set[Name] = set()
    left = len(e_values)
    for name, value in sorted(e_values.items(), key=lambda one: -one[1]):
        if value * alpha < left:
            break
        held.add(name)
        left -= 1
    return frozenset(held)
