"""`patchstack bench` when it is killed, interrupted, or cannot write: finished runs, coins and the answer are kept."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from patchstack.files.places import cache_places
from tests.support.bench_commands import Bench, running
from tests.support.checkout import ROOT
from tests.support.programs import program

SPEED = """
count=$(cat {work}/count 2>/dev/null || echo 0)
echo $((count + 1)) > {work}/count
sleep ${{PAUSE:-0}}
echo "rate: $((1000 + count * 7919 % 11 + ${{FAST:-0}})).0"
"""
ASKED = (
    *("ab", "--bin", "bin", "--switch", "FAST=50", "-w", "command", "--no-reference", "--seed", "7", "--json"),
    *("--set", "program=speed", "--set", r"figures=rate=^rate: ([0-9.]+)$"),
)


class Killed(BaseException):
    """The process ends here, and nothing after it runs."""


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run a bench command in a directory with the programs of `bin`."""
    program(tmp_path / "bin", "speed", SPEED.format(work=tmp_path))
    monkeypatch.chdir(tmp_path)
    return running(capsys, monkeypatch)


def coins(document: dict[str, Any]) -> list[str]:
    return [pair["second"] for pair in document["pairs"]]


def failing(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> None:
    """Make the replacement of the `at`-th file from now on fail."""
    left, real = [at], os.replace

    def replaced(*args: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise error
        real(*args, **more)

    monkeypatch.setattr("patchstack.files.atomic.os.replace", replaced)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 9, 14])
def test_killed_at_any_file_it_goes_on_with_the_same_coins_to_the_same_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    whole = bench(*ASKED).document
    with monkeypatch.context() as patch:
        failing(patch, at, Killed())
        with pytest.raises(Killed):
            bench(*ASKED, "--pairs", "47")
    plans = [path for path in cache_places().comparisons.glob("*/plan.json") if path.parent.name != whole["comparison"]]
    if not plans:  # killed before the plan was written: nothing ran
        assert at == 1
        return
    resumed = bench("resume", plans[0].parent.name, "--json")
    assert resumed.code == 0, resumed.stderr
    assert (coins(resumed.document), resumed.document["outcome"]) == (coins(whole), whole["outcome"])


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_full_disk_is_said_and_what_ran_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    with monkeypatch.context() as patch:
        failing(patch, at, OSError(errno.ENOSPC, "No space left on device"))
        told = bench(*ASKED)
    assert told.code not in (0, 70), told.stderr
    assert "No space left on device" in told.stderr
    assert "Traceback" not in told.stderr
    again = bench(*ASKED) if at == 1 else bench("resume", "--json")
    assert again.document["outcome"] == "keep"


def test_ctrl_c_ends_it_and_says_how_it_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        failing(patch, 6, KeyboardInterrupt())
        told = bench(*ASKED)
    assert told.code == 130
    assert bench("resume", "--json").document["outcome"] == "keep"


def test_a_cache_that_cannot_be_written_is_named(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PATCHSTACK_CACHE", str(tmp_path / "file" / "cache"))
    told = bench(*ASKED)
    assert told.code not in (0, 70), told.stderr
    assert str(tmp_path / "file") in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGINT])
def test_a_live_process_that_is_ended_in_a_run_goes_on(
    bench: Bench, tmp_path: Path, with_signal: signal.Signals
) -> None:
    whole = bench(*ASKED).document
    child = subprocess.Popen(
        [sys.executable, "-m", "patchstack", "bench", *ASKED, "--env", "PAUSE=0.05", "--allow", "cpu-load"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    there: list[Path] = []
    until = time.monotonic() + 120
    while not there and time.monotonic() < until:
        time.sleep(0.05)
        found = cache_places().comparisons.glob("*/pair-0002.json")
        there = [path for path in found if path.parent.name != whole["comparison"]]
    child.send_signal(with_signal)
    code = child.wait(timeout=60)
    assert code == (130 if with_signal is signal.SIGINT else -signal.SIGKILL)
    resumed = bench("resume", there[0].parent.name, "--json")
    assert resumed.code == 0, resumed.stderr
    assert (coins(resumed.document), resumed.document["outcome"]) == (coins(whole), "keep")
