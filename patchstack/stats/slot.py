"""Use earlier pairs to predict the effect of running second, and subtract this effect.

A pair has a value x = ln(B/A) and a coin s: +1 if B ran second, −1 if A ran second. If the second run of a pair is
slower on a machine, x is too low for s = +1 and too high for s = −1. If the effect v of running second is predictable,
x is corrected to x − s·v. The result is valid for every v that depends only on earlier pairs (see `sequence`). A bad
prediction reduces statistical power, but the error rate is still at most alpha.

Five predictions compete: 0, the median effect of running second, and the effect in the pair 1, 2 or 4 pairs
earlier (for machines whose speed changes periodically). The prediction with the smallest error so far is used. The
first `UNTOUCHED` pairs are not corrected. Each prediction also estimates the effect of B from the same earlier pairs,
because this effect must be subtracted from x to find the effect of running second.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

LAGS = (1, 2, 4)
UNTOUCHED = 4


def without_slot(xs: Sequence[float], coins: Sequence[int]) -> list[float]:
    """Return ln(B/A) of each pair, without the predicted effect of running second.

    `xs` contains ln(B/A) of each pair. `coins` contains +1 for a pair in which B ran second, and -1 for a pair in which
    A ran second. A prediction uses only earlier pairs, so later pairs do not change earlier results.

    Raises `ValueError` if the numbers of values and coins differ, or if a coin is not +1 or -1.
    """
    if len(xs) != len(coins) or any(coin not in (1, -1) for coin in coins):
        raise ValueError("each pair needs a coin, which is +1 or -1")
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
    """Return the five predictions for the pair `index`, each as (effect of B, effect of running second)."""
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
