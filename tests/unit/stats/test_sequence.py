from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.stats.holm import holm
from patchstack.stats.location import hodges_lehmann
from patchstack.stats.sequence import Evidence, pairs_needed

PAIRS = st.lists(st.tuples(st.floats(-0.1, 0.1), st.sampled_from((1, -1))), min_size=1, max_size=60)
BOUND = st.floats(-0.1, 0.1)


@given(PAIRS, BOUND, st.sampled_from((0.01, 0.05, 0.2)))
def test_interval_and_statements_cannot_disagree(pairs: list[tuple[float, int]], bound: float, alpha: float) -> None:
    evidence = Evidence([x for x, _ in pairs], [coin for _, coin in pairs])
    interval = evidence.interval(alpha)
    assert (evidence.above(bound)[-1] * alpha >= 1) == (bound < interval.low)
    assert (evidence.below(bound)[-1] * alpha >= 1) == (bound > interval.high)


@given(PAIRS, BOUND)
def test_what_was_shown_stays_shown(pairs: list[tuple[float, int]], bound: float) -> None:
    values = Evidence([x for x, _ in pairs], [coin for _, coin in pairs]).above(bound)
    assert list(values) == sorted(values)


def test_a_tie_counts_against_both_statements() -> None:
    evidence = Evidence([0.25] * 4, [1, -1, 1, -1])
    assert evidence.wins(0.25, above=True) == evidence.wins(0.25, above=False) == 0
    assert evidence.above(0.25)[-1] < 1


def test_nine_equal_pairs_show_a_gain() -> None:
    evidence = Evidence([0.05] * 9, [1, -1, 1, 1, -1, -1, 1, -1, 1])
    assert evidence.above(0.01)[-1] == pytest.approx(102.3)
    assert evidence.interval(0.01).low == pytest.approx(0.05)
    assert Evidence([0.05] * 8, [1] * 8).interval(0.01).low == -math.inf


def test_a_fair_coin_is_seldom_called_unfair() -> None:
    """An effect of exactly the bound, on a machine whose second run of a pair is faster every other time."""
    chance, said = random.Random(5), 0
    for _ in range(1500):
        coins = [chance.choice((1, -1)) for _ in range(48)]
        xs = [0.01 + s * ((0.03, -0.03)[i % 2] + chance.gauss(0, 0.005)) for i, s in enumerate(coins)]
        said += Evidence(xs, coins).above(0.01)[-1] >= 100
    assert said <= 24  # 15 expected at most; more than 24 has a chance of 1%


def test_a_ratio_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        Evidence([math.nan], [1])


def test_hodges_lehmann_is_the_median_of_means_of_pairs() -> None:
    assert hodges_lehmann([1, 2, 10]) == 3.75  # 1 1.5 2 5.5 6 10
    assert hodges_lehmann([3]) == 3
    with pytest.raises(ValueError, match="needs at least one value"):
        hodges_lehmann([])


def test_how_many_pairs_it_would_take() -> None:
    assert pairs_needed(9, 9, 0.01) == 9
    assert pairs_needed(5, 5, 0.01) == 9
    assert pairs_needed(5, 10, 0.01) is None
    assert pairs_needed(15, 20, 0.01) == 44


def test_holm_gives_each_next_statement_one_row_less() -> None:
    assert holm({"a": 300, "b": 200, "c": 100}, 0.01) == {"a", "b", "c"}
    assert holm({"a": 300, "b": 199, "c": 150}, 0.01) == {"a"}
    assert holm({"a": 299, "b": 299, "c": 299}, 0.01) == frozenset()
    assert holm({}, 0.01) == frozenset()
