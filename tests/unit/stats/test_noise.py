from __future__ import annotations

import random

import pytest

from patchstack.stats.noise import noise_of


def test_the_noise_of_a_known_machine() -> None:
    chance = random.Random(3)
    coins = [chance.choice((1, -1)) for _ in range(4000)]
    found = noise_of([coin * -0.03 + chance.gauss(0, 0.01) for coin in coins], coins)
    assert found.second == pytest.approx(-0.03, abs=0.002)
    assert found.autocorrelation == pytest.approx(0, abs=0.05)
    assert noise_of([chance.gauss(0, 0.01) for _ in coins], coins).deviation == pytest.approx(0.01, rel=0.1)


def test_a_machine_that_alternates_is_told_by_its_autocorrelation() -> None:
    found = noise_of([(-1) ** i * 0.03 for i in range(40)], [1] * 40)
    assert found.autocorrelation == pytest.approx(-1, abs=0.05)


def test_too_few_pairs_tell_no_autocorrelation() -> None:
    assert noise_of([0.1, 0.2, 0.3], [1, 1, -1]).autocorrelation is None
    assert noise_of([0.0] * 9, [1] * 9).autocorrelation is None
    with pytest.raises(ValueError, match="each pair needs a coin"):
        noise_of([], [])
