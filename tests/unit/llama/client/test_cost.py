"""The benchmark of the client's cost: what becomes of its runs."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.client_cost import Ran, table, verdict

GIVEN = argparse.Namespace(streams=11, tokens=1000, rate=100.0)


def judged(alone: list[tuple[float, int]], full: list[tuple[float, int]], wall: float = 10.0) -> dict[str, Any]:
    """From pairs of CPU seconds and written tokens."""
    ones = [Ran(cpu, 10.0, "", tokens) for cpu, tokens in alone]
    return verdict("x", ones, [Ran(cpu, wall, "", tokens) for cpu, tokens in full], GIVEN)


def test_the_median_single_request_is_subtracted_from_every_sitting() -> None:
    """One start that took twice as long changes nothing."""
    found = judged([(2.0, 1000), (4.0, 1000), (2.0, 1000)], [(2.3, 11_000), (2.2, 11_000), (2.1, 11_000)])
    assert [found[name] for name in ("cpu_for_100k_tokens", "lowest", "highest")] == [2.0, 1.0, 3.0]
    assert found["keeps_the_load"]


def test_requests_that_a_peer_sends_beside_are_in_its_tokens() -> None:
    """A warm-up in both runs cancels out. One in the full run alone is work that the peer did."""
    assert judged([(1.0, 2000)], [(2.0, 12_000)])["cpu_for_100k_tokens"] == 10.0
    assert judged([(1.0, 1000)], [(2.0, 21_000)])["cpu_for_100k_tokens"] == 5.0


def test_a_run_that_is_a_tenth_longer_does_not_keep_the_load() -> None:
    assert judged([(1.0, 1000)], [(2.0, 11_000)], wall=11.0)["keeps_the_load"]
    assert not judged([(1.0, 1000)], [(2.0, 11_000)], wall=11.1)["keeps_the_load"]


def test_a_peer_that_did_not_take_all_tokens_has_no_cost() -> None:
    found = judged([(1.0, 1000)], [(2.0, 10_999)])
    assert found["failed"] == "the server wrote [10999] tokens in its runs"
    mine = judged([(1.0, 1000)], [(1.1, 11_000)])
    assert table([mine, judged([(1.0, 1000)], [(1.4, 11_000)]) | {"version": "1.2"}, found]).splitlines() == [
        "| client | CPU s per 100,000 tokens | range | keeps the load | ours / its |",
        "| --- | --- | --- | --- | --- |",
        "| x | 1.00 | 1.00 to 1.00 | yes | 1.00 |",
        "| x 1.2 | 4.00 | 4.00 to 4.00 | yes | 0.25 |",
        "| x | failed | | | |",
    ]
