"""A build's output as events: the same for all chunks, with an estimate of the remaining time."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.builds.run.progress import Event, Phase, Progress, ProgressReader, Pulse, worth_a_line

OUTPUT = (
    "-- The CXX compiler identification is GNU 12.2.0\n-- Configuring done\r\n"
    "ninja: Entering directory `build'\n"
    "[1/9] Creating directories for 'thing-populate'\n[9/9] Completed 'thing-populate'\n"
    "[1/4] Building CXX object src/a.cpp.o\n"
    "src/a.cpp:3:1: warning: unused variable ‘x’ [-Wunused-variable]\n"
    "[2/4] Building CXX object src/b.cpp.o\r[3/6] \x1b[32mBuilding CXX object src/c.cpp.o\x1b[0m\n"
    "[ 42%] Building CUDA object k.cu.o\n"
    "[100%] Built target k\n[6/6] Linking CXX executable main"
).encode()


def events_of(*chunks: bytes) -> list[Event]:
    reader = ProgressReader()
    return [*(event for chunk in chunks for event in reader.read(chunk, 0.0)), *reader.finish(0.0)]


def steps_of(*lines: tuple[str, float]) -> list[Progress]:
    reader = ProgressReader()
    return [step for line, elapsed in lines for step in reader.feed(line.encode() + b"\n", elapsed)]


def test_phases_and_steps_are_told_in_order() -> None:
    told = [
        event.what if isinstance(event, Phase) else (event.done, event.total, event.what) for event in events_of(OUTPUT)
    ]
    assert told == [
        "The CXX compiler identification is GNU 12.2.0",
        "Configuring done",
        (1, 9, "Creating directories for 'thing-populate'"),
        (9, 9, "Completed 'thing-populate'"),
        (1, 4, "Building CXX object src/a.cpp.o"),
        (2, 4, "Building CXX object src/b.cpp.o"),
        (3, 6, "Building CXX object src/c.cpp.o"),
        (42, 100, "Building CUDA object k.cu.o"),
        (100, 100, "Built target k"),
        (6, 6, "Linking CXX executable main"),
    ]


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=40))
def test_any_cut_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(OUTPUT)]
    chunks = [OUTPUT[a:b] for a, b in pairwise(edges)]
    assert events_of(*chunks) == events_of(OUTPUT)


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_at_all_are_too_odd(chunks: list[bytes]) -> None:
    assert events_of(*chunks) == events_of(b"".join(chunks))


@pytest.mark.parametrize(
    "line", ["[1/0] x", "[5/4] x", "[1/9]", "[x/9] y", "[  1/9] y", " [1/9] y", "--", "--x", "", "[1/9999999999] x"]
)
def test_what_only_looks_like_progress_is_none(line: str) -> None:
    assert events_of(line.encode()) == []


def test_a_line_of_a_megabyte_is_a_step_like_any_other_and_is_not_kept() -> None:
    reader = ProgressReader()
    for _ in range(1000):
        reader.feed(b"x" * 1000, 0.0)
    assert reader.feed(b"\n[1/2] " + b"y" * 1_000_000 + b"\n", 0.0)[0] == Progress(
        done=1, total=2, what="y" * 994, elapsed=0.0, remaining=None
    )


def test_even_steps_give_the_time_that_is_left() -> None:
    steps = steps_of(*((f"[{n}/100] x", 2.0 * n) for n in range(1, 101)))
    assert [step.remaining for step in steps[:3]] == [None, None, None]
    assert all(step.remaining == pytest.approx(2.0 * (100 - step.done)) for step in steps[3:])
    assert steps[-1].remaining == 0.0


def test_a_total_that_grows_makes_more_time_left() -> None:
    *_, before, after = steps_of(*((f"[{n}/10] x", float(n)) for n in range(1, 6)), ("[6/20] x", 6.0))
    assert before.remaining == pytest.approx(5.0)
    assert after.remaining == pytest.approx(14.0)


def test_slow_steps_at_the_end_count_for_more_than_they_did_in_the_whole() -> None:
    quick = [(f"[{n}/300] x", 0.1 * n) for n in range(1, 201)]
    slow = [(f"[{n}/300] x", 20.0 + 10.0 * (n - 200)) for n in range(201, 231)]
    last = steps_of(*quick, *slow)[-1]
    assert last.remaining is not None
    assert 70 * 1.4 < last.remaining < 70 * 10


def test_a_nested_build_starts_the_estimate_anew() -> None:
    steps = steps_of(("[1/9] x", 1.0), ("[5/9] x", 100.0), *((f"[{n}/10] y", 100.0 + n) for n in range(1, 6)))
    assert [step.remaining for step in steps[2:5]] == [None, None, None]
    assert steps[-1].remaining == pytest.approx(5.0)


def test_steps_in_no_time_have_no_estimate() -> None:
    assert [step.remaining for step in steps_of(*((f"[{n}/9] x", 0.0) for n in range(1, 10)))] == [None] * 8 + [0.0]


def at(done: int, elapsed: float, total: int = 1000) -> Progress:
    return Progress(done=done, total=total, what="x", elapsed=elapsed, remaining=None)


@pytest.mark.parametrize(
    ("printed", "now", "worth"),
    [
        (None, at(1, 0.0), True),
        (at(1, 0.0), at(2, 1.0), False),
        (at(1, 0.0), at(50, 1.0), False),
        (at(1, 0.0), at(51, 1.0), True),
        (at(1, 0.0), at(2, 30.0), True),
        (at(1, 0.0), at(2, 29.9), False),
        (at(999, 0.0), at(1000, 0.1), True),
        (at(1000, 0.0), at(1000, 99.0), False),
        (at(7, 0.0), at(7, 99.0), False),
        (at(9, 1.0, 9), at(1, 1.0), True),
    ],
)
def test_a_plain_log_gets_a_line_now_and_then(printed: Progress | None, now: Progress, worth: bool) -> None:
    assert worth_a_line(printed, now, seconds=30.0, share=0.05) is worth


def test_a_thousand_quick_steps_are_some_twenty_lines() -> None:
    pulse = Pulse()
    printed = [n for n in range(1, 1001) if pulse.due(at(n, n / 1000))]
    assert printed == [1, *range(51, 1000, 50), 1000]


def test_slow_steps_are_a_line_each_half_minute() -> None:
    pulse = Pulse()
    assert [n for n in range(1, 30) if pulse.due(at(n, 0.0), 12.0 * n)] == [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]


def test_real_ninja_and_real_cmake_are_understood(tmp_path: Path) -> None:
    for tool in ("cmake", "ninja", "c++", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed here")
    names = [f"f{n}.cpp" for n in range(4)]
    for name in names:
        (tmp_path / name).write_text(f"int {name.partition('.')[0]}() {{ return 1; }}\n")
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.14)\nproject(p CXX)\nadd_library(p STATIC {' '.join(names)})\n"
    )
    for generator, total in (("Ninja", 5), ("Unix Makefiles", 100)):
        build = str(tmp_path / f"build{total}")
        told = b""
        for command in (["cmake", "-S", str(tmp_path), "-B", build, "-G", generator], ["cmake", "--build", build]):
            told += subprocess.run(command, check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout
        events = events_of(told)
        assert Phase(what="Configuring done", elapsed=0.0) in [
            Phase(what=event.what.partition(" (")[0], elapsed=0.0) for event in events
        ]
        steps = [event for event in events if isinstance(event, Progress)]
        assert (steps[-1].done, steps[-1].total) == (total, total)
        assert [step.what for step in steps if "f3.cpp" in step.what] == [
            "Building CXX object CMakeFiles/p.dir/f3.cpp.o"
        ]
