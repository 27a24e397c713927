"""The client watches itself: a loop that stops for a while is late for every sample that it missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from patchstack.llama.client import watch as module
from patchstack.llama.client.watch import EACH, SelfWatch


class Loop:
    """A loop with a controlled clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due = 0.0
        self.call: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    monotonic = time

    def process_time(self) -> float:
        return 0.0

    def call_at(self, when: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.due, self.call = when, call
        return cast(asyncio.TimerHandle, None)

    def run(self, *late: float) -> None:
        """Call each next sample that many seconds after it is due."""
        for one in late:
            self.now = self.due + one
            self.call()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    found = Loop()
    monkeypatch.setattr(module, "time", found)
    return found


def seen(loop: Loop, *late: float) -> dict[str, Any]:
    watch = SelfWatch(cast(asyncio.AbstractEventLoop, loop))
    watch.start()
    loop.run(*late)
    return watch.document()


def test_a_timer_that_is_in_time_is_not_late_and_a_millisecond_is_nobodys(loop: Loop) -> None:
    found = seen(loop, 0.0, 0.0005, 0.001, 0.0)
    assert (found["samples"], found["lag_max_ms"]) == (4, 0.0)


def test_a_stop_counts_for_each_sample_that_was_due_in_it(loop: Loop) -> None:
    """0.2 s in a run of a second: 40 samples, late by 200, 195, … 5 ms; without them p99 would be 0."""
    found = seen(loop, *[0.0] * 160, 0.201)
    assert found["samples"] == 160 + round(0.2 / EACH)
    assert found["lag_max_ms"] == pytest.approx(200)
    assert found["lag_p99_ms"] == pytest.approx(195, abs=6)
    assert found["lag_p50_ms"] == 0.0


def test_a_lag_below_a_sample_counts_once(loop: Loop) -> None:
    found = seen(loop, 0.005, 0.004)
    assert (found["samples"], found["lag_max_ms"]) == (2, pytest.approx(4))


def test_a_machine_that_slept_does_not_fill_the_memory(loop: Loop) -> None:
    assert seen(loop, 86_400.0)["samples"] == 100_000
