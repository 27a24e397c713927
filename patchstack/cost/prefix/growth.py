"""Compute how an agent's processed tokens grow with its steps, and how many alternatives would process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The total after n steps, about `linear·n + quadratic·n²` tokens."""

    linear: float
    quadratic: float


def growth(processed: Sequence[int]) -> Growth:
    """Return the growth of the total from the line that best fits the tokens of each step (least squares).

    A step i of `a + b·i` tokens sums to `(a + b/2)·n + b/2·n²`, with i from 1. One step has no slope.
    """
    count = len(processed)
    if count < 2:
        return Growth(linear=float(sum(processed)), quadratic=0.0)
    middle, mean = (count + 1) / 2, sum(processed) / count
    spread = sum((one - middle) ** 2 for one in range(1, count + 1))
    slope = sum((at - middle) * (one - mean) for at, one in enumerate(processed, 1)) / spread
    start = mean - slope * middle
    return Growth(linear=start + slope / 2, quadratic=slope / 2)


def between(steps: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the tokens of every step from the first to the last of (step, tokens), by linear interpolation."""
    found: list[int] = []
    for (one, tokens), (other, more) in pairwise(steps):
        found += [round(tokens + (more - tokens) * (at - one) / (other - one)) for at in range(one, other)]
    return (*found, steps[-1][1]) if steps else ()


def new_tokens(totals: Sequence[int], cached: Sequence[int]) -> int:
    """Return an estimate of the tokens that a step adds: the largest growth from one step to the next. A prompt from
    which parts were removed grows by less than was added. So the estimate is right if at least one step only appended.
    0 for fewer than two steps.
    """
    return max((later - earlier for earlier, later in pairwise(totals)), default=0)


def append_only(first: int, steps: int, added: int) -> int:
    """Return the tokens that are processed if every step only appends: the whole first prompt, then the additions."""
    return first + (steps - 1) * added if steps else 0


def images_at_end(fixed: int, steps: int, text: int, image: int, kept: int) -> int:
    """Return the tokens that are processed if the last `kept` images of `image` tokens are at the end of each prompt.

    Each step restores the state before the images, adds `text` tokens to it, and processes the images again. `fixed`
    are the tokens before the first step.
    """
    return fixed + sum(text + min(kept, at) * image for at in range(1, steps + 1))
