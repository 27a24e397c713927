from __future__ import annotations

import pytest

from patchstack.bench.difference import difference, rate_between


@pytest.mark.parametrize(
    ("sequences", "tokens", "seconds", "rate"),
    [
        (256, (16, 64), (4.502, 17.924), 915.51),
        (256, (16, 64), (6.195, 17.607), 1076.76),
        (128, (16, 64), (5.754, 21.768), 383.66),
        (128, (16, 64), (13.041, 27.165), 435.00),
    ],
)
def test_the_rates_of_the_notebook(
    sequences: int, tokens: tuple[int, int], seconds: tuple[float, float], rate: float
) -> None:
    assert rate_between(sequences, tokens, seconds) == pytest.approx(rate, abs=0.005)


def test_the_ratios_of_the_notebook() -> None:
    phase_0 = rate_between(256, (16, 64), (4.502, 17.924)) / rate_between(256, (16, 64), (6.195, 17.607))
    phase_50 = rate_between(128, (16, 64), (5.754, 21.768)) / rate_between(128, (16, 64), (13.041, 27.165))
    assert phase_0 == pytest.approx(0.850, abs=0.0005)
    assert phase_50 == pytest.approx(0.8820, abs=0.00005)


def test_what_both_lengths_share_cancels() -> None:
    found = difference(4, (16, 64), [10 + 1.6, 10 + 1.6, 10 + 1.601], [10 + 6.4, 10 + 6.4, 10 + 6.401])
    assert found.problem == ""
    assert found.rate == pytest.approx(40.0, rel=1e-3)


def test_a_difference_within_the_noise_is_invalid() -> None:
    found = difference(4, (16, 64), [10.0, 11.0, 12.0], [11.5, 12.5, 13.5])
    assert found.problem == "T2 - T1 is 1.5 s, less than 5 times its noise of 0.82 s"
    assert difference(4, (16, 64), [10.0, 10.1], [9.0, 9.1]).problem == "the longer runs did not take more time"


@pytest.mark.parametrize(("shorter", "longer"), [([1.0], [2.0, 2.1]), ([1.0, float("nan")], [2.0, 2.1])])
def test_times_that_tell_no_noise_are_refused(shorter: list[float], longer: list[float]) -> None:
    with pytest.raises(ValueError, match=r"each length needs at least two runs|a time is not positive"):
        difference(4, (16, 64), shorter, longer)
    with pytest.raises(ValueError, match="more tokens and take longer"):
        rate_between(4, (16, 16), (1.0, 2.0))
