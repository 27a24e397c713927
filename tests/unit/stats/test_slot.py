from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.stats.slot import UNTOUCHED, without_slot

COINED = st.lists(st.tuples(st.floats(-0.5, 0.5), st.sampled_from((1, -1))), min_size=1, max_size=30)


@given(COINED, COINED)
def test_a_prediction_uses_earlier_pairs_alone(pairs: list[tuple[float, int]], more: list[tuple[float, int]]) -> None:
    xs, coins = (list(each) for each in zip(*pairs, strict=True))
    all_xs, all_coins = (list(each) for each in zip(*pairs, *more, strict=True))
    assert without_slot(all_xs, all_coins)[: len(xs)] == without_slot(xs, coins)


@given(COINED, st.floats(-1, 1))
def test_the_prediction_of_a_pair_does_not_depend_on_that_pair(pairs: list[tuple[float, int]], other: float) -> None:
    """The subtracted value is s·v with v known before the pair, so the result changes one for one with the pair's x."""
    xs, coins = (list(each) for each in zip(*pairs, strict=True))
    moved = [*xs[:-1], other]
    taken, also = (
        coins[-1] * (a[-1] - b[-1]) for a, b in ((xs, without_slot(xs, coins)), (moved, without_slot(moved, coins)))
    )
    assert taken == pytest.approx(also, abs=1e-12)
    flipped = [*coins[:-1], -coins[-1]]
    assert flipped[-1] * (xs[-1] - without_slot(xs, flipped)[-1]) == pytest.approx(taken, abs=1e-12)


@given(COINED, st.floats(-0.2, 0.2))
def test_a_shift_of_the_effect_shifts_every_value(pairs: list[tuple[float, int]], shift: float) -> None:
    """On a grid, so that rounding decides no tie."""
    xs, coins = [round(x * 1024) / 1024 for x, _ in pairs], [coin for _, coin in pairs]
    shift = round(shift * 1024) / 1024
    moved = without_slot([x + shift for x in xs], coins)
    assert moved == pytest.approx([one + shift for one in without_slot(xs, coins)], abs=1e-9)


@pytest.mark.parametrize("pattern", [(0.03,), (0.03, -0.03), (0.03, 0.01, -0.03, -0.01)])
def test_what_repeats_is_taken_off(pattern: tuple[float, ...]) -> None:
    chance = random.Random(2)
    coins = [chance.choice((1, -1)) for _ in range(60)]
    xs = [0.02 + coin * pattern[i % len(pattern)] for i, coin in enumerate(coins)]
    cleaned = without_slot(xs, coins)
    assert cleaned[:UNTOUCHED] == xs[:UNTOUCHED]
    assert cleaned[30:] == pytest.approx([0.02] * 30, abs=1e-9)


def test_each_pair_has_a_coin() -> None:
    with pytest.raises(ValueError, match="each pair needs a coin"):
        without_slot([0.1, 0.2], [1])
    with pytest.raises(ValueError, match="each pair needs a coin"):
        without_slot([0.1], [0])
