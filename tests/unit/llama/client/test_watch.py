"""The client watches itself: a loop that stops is late for every sample that it missed."""

from __future__ import annotations

import asyncio
import time

import pytest

from patchstack.llama.client.watch import EACH, SelfWatch


async def watched(*stalls: float) -> dict[str, object]:
    """Half a second, with these stalls in it."""
    watch = SelfWatch(asyncio.get_running_loop())
    watch.start()
    for stall in stalls:
        await asyncio.sleep(0.02)
        time.sleep(stall)
    await asyncio.sleep(0.5 - sum(stalls) - 0.02 * len(stalls))
    watch.stop()
    return watch.document()


def test_a_stall_counts_as_long_as_it_was() -> None:
    seen = asyncio.run(watched(0.2))
    assert float(str(seen["lag_p99_ms"])) > 150  # a fifth of the samples and more were due in it
    assert float(str(seen["lag_max_ms"])) == pytest.approx(200, abs=100)
    assert int(str(seen["samples"])) >= 0.2 / EACH


def test_a_loop_that_only_waits_is_not_late_at_the_median() -> None:
    assert float(str(asyncio.run(watched())["lag_p50_ms"])) < 5
