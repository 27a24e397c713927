"""Predict the effect of running second from earlier pairs alone.

A pair is x = ln(B/A) with its coin s: +1 if B ran second, −1 if A did. On a machine where the second run of a pair is
slower, x is too low for s = +1 and too high for s = −1. If the effect v of running second is predictable, it can be
subtracted: x − s·v. The sign remains a fair coin as long as v comes from earlier pairs alone (see `sequence`), so a bad
prediction costs power but never validity.

Five predictions compete: none (0), the median effect of running second, and its effect 1, 2 or 4 pairs back, for
machines with a period. The one with the smallest error so far is used; the first `UNTOUCHED` pairs are used unchanged.
Each prediction has its own estimate of the effect of B, from the same earlier pairs, because the effect of running
second on a pair is known only after that is subtracted.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

LAGS = (1, 2, 4)
UNTOUCHED = 4


def without_slot(xs: Sequence[float], coins: Sequence[int]) -> list[float]:
    """Return each x minus s·v, where v is predicted from the pairs before it. More pairs do not change earlier values.
    Raises `ValueError` unless there is one coin, +1 or −1, for each x."""
    if len(xs) != len(coins) or any(coin not in (1, -1) for coin in coins):
        raise ValueError("each pair has a coin, +1 or -1")
    everything: list[float] = []
    by_coin: dict[int, list[float]] = {1: [], -1: []}
    middles: dict[int, list[float]] = {lag: [] for lag in LAGS}
    errors = [0.0] * (2 + len(LAGS))
    cleaned: list[float] = []
    for index, (x, coin) in enumerate(zip(xs, coins, strict=True)):
        v = 0.0
        if index:
            predictions = _predictions(index, xs, coins, everything, by_coin, middles)
            if index >= UNTOUCHED:
                v = predictions[min(range(len(errors)), key=errors.__getitem__)][1]
            for which, (effect, slot) in enumerate(predictions):
                errors[which] += abs(x - effect - coin * slot)
        cleaned.append(x - coin * v)
        insort(everything, x)
        insort(by_coin[coin], x)
        for lag in LAGS:
            if index >= lag and coins[index - lag] != coin:
                insort(middles[lag], (x + xs[index - lag]) / 2)
    return cleaned


def _predictions(
    index: int,
    xs: Sequence[float],
    coins: Sequence[int],
    everything: Sequence[float],
    by_coin: dict[int, list[float]],
    middles: dict[int, list[float]],
) -> list[tuple[float, float]]:
    """Return, for each prediction, the estimated effect and the effect of running second before the pair of that
    index."""
    middle = _median(everything)
    found = [(middle, 0.0)]
    if by_coin[1] and by_coin[-1]:
        second, first = _median(by_coin[1]), _median(by_coin[-1])
        found.append(((second + first) / 2, (second - first) / 2))
    else:
        found.append((middle, 0.0))
    for lag in LAGS:
        if index < lag:
            found.append((middle, 0.0))
            continue
        effect = _median(middles[lag]) if middles[lag] else middle
        found.append((effect, coins[index - lag] * (xs[index - lag] - effect)))
    return found


def _median(ordered: Sequence[float]) -> float:
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2
