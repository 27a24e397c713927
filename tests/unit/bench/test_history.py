from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from patchstack.bench.history import ReferenceRun, by_workload, history, remember, slower_since, usual_clock
from patchstack.errors import MissingError

RUN = ReferenceRun(
    at="2026-01-01T00:00:00+00:00",
    machine="gb10",
    what="abc",
    speed=100,
    clock=2400,
    power=90,
    temperature=60,
    comparison="c",
    pair=1,
    slot=1,
)


def runs(*speeds: float) -> list[ReferenceRun]:
    return [replace(RUN, pair=number, speed=speed) for number, speed in enumerate(speeds, 1)]


def test_runs_are_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "below" / "history.sqlite"
    remember(file, runs(100, 101))
    remember(file, runs(100, 101, 102))
    assert [one.speed for one in history(file)] == [100, 101, 102]
    assert history(file, "another machine") == ()
    assert history(tmp_path / "none.sqlite") == ()


def test_runs_of_other_workloads_are_not_compared() -> None:
    assert set(by_workload([RUN, replace(RUN, what="other")])) == {("gb10", "abc"), ("gb10", "other")}


def test_the_run_since_when_it_is_slow_is_named() -> None:
    drop = slower_since(runs(100, 101, 99, 100, 102, 81, 80, 82, 79))
    assert drop is not None
    assert (drop.since.pair, drop.before, drop.after) == (6, 100, 80.5)


@pytest.mark.parametrize("speeds", [(100, 101, 99, 100), (100, 97, 100, 98, 99, 97, 98), (80, 81, 79, 100, 101, 99)])
def test_noise_and_a_gain_are_no_drop(speeds: tuple[float, ...]) -> None:
    assert slower_since(runs(*speeds)) is None


def test_the_usual_clock_needs_some_runs() -> None:
    assert usual_clock(runs(*[100] * 5)) is None
    assert usual_clock(runs(*[100] * 6)) == 2400
    assert usual_clock([replace(one, clock=None) for one in runs(*[100] * 9)]) is None


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "h.sqlite").write_text("not a database, but long enough to look like one at first" * 4)
    with pytest.raises(MissingError, match="cannot use the history of this machine, "):
        remember(tmp_path / "h.sqlite", [RUN])


def _writes(file: Path, comparison: str) -> None:
    for number in range(1, 31):
        remember(file, [replace(RUN, comparison=comparison, pair=number)])


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_writes, [file, file], ["one", "two"]))
    assert len(history(file)) == 60
