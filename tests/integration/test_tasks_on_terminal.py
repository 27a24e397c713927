"""The progress of tasks on a terminal and in a pipe, for gates and fetches that take seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchstack.files.places import cache_places
from tests.conftest import Places
from tests.support.builders import a_fork
from tests.support.checkout import ROOT
from tests.support.programs import program
from tests.support.terminal import CLEARED, left_standing, live_lines, on_terminal, without_colour

SUITE = """\
series:
  x: {patches: p, upstream: u, pin: "0000000000000000000000000000000000000000"}
suites:
  quick:
    gates:
      - {name: slow, kind: command, program: slow, must: "^done$"}
      - {name: fast, kind: command, program: fast, must: "^done$"}
"""
RUN = ("gate", "run", "--bin", "bin")


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Return a workspace with a slow gate and a fast one."""
    (tmp_path / "patchstack.yaml").write_text(SUITE)
    program(tmp_path / "bin", "slow", "sleep 2.2; echo done")
    program(tmp_path / "bin", "fast", "echo done")
    return tmp_path


def piped(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patchstack", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_terminal_sees_each_gate_as_it_runs_and_then_its_verdict_and_time(gates: Path) -> None:
    told = on_terminal(RUN, gates)
    lines = live_lines(told)
    assert lines[0].startswith("gate slow (command), 1 of 2: ")
    # On a busy machine the fast one is slow too.
    assert all(re.match(r"gate (?:slow|fast) \(command\), [12] of 2", line) and len(line) < 80 for line in lines)
    assert re.search(r"\x1b\[32mPASS\x1b\[0m     slow  [2-9]", told)
    standing = left_standing(told)
    assert re.fullmatch(r"PASS     slow  [\d.]+ s  observed now", standing[1])
    assert re.fullmatch(r"PASS     fast  [\d.]+ s  observed now", standing[2])
    assert re.fullmatch(r"slow took [\d.]+ s of [\d.]+ s", standing[3])
    assert re.fullmatch(r"PASS  quick: 2 gates: 2 PASS; 2 observed, [\d.]+ s", standing[-1])
    again = on_terminal((*RUN, "--again"), gates)
    assert re.match(r"gate slow \(command\), 1 of 2: .*  [\d.]+ s of about [\d.]+ s", live_lines(again)[0])
    known = left_standing(on_terminal(RUN, gates))
    cached = r"recalled from this machine's cache \([-\d]+ [:\d]+\)"
    assert re.fullmatch(rf"PASS     slow  0.0 s  {cached}", known[1])
    assert re.fullmatch(rf"PASS     fast  0.0 s  {cached}", known[2])


def test_durations_are_kept_in_the_cache_and_nowhere_else(gates: Path, places: Places) -> None:
    assert piped(*RUN, cwd=gates).returncode == 0
    kept = list((places.cache / "durations").iterdir())
    assert len(kept) == 1
    assert 2 < float(kept[0].read_text()) < 30
    before = sorted(path.name for path in cache_places().observations.rglob("*.json"))
    kept[0].write_text("7777.0\n")
    assert piped(*RUN, "--again", cwd=gates).returncode == 0
    assert sorted(path.name for path in cache_places().observations.rglob("*.json")) == before, "no part of a key"
    assert "7777" not in "".join(path.read_text() for path in cache_places().observations.rglob("*.json"))


def test_a_pipe_gets_a_line_at_the_start_and_at_the_end_of_each_gate(gates: Path) -> None:
    done = piped(*RUN, cwd=gates)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout + done.stderr)
    lines = re.sub(r"\d\.\d s", "N s", done.stderr).splitlines()
    assert lines[1:] == [
        "gate slow (command), 1 of 2",
        "PASS     slow  N s  observed now",
        "gate fast (command), 2 of 2",
        "PASS     fast  N s  observed now",
        "slow took N s of N s",
    ]
    assert done.stdout.splitlines()[0].split() == ["gate", "kind", "verdict", "actual", "expected"]


@pytest.mark.parametrize("arguments", [("-q", *RUN), (*RUN, "-q"), ("gate", "-q", *RUN[1:]), (*RUN, "--quiet")])
def test_quiet_silences_gates_wherever_it_is(gates: Path, arguments: Sequence[str]) -> None:
    program(gates / "bin", "slow", "echo done")
    assert piped(*arguments, cwd=gates).stderr == ""


def test_quiet_silences_gates_on_a_terminal_too(gates: Path) -> None:
    told = on_terminal(("-q", *RUN), gates)
    assert CLEARED not in told
    assert "took" not in told
    assert without_colour(told).splitlines()[0].startswith("gate  kind")


def test_a_gate_that_is_interrupted_leaves_the_terminal_clean(gates: Path) -> None:
    told = on_terminal(RUN, gates, code=130, interrupt_at="gate slow")
    assert left_standing(told)[1:] == ["interrupted"]


def test_a_fetch_that_takes_a_while_is_shown_with_its_url(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = a_fork(tmp_path, 2)
    slow = places.home / "slow"
    slow.write_text('#!/bin/sh\nsleep 3\nexec git-upload-pack "$@"\n')
    slow.chmod(0o755)
    (places.home / ".gitconfig").write_text(f'[remote "patchstack-cache"]\nuploadpack = {slow}\n')
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    url = f"file://{fork.upstream.path}"
    arguments = ["lint", "--patches", str(fork.series), "--upstream", url, "--pin", fork.pin]
    told = on_terminal(arguments, tmp_path, width=200)
    assert live_lines(told)[0].startswith(f"lint patches: opening the repositories, fetching from {url}  2.")
    assert left_standing(told) == ["PASS  patches: clean: 2 patches"]
    narrow = on_terminal(arguments, tmp_path, PATCHSTACK_CACHE=str(tmp_path / "another"))
    assert live_lines(narrow)
    assert max(map(len, live_lines(narrow))) < 80


def test_what_is_quick_says_nothing_of_progress(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    told = on_terminal(["verify", "--apply-only", *fork.sources], tmp_path)
    assert CLEARED not in told
