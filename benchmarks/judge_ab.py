"""Measure how often `patchstack bench` errs: run its judge on simulated machines with known effects.

    python -m benchmarks.judge_ab [--comparisons 10000] [--machine NAME]

Each machine gives the logarithm of the speed of one run after the other. Each comparison is 48 pairs in an order given
by coins, judged by `patchstack.bench.judge` with its defaults. Three true effects: exactly at the margin (how often is
it called faster at any look?), none (how often is it kept?), and +3% (how often is that seen after 24 and 48 pairs?).
For comparison, the earlier rule: six pairs in the order A B B A, a 95% bootstrap interval (BCa) of the mean, kept if
the interval is above zero. Exits with 1 if a promise is broken.

The last machine tests the watch: side B becomes hot in most of its runs and is then slow. Pairs are thrown away by the
clock of their reference runs, which B's heat does not touch. A rule that looks at the clock of the side's own run would
throw away the slow pairs alone.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist, fmean

from patchstack.bench.judge import MARGIN, MOST_PAIRS, Outcome, Pair, Row, Rule, Statement, judge

Speeds = Callable[[random.Random, int], list[float]]
ROW = Row(name="row")
FALSE = 0.013
"""The largest allowed rate of false answers."""


def _noise(deviation: float) -> Speeds:
    return lambda chance, count: [chance.gauss(0, deviation) for _ in range(count)]


def _correlated(chance: random.Random, count: int) -> list[float]:
    """AR(1): successive runs have a correlation of 0.9; the deviation is 3%."""
    found = [chance.gauss(0, 0.03)]
    while len(found) < count:
        found.append(0.9 * found[-1] + chance.gauss(0, 0.03 * math.sqrt(1 - 0.81)))
    return found


def _period(pattern: Sequence[float]) -> Speeds:
    return lambda chance, count: [pattern[i % len(pattern)] + chance.gauss(0, 0.005) for i in range(count)]


def _slower_second(chance: random.Random, count: int) -> list[float]:
    return [(-0.03 if i % 2 else 0) + chance.gauss(0, 0.01) for i in range(count)]


def _drift(chance: random.Random, count: int) -> list[float]:
    return [-0.002 * i + chance.gauss(0, 0.01) for i in range(count)]


def _slow_state(loss: float, into: float, out: float) -> Speeds:
    def speeds(chance: random.Random, count: int) -> list[float]:
        slow, found = chance.random() < into / (into + out), []
        for _ in range(count):
            slow = chance.random() >= out if slow else chance.random() < into
            found.append((math.log1p(-loss) if slow else 0) + chance.gauss(0, 0.01))
        return found

    return speeds


def _heavy_tails(chance: random.Random, count: int) -> list[float]:
    """Draw from Student's t with 2 degrees of freedom, times 1%."""
    return [0.01 * chance.gauss(0, 1) / math.sqrt(chance.expovariate(1)) for _ in range(count)]


def _two_speeds(chance: random.Random, count: int) -> list[float]:
    return [chance.choice((0, 0.03)) + chance.gauss(0, 0.003) for _ in range(count)]


MACHINES: Mapping[str, tuple[Speeds, float]] = {
    "iid 0.5%": (_noise(0.005), 0.95),
    "iid 2%": (_noise(0.02), 0.60),
    "AR(1) 0.9, 3%": (_correlated, 0),
    "period 4": (_period((0, 0.03, 0.03, 0)), 0.20),
    "period 4 reversed": (_period((0.03, 0, 0, 0.03)), 0.20),
    "slower second": (_slower_second, 0.95),
    "drift": (_drift, 0.95),
    "slow state -15%": (_slow_state(0.15, 0.03, 0.3), 0.95),
    "slow state -30%": (_slow_state(0.30, 0.01, 0.1), 0.95),
    "heavy tails": (_heavy_tails, 0),
    "two speeds": (_two_speeds, 0.60),
}
"""Each machine with the least share of comparisons in which +3% must be seen."""


def comparison(speeds: Speeds, effect: float, chance: random.Random) -> list[Pair]:
    """Return the pairs of one comparison; `effect` is ln(B/A)."""
    runs = speeds(chance, 2 * MOST_PAIRS)
    found = []
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        coin = chance.choice((1, -1))
        found.append(Pair(coin=coin, ratios={ROW.name: effect + coin * (second - first)}))
    return found


def is_faster(pairs: Sequence[Pair]) -> bool:
    """Return whether B is called faster at any look."""
    return Statement.FASTER in judge([ROW], Rule(), pairs).rows[0].shown


