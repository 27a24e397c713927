"""Plan when requests are sent. This module sends nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass

CLOSED, POISSON, CONSTANT, BURST, STAGGERED, FILE = "closed", "poisson", "constant", "burst", "staggered", "file"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The schedule of a run.

    `planned` contains the start time of each request in seconds. The time is None for a request that is sent when
    another request ends. `most` is the maximum number of requests in flight. 0 means no limit.
    """

    planned: tuple[float | None, ...]
    most: int


def arrivals(
    kind: str,
    requests: int,
    *,
    concurrency: int = 0,
    rate: float = 0.0,
    stagger: float = 0.0,
    seed: int = 0,
    times: tuple[float, ...] = (),
) -> Arrivals:
    """Return the schedule for `requests` requests.

    `kind` is one of these:

    - `closed`: `concurrency` requests are in flight. When one ends, the next is sent.
    - `staggered`: like `closed`, but the first requests are sent `stagger` seconds apart.
    - `burst`: all requests are sent at once.
    - `constant`: `rate` requests are sent per second, at equal intervals.
    - `poisson`: `rate` requests are sent per second on average, at random intervals.
    - `file`: the requests are sent at `times`.

    With the last three kinds, at most `concurrency` requests are in flight; 0 means no limit.

    Raises `ValueError` for invalid values.
    """
    if requests < 1:
        raise ValueError("the number of requests must be at least 1")
    if kind in (CLOSED, STAGGERED):
        if concurrency < 1:
            raise ValueError("the number of requests in flight must be at least 1")
        gap = stagger if kind == STAGGERED else 0.0
        first = min(concurrency, requests)
        return Arrivals((*(gap * number for number in range(first)), *(None,) * (requests - first)), concurrency)
    if kind == BURST:
        return Arrivals((0.0,) * requests, 0)
    if kind == FILE:
        if len(times) != requests or any(not 0 <= one < 1e6 for one in times):
            raise ValueError("each request needs a start time in seconds, from 0 to 1e6")
        return Arrivals(tuple(sorted(times)), concurrency)
    if not 0 < rate <= 1e6:
        raise ValueError("the rate must be above 0 and at most 1e6")
    if kind == CONSTANT:
        return Arrivals(tuple(number / rate for number in range(requests)), concurrency)
    if kind != POISSON:
        raise ValueError(f"unknown kind of arrivals: {kind!r}")
    chance, now, found = random.Random(seed), 0.0, []  # noqa: S311  (a schedule, to be repeated)
    for _ in range(requests):
        found.append(now)
        now += chance.expovariate(rate)
    return Arrivals(tuple(found), concurrency)
