from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import pytest

from patchstack.bench.judge import Demand, Judged, Outcome, Pair, Row, Rule, Statement, judge

ROW = Row(name="decode 32")
GUARD = Row(name="prefill 32", primary=False)


def pairs(count: int, seed: int = 1, noise: float = 0.004, **effects: float) -> list[Pair]:
    """Return pairs of rows with these effects, as percentages by the row's first word."""
    chance = random.Random(seed)
    names = {"decode": ROW.name, "prefill": GUARD.name}
    return [
        Pair(
            coin=chance.choice((1, -1)),
            ratios={names[word]: math.log1p(e / 100) + chance.gauss(0, noise) for word, e in effects.items()},
        )
        for _ in range(count)
    ]


def judged(ran: list[Pair], *rows: Row, rule: Rule | None = None) -> Judged:
    return judge(rows or (ROW,), rule or Rule(), ran)


def test_a_gain_above_the_margin_is_kept() -> None:
    found = judged(pairs(48, decode=5))
    assert found.outcome is Outcome.KEEP
    assert found.reason == "decode 32 is faster by more than 1%"
    assert found.decided == 9


def test_a_gain_below_the_margin_is_not_worth_a_patch() -> None:
    found = judged(pairs(48, decode=0.2))
    assert found.outcome is Outcome.REJECT
    assert found.reason == "not worth a patch: decode 32 is below +1%"


def test_a_loss_is_rejected() -> None:
    found = judged(pairs(48, decode=-5))
    assert found.outcome is Outcome.REJECT
    assert found.reason == "decode 32 is slower by more than 1%"


def test_a_gain_is_kept_only_if_the_guard_is_shown_not_worse() -> None:
    assert judged(pairs(48, decode=5, prefill=0), ROW, GUARD).outcome is Outcome.KEEP
    early = judged(pairs(12, noise=0.02, decode=30, prefill=-2), ROW, GUARD)
    assert Statement.FASTER in early.rows[0].shown
    assert early.outcome is Outcome.UNDECIDED
    assert early.rows[1].needed is None or early.rows[1].needed > 12


def test_a_guard_at_minus_two_percent_never_rejects() -> None:
    for seed in range(30):
        found = judged(pairs(48, seed, noise=0.001, decode=5, prefill=-2), ROW, GUARD)
        assert found.outcome is Outcome.KEEP


def test_a_guard_that_got_worse_rejects_in_spite_of_the_gain() -> None:
    found = judged(pairs(48, decode=5, prefill=-6), ROW, GUARD)
    assert found.outcome is Outcome.REJECT
    assert found.reason == "prefill 32 is slower by more than 3%"


def test_an_effect_at_the_margin_is_no_difference() -> None:
    found = judged(pairs(48, decode=1))
    assert found.outcome is Outcome.NO_DIFFERENCE
    assert found.reason == "48 pairs ran, and neither keep nor reject was shown"


def test_a_machine_too_noisy_to_tell_is_invalid() -> None:
    found = judged(pairs(48, noise=0.2, decode=1))
    assert found.outcome is Outcome.INVALID
    assert "too noisy" in found.reason


def test_too_few_pairs_say_nothing() -> None:
    found = judged(pairs(8, decode=50), rule=Rule(most=8))
    assert found.outcome is Outcome.INVALID
    assert found.reason == "decode 32: too noisy: its interval is open wide, more than 6 margins"


def test_an_effect_that_turns_is_a_contradiction() -> None:
    """Of two primary rows, the first gains 2% for nine pairs (102 is not enough for two), and then loses 0.5%."""
    rows, chance = [Row(name="one"), Row(name="two")], random.Random(3)
    ran = [
        Pair(
            coin=chance.choice((1, -1)),
            ratios={"one": 0.02 if i < 9 else -0.005, "two": rows[1].bound(Statement.FASTER)},
        )
        for i in range(48)
    ]
    found = judge(rows, Rule(), ran)
    assert found.outcome is Outcome.INVALID
    assert found.reason == "one: early and late pairs contradict each other: the sides or the machine changed meanwhile"


def test_a_fifth_of_the_pairs_may_be_thrown_away_and_no_more() -> None:
    ran = pairs(48, decode=5)
    some = [replace(pair, thrown="reference runs differ by 12%") if i % 5 == 0 else pair for i, pair in enumerate(ran)]
    assert judged(some).outcome is Outcome.KEEP
    many = [replace(pair, thrown="company") if i % 2 == 0 else pair for i, pair in enumerate(ran)]
    found = judged(many)
    assert found.outcome is Outcome.INVALID
    assert found.reason == "10 of 19 pairs were thrown away: the machine was disturbed"


def test_what_was_thrown_away_changes_no_figure() -> None:
    ran = pairs(20, decode=3)
    odd = Pair(coin=1, ratios={ROW.name: -5.0}, thrown="company")
    assert judged([*ran[:10], odd, *ran[10:]]).rows == judged(ran).rows


def test_the_first_look_that_decides_decides() -> None:
    ran = pairs(48, decode=4)
    first = judged(ran).decided
    assert first is not None
    for count in range(1, 49):
        found = judged(ran[:count])
        assert found.outcome is (Outcome.KEEP if count >= first else Outcome.UNDECIDED)


def test_not_worse_is_met_by_no_difference_and_not_by_a_loss() -> None:
    rule = Rule(demand=Demand.NOT_WORSE)
    row = replace(ROW, guard_margin=0.01)
    even = judged(pairs(48, noise=0.002, decode=0), row, rule=rule)
    assert (even.outcome, even.demand_met, even.reason) == (
        Outcome.NO_DIFFERENCE,
        True,
        "every row is shown not worse",
    )
    assert judged(pairs(48, decode=-4), row, rule=rule).demand_met is False
    assert judged(pairs(4, decode=0), row, rule=rule).demand_met is False


def test_keep_is_met_by_keep_alone() -> None:
    rule = Rule(demand=Demand.KEEP)
    assert judged(pairs(48, decode=5), rule=rule).demand_met is True
    assert judged(pairs(48, decode=0), rule=rule).demand_met is False
    assert judged(pairs(48, decode=0)).demand_met is None


def test_several_primary_rows_share_the_error_rate() -> None:
    rows = [Row(name=f"row {i}") for i in range(12)]
    ran = [Pair(coin=(-1) ** i, ratios={row.name: 0.05 for row in rows}) for i in range(14)]
    assert judge(rows, Rule(), ran[:13]).outcome is Outcome.UNDECIDED
    assert judge(rows, Rule(), ran).outcome is Outcome.KEEP


def test_a_comparison_without_a_primary_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no row is primary"):
        judge([GUARD], Rule(), [])


def test_20_rows_of_48_pairs_are_judged_in_a_fifth_of_a_second() -> None:
    chance = random.Random(4)
    rows = [Row(name=f"row {i}", primary=i < 4) for i in range(20)]
    ran = [
        Pair(coin=chance.choice((1, -1)), ratios={row.name: chance.gauss(0.01, 0.01) for row in rows})
        for _ in range(48)
    ]
    began = time.process_time()
    assert judge(rows, Rule(), ran).counted == 48
    assert time.process_time() - began < 0.2