def old_rule_keeps(speeds: Speeds, chance: random.Random) -> bool:
    """Return whether the earlier rule keeps a switch that does nothing."""
    runs = speeds(chance, 12)
    signs = itertools.cycle((1, -1))  # A B, B A, A B, …
    ratios = [sign * (second - first) for sign, first, second in zip(signs, runs[::2], runs[1::2], strict=False)]
    return _bca_low(ratios) > 0


def _bca_low(values: Sequence[float]) -> float:
    """Return the lower end of the 95% BCa interval of a mean, over every resample. Source: Efron (1987)."""
    count, normal = len(values), NormalDist()
    means: list[tuple[float, int]] = []
    for picked in itertools.combinations_with_replacement(range(count), count):
        ways = math.factorial(count)
        for index in set(picked):
            ways //= math.factorial(picked.count(index))
        means.append((fmean(values[index] for index in picked), ways))
    means.sort()
    mean, whole = fmean(values), count**count
    below = sum(ways for value, ways in means if value < mean) / whole
    bias = normal.inv_cdf(min(max(below, 1 / whole), 1 - 1 / whole))
    left_out = [(sum(values) - value) / (count - 1) for value in values]
    apart = [fmean(left_out) - one for one in left_out]
    skew = sum(one**3 for one in apart) / (6 * sum(one**2 for one in apart) ** 1.5)
    z = bias + normal.inv_cdf(0.025)
    wanted, passed = normal.cdf(bias + z / (1 - skew * z)) * whole, 0
    for value, ways in means:
        passed += ways
        if passed >= wanted:
            return value
    return means[-1][0]


def hot_side(chance: random.Random, *, blind: bool) -> list[Pair]:
    """Return pairs on a machine on which B is 4% faster when cool, and hot and 10% slower in 55% of its runs.

    `blind`: pairs are thrown away by the clock of their reference runs; if not, by the clock of B's run.
    """
    found = []
    for _ in range(MOST_PAIRS):
        hot, odd = chance.random() < 0.55, chance.random() < 0.05
        x = (math.log(0.9) if hot else math.log(1.04)) + chance.gauss(0, 0.005)
        thrown = "a low clock" if (odd if blind else hot) else ""
        found.append(Pair(coin=chance.choice((1, -1)), ratios={ROW.name: x}, thrown=thrown))
    return found


def main() -> int:
    """Simulate, print a table, and check the promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=10_000)
    parser.add_argument("--machine", choices=MACHINES, action="append")
    options = parser.parse_args()
    count, broken = options.comparisons, []
    print(f"{count} comparisons a cell, {MOST_PAIRS} pairs each; the old rule: {min(count, 2000)} of 6 pairs")
    print(f"{'':18}  true +1%  nothing  nothing   +3% seen in      seconds")
    print(f"{'machine':18}  faster    keep     old keep  24 and 48 pairs")
    for name in options.machine or MACHINES:
        speeds, power = MACHINES[name]
        began, chance = time.monotonic(), random.Random(f"{name} 1")
        at_margin = sum(is_faster(comparison(speeds, math.log1p(MARGIN), chance)) for _ in range(count)) / count
        kept = 0
        for _ in range(count):
            kept += judge([ROW], Rule(), comparison(speeds, 0, chance)).outcome is Outcome.KEEP
        early = late = 0
        for _ in range(count):
            pairs = comparison(speeds, math.log1p(0.03), chance)
            early += is_faster(pairs[:24])
            late += is_faster(pairs)
        few = min(count, 2000)
        old = sum(old_rule_keeps(speeds, chance) for _ in range(few)) / few
        print(
            f"{name:18}  {at_margin:7.2%}  {kept / count:7.2%}  {old:8.1%}  {early / count:7.1%} {late / count:7.1%}"
            f"  {time.monotonic() - began:7.0f}",
            flush=True,
        )
        if at_margin > FALSE or kept / count > FALSE or late / count < power:
            broken.append(name)
    if not options.machine:
        chance = random.Random("hot 1")
        blind, seeing = (
            sum(is_faster(hot_side(chance, blind=way)) for _ in range(count)) / count for way in (True, False)
        )
        print(f"B gets hot: called faster in {blind:.2%}; by a rule that sees B's clock in {seeing:.1%}")
        if blind > FALSE:
            broken.append("B gets hot")
    for name in broken:
        print(f"error: {name}: a promise is broken", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
