"""Decide how many cases tests try: a sample by default, all in `make thorough`."""

from __future__ import annotations

import os
from collections.abc import Iterable

THOROUGH = bool(os.environ.get("PATCHSTACK_THOROUGH"))
"""Read once, because tests run without this project's variables."""


def steps(count: int, *, every: int, also: Iterable[int] = ()) -> list[int]:
    """Return the steps, of 1 to `count`, at which a test kills: each in a thorough run, otherwise the first, the last,
    one of `every`, and those of `also`."""
    if THOROUGH:
        return list(range(1, count + 1))
    return sorted({1, count, *range(every, count + 1, every), *(step for step in also if 1 <= step <= count)})


def tries(usual: int, thorough: int) -> int:
    """Return how many examples a test draws."""
    return thorough if THOROUGH else usual
