"""Plan when requests are sent: closed loop, open loop, burst, staggered, or times from a file. Sends nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass

CLOSED, POISSON, CONSTANT, BURST, STAGGERED, FILE = "closed", "poisson", "constant", "burst", "staggered", "file"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The plan of a run. `planned` has the start time of each request in seconds, None for one that is sent when
    another ends. `most` is the limit of requests in flight, 0 for none."""

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
    """Return the plan of `requests` requests.

    `closed`: `concurrency` in flight, the next is sent when one ends. `staggered`: the same, the first ones `stagger`
    seconds apart. `burst`: all at once. `poisson` and `constant`: `rate` requests a second, independent of the server;
    `concurrency` then is a cap, 0 for none. `file`: at `times`. Raises `ValueError`.
    """
    if requests < 1:
        raise ValueError("there is no request")
    if kind in (CLOSED, STAGGERED):
        if concurrency < 1:
            raise ValueError("how many in flight?")
        gap = stagger if kind == STAGGERED else 0.0
        first = min(concurrency, requests)
        return Arrivals((*(gap * number for number in range(first)), *(None,) * (requests - first)), concurrency)
    if kind == BURST:
        return Arrivals((0.0,) * requests, 0)
    if kind == FILE:
        if len(times) != requests or any(not 0 <= one < 1e6 for one in times):
            raise ValueError("each request has a time in seconds, not below 0")
        return Arrivals(tuple(sorted(times)), concurrency)
    if not 0 < rate <= 1e6:
        raise ValueError("a rate is above 0")
    if kind == CONSTANT:
        return Arrivals(tuple(number / rate for number in range(requests)), concurrency)
    if kind != POISSON:
        raise ValueError(f"no arrivals {kind!r}")
    chance, now, found = random.Random(seed), 0.0, []  # noqa: S311  (a schedule, to be repeated)
    for _ in range(requests):
        found.append(now)
        now += chance.expovariate(rate)
    return Arrivals(tuple(found), concurrency)
