from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from patchstack.bench.watch import Sample, Watch, Watched, read_sample, summary, thrown

SAID = """1980, 312.40, 61, 98
--
0x0000000000000004
--
4711
"""


def watched(clock: float | None = 1980, processes: int | None = 1) -> Watched:
    return Watched(samples=5, loaded=4, clock=clock, power=300, temperature=60, slowed=(), processes=processes)


def test_what_nvidia_smi_says_is_read() -> None:
    assert read_sample(SAID) == Sample(clock=1980, power=312.4, temperature=61, load=98, slowed=(), processes=1)


def test_a_gb10_that_tells_no_power_is_no_zero() -> None:
    found = read_sample("612, [N/A], 48, 95\n--\n0x0\n--\n")
    assert found == Sample(clock=612, power=None, temperature=48, load=95, processes=0)


def test_heat_is_named_and_the_power_cap_is_not() -> None:
    assert read_sample(SAID.replace("04", "64")).slowed == ("heat", "heat (hardware)")  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "NVIDIA-SMI has failed\n", "--\n--\n"])
def test_no_figures_are_no_sample(text: str) -> None:
    assert read_sample(text) is None


def test_clock_and_power_are_those_under_load() -> None:
    idle = Sample(clock=345, power=70, temperature=40, load=0, processes=0)
    busy = [Sample(clock=clock, power=300, temperature=60, load=97, processes=1) for clock in (1900, 1980, 1990)]
    found = summary([idle, *busy, idle])
    assert (found.samples, found.loaded, found.clock, found.power, found.temperature) == (5, 3, 1980, 300, 60)
    assert summary([idle]).clock is None
    assert summary([]) == Watched(
        samples=0, loaded=0, clock=None, power=None, temperature=None, slowed=(), processes=None
    )


def test_calm_reference_runs_throw_nothing_away() -> None:
    assert thrown((100, 109.9), (watched(), watched()), within=0.1, usual_clock=1980) == ""
    assert thrown((100, 100), (None, None), within=0.1, usual_clock=None) == ""
    assert thrown((100, 100), (watched(None), watched(None)), within=0.1, usual_clock=1980) == ""


@pytest.mark.parametrize(
    ("speeds", "second", "reason"),
    [
        ((100.0, 88.0), watched(), "its reference runs differ by 14%"),
        ((88.0, 100.0), watched(), "its reference runs differ by 14%"),
        ((100.0, 100.0), watched(clock=612), "a reference run had 612 MHz; the usual clock is 1980 MHz"),
        ((100.0, 100.0), watched(processes=2), "other programs used the GPU in a reference run: 2 compute processes"),
    ],
)
def test_a_pair_is_thrown_away_by_its_reference_runs(speeds: tuple[float, float], second: Watched, reason: str) -> None:
    assert thrown(speeds, (watched(), second), within=0.1, usual_clock=1980) == reason


def test_samples_are_taken_while_a_run_goes_on() -> None:
    enough = threading.Event()
    asked: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        asked.append(argv)
        if len(asked) >= 3:
            enough.set()
        return 0, SAID

    with Watch(ask, each=0.001).watching() as seen:
        assert enough.wait(30)
    found = seen()
    assert found is not None and found.samples >= 3 and found.clock == 1980


def test_a_machine_that_tells_nothing_is_asked_a_few_times() -> None:
    done = threading.Event()
    count = [0]

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        count[0] += 1
        if count[0] == 4:
            done.set()
        return 127, "nvidia-smi: not found"

    with Watch(ask, each=0.001).watching() as seen:
        assert done.wait(30)
    found = seen()
    assert found is not None and found.samples == 0
    assert count[0] == 4
    with Watch(None).watching() as seen:
        pass
    assert seen() is None
