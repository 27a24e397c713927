"""Compute how the number of processed tokens grows with the steps of an agent.

Also compute the number of processed tokens for prompts that only grow, and for prompts that end with images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of processed tokens: after n steps, the total is about `linear·n + quadratic·n²`."""

    linear: float
    quadratic: float


def growth(processed: Sequence[int]) -> Growth:
    """Estimate how the total number of processed tokens grows.

    `processed` contains the number of tokens of each step. A line is fitted to these numbers by least squares. If step
    i (counted from 1) has `a + b·i` tokens, n steps have `(a + b/2)·n + b/2·n²` tokens. If there is only one step,
    `quadratic` is 0.
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
    """Return the number of tokens of every step from the first to the last known step.

    `steps` are pairs (step, tokens) for the steps whose number of tokens is known. The numbers between two such steps
    are interpolated linearly.
    """
    found: list[int] = []
    for (one, tokens), (other, more) in pairwise(steps):
        found += [round(tokens + (more - tokens) * (at - one) / (other - one)) for at in range(one, other)]
    return (*found, steps[-1][1]) if steps else ()


def new_tokens(totals: Sequence[int]) -> int:
    """Estimate the number of tokens that a step adds.

    The estimate is the largest growth of the prompt from one step to the next. It is 0 for fewer than two steps.

    If a step also removes parts of the prompt, the prompt grows by fewer tokens than the step adds. If every step adds
    the same number of tokens, and at least one step removes nothing, the estimate is exact.
    """
    return max((later - earlier for earlier, later in pairwise(totals)), default=0)


def append_only(first: int, steps: int, added: int) -> int:
    """Return the number of processed tokens if every step only appends `added` tokens.

    The prompt of the first step has `first` tokens.
    """
    return first + (steps - 1) * added if steps else 0


def images_at_end(fixed: int, steps: int, text: int, image: int, kept: int) -> int:
    """Return the number of processed tokens if each prompt ends with the last `kept` images of `image` tokens each.

    Each step restores the state before the images, adds `text` tokens to it, and processes the images again. `fixed` is
    the number of tokens before the first step.
    """
    return fixed + sum(text + min(kept, at) * image for at in range(1, steps + 1))
