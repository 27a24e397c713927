from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.stats.coin import e_value, exact, least_tosses, least_wins


@pytest.mark.parametrize(
    ("n", "k", "value"),
    [
        (1, 1, 1.5),
        (1, 0, 0.5),
        (8, 8, 56.78),
        (9, 9, 102.3),
        (12, 11, 52.42),
        (16, 15, 481.8),
        (24, 12, 0.2482),
        (24, 19, 31.51),
        (24, 20, 126.25),
        (48, 34, 23.77),
        (48, 35, 59.51),
    ],
)
def test_known_values(n: int, k: int, value: float) -> None:
    assert e_value(n, k) == pytest.approx(value, rel=2e-4)
    assert float(exact(n, k)) == e_value(n, k)


@pytest.mark.parametrize("n, k", [(9, 9), (24, 20), (48, 35), (30, 7)])
def test_it_is_the_integral_of_the_definition(n: int, k: int) -> None:
    steps = 20_000
    width = 0.5 / steps
    points = (0.5 + (i + 0.5) * width for i in range(steps))
    integral = sum(p**k * (1 - p) ** (n - k) for p in points) * width
    assert e_value(n, k) == pytest.approx(2.0 ** (n + 1) * integral, rel=1e-5)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_it_is_a_fair_bet(case: tuple[int, int]) -> None:
    """A fair toss does not change the expected value of E."""
    n, k = case
    assert (exact(n + 1, k) + exact(n + 1, k + 1)) / 2 == exact(n, k)


@pytest.mark.parametrize("n, k", [(9, 9), (12, 12), (16, 15), (20, 18), (24, 20), (32, 26), (40, 31), (48, 36)])
def test_the_least_wins_at_one_percent(n: int, k: int) -> None:
    assert least_wins(n, 0.01) == k


def test_nine_pairs_at_least() -> None:
    assert least_wins(8, 0.01) is None
    assert least_tosses(0.01) == 9
    assert least_tosses(0.01 / 12) == 14


def test_more_wins_than_tosses_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be between 0 and 9, not 10"):
        e_value(9, 10)
