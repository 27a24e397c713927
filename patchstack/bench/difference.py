"""Compute a rate from runs of two lengths, with the difference method. All functions are pure.

A run that generates g tokens for each of n sequences takes T = fixed + n·g/rate. Two lengths give rate = n·(g2 −
g1)/(T2 − T1). Prefill, loading, and the start and end of a run are in `fixed` and cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEAST = 5
"""The minimum ratio of the time difference to its noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The result of the difference method.

    `rate` is in tokens per second. It is 0 if the longer runs did not take more time. `seconds` is the mean time of the
    longer runs minus the mean time of the shorter runs. `noise` is the standard error of `seconds`. `problem` is the
    reason why the result is INVALID; empty if it is valid.
    """

    rate: float
    seconds: float
    noise: float
    problem: str = ""


def rate_between(sequences: int, tokens: tuple[int, int], seconds: tuple[float, float]) -> float:
    """Return the rate between a shorter and a longer run, in tokens per second.

    `tokens` is (g1, g2), the numbers of tokens for each sequence. `seconds` is (T1, T2), the times of the runs. With n
    sequences, the rate is n·(g2 − g1)/(T2 − T1). Raises `ValueError` unless n and both differences are above 0.
    """
    (g1, g2), (t1, t2) = tokens, seconds
    if sequences < 1 or g2 <= g1 or not t2 > t1:
        raise ValueError("the longer run must have more tokens and take longer")
    return sequences * (g2 - g1) / (t2 - t1)


def difference(
    sequences: int, tokens: tuple[int, int], shorter: Sequence[float], longer: Sequence[float]
) -> Difference:
    """Return the rate in tokens per second, from the times of repeated runs.

    All times are in seconds. `tokens` is (g1, g2). `shorter` contains the times for g1 tokens, with the mean T1.
    `longer` contains the times for g2 tokens, with the mean T2. The result is INVALID if T2 − T1 is less than `LEAST`
    times its standard error. Raises `ValueError` if a length has fewer than two times, because the noise is then
    unknown. Also raises `ValueError` if a time is not positive.
    """
    if min(len(shorter), len(longer)) < 2:
        raise ValueError("each length needs at least two runs to measure the noise")
    if not all(math.isfinite(one) and one > 0 for one in (*shorter, *longer)):
        raise ValueError("a time is not positive")
    seconds = fmean(longer) - fmean(shorter)
    noise = math.hypot(stdev(shorter) / math.sqrt(len(shorter)), stdev(longer) / math.sqrt(len(longer)))
    problem = ""
    if seconds <= 0:
        problem = "the longer runs did not take more time"
    elif seconds < LEAST * noise:
        problem = f"T2 - T1 is {seconds:.3g} s, less than {LEAST} times its noise of {noise:.2g} s"
    rate = rate_between(sequences, tokens, (fmean(shorter), fmean(longer))) if seconds > 0 else 0.0
    return Difference(rate=rate, seconds=seconds, noise=noise, problem=problem)
