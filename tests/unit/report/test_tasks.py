"""Progress of tasks: one line on a terminal that is gone afterwards, plain lines elsewhere, nothing under 2 s."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from patchstack.files.durations import recalled_duration, remember_duration
from patchstack.files.places import cache_places
from patchstack.report import tasks as screen
from patchstack.report.streams import choose, manners, printing
from patchstack.report.tasks import TaskScreen, fitted, what, when
from patchstack.tasks import Task, task, watch
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
    """A workspace with a gate that takes a while and one that does not."""
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


def a_task(name: str, *, ago: float = 0.0, total: int = 0, done: int = 0, doing: str = "") -> Task:
    one = Task(name)
    one.at(done, total, doing)
    one.began = 100.0 - ago
    return one


@pytest.mark.parametrize(
    ("tasks", "expected", "said", "time"),
    [
        ([a_task("verify x", ago=3.2)], None, "verify x", "3.2 s"),
        ([a_task("verify x", ago=12)], 41.0, "verify x", "12 s of about 41 s"),
        ([a_task("verify x", ago=52)], 41.0, "verify x", "52 s, expected about 41 s"),
        (
            [a_task("verify x", ago=12), a_task("applying", ago=10, total=50, done=20, doing="0021-a.patch")],
            None,
            "verify x: applying, 0021-a.patch",
            "[20/50]  12 s, about 15 s left",
        ),
        ([a_task("verify x", ago=0.5, total=50, done=20)], None, "verify x", "[20/50]  0.5 s"),
        ([a_task("verify x", ago=3, total=50)], None, "verify x", "[0/50]  3.0 s"),
        ([a_task("a\x1b[2J", ago=3, doing="b\n\rc")], None, "a\\x1b[2J: b c", "3.0 s"),
    ],
)
def test_a_line_says_what_is_done_how_far_it_is_and_how_long_it_takes(
    tasks: Sequence[Task], expected: float | None, said: str, time: str
) -> None:
    assert what(tasks) == said
    assert when(tasks, 100.0, expected) == time


@pytest.mark.parametrize("width", [1, 2, 5, 8, 20, 40, 80])
@pytest.mark.parametrize("text", ["short", "a long text " * 20, "目录" * 40, ""])
def test_a_line_never_fills_the_terminal_and_keeps_the_time(text: str, width: int) -> None:
    from rich.cells import cell_len

    line = fitted(text, "12 s", width)
    assert cell_len(line) <= max(0, width - 1)
    assert width < 5 or line.endswith("12 s")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the waits a tenth."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("PATIENCE", "_SOON", "_TICK", "_PLAIN"):
        monkeypatch.setattr(screen, name, getattr(screen, name) / 10)


@pytest.fixture
def shown(quickly: None, tmp_path: Path) -> Callable[[io.StringIO], Callable[[], None]]:
    """Show tasks on a stream until the function that is returned is called."""
    return lambda stream: watch(lambda: TaskScreen(lambda: tmp_path / "durations", stream=stream))


def test_a_short_task_leaves_no_trace(shown: Callable[[io.StringIO], Callable[[], None]], tmp_path: Path) -> None:
    stream = Terminal()
    end = shown(stream)
    with task("verify x", key="verify x"):
        time.sleep(0.01)
    end()
    assert stream.getvalue() == ""
    assert not (tmp_path / "durations").exists()


def test_a_long_task_is_shown_cleared_and_remembered(
    shown: Callable[[io.StringIO], Callable[[], None]], tmp_path: Path
) -> None:
    for expected in ("", " of about 0."):
        stream = Terminal()
        end = shown(stream)
        with task("verify x", key="verify x"):
            time.sleep(0.4)
        end()
        told = stream.getvalue()
        assert told.endswith(CLEARED)
        assert live_lines(told)[0].startswith("verify x  0.")
        assert all((expected in line) if expected else (" of " not in line) for line in live_lines(told)[:1])
    found = recalled_duration(tmp_path / "durations", "verify x")
    assert found is not None
    assert 0.3 < found < 5


def test_a_task_that_fails_is_cleared_and_its_duration_forgotten(
    shown: Callable[[io.StringIO], Callable[[], None]], tmp_path: Path
) -> None:
    stream = Terminal()
    end = shown(stream)
    with pytest.raises(KeyboardInterrupt), task("verify x", key="verify x"):
        time.sleep(0.4)
        raise KeyboardInterrupt
    end()
    assert stream.getvalue().endswith(CLEARED)
    assert recalled_duration(tmp_path / "durations", "verify x") is None


def test_what_is_printed_meanwhile_has_a_line_of_its_own(
    shown: Callable[[io.StringIO], Callable[[], None]],
) -> None:
    stream = Terminal()
    end = shown(stream)
    with task("verify x"):
        time.sleep(0.4)
        with printing():
            stream.write("note: this\n")
            time.sleep(0.1)
            stream.write("note: that\n")
        time.sleep(0.1)
    end()
    assert f"{CLEARED}note: this\nnote: that\n" in stream.getvalue()
    assert left_standing(stream.getvalue()) == ["note: this", "note: that"]


def test_a_pipe_gets_a_line_of_a_very_long_task_now_and_then(
    shown: Callable[[io.StringIO], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_PLAIN", 0.3)
    stream = io.StringIO()
    end = shown(stream)
    with task("verify x"):
        time.sleep(0.75)
    with task("lint x"):
        time.sleep(0.01)
    end()
    lines = stream.getvalue().splitlines()
    assert 1 <= len(lines) <= 3
    assert all(re.fullmatch(r"verify x  0\.\d s", line) for line in lines)


def test_a_stream_that_is_closed_is_no_failure(shown: Callable[[io.StringIO], Callable[[], None]]) -> None:
    stream = Terminal()
    end = shown(stream)
    with task("verify x"):
        stream.close()
        time.sleep(0.4)
    end()


def test_quiet_shows_nothing_and_still_remembers(quickly: None, tmp_path: Path) -> None:
    stream = Terminal()
    with manners():
        choose(color=None, quiet=True)
        end = watch(lambda: TaskScreen(lambda: tmp_path, stream=stream))
        with task("gate x", key="gate x", announced=True):
            time.sleep(0.4)
        end()
    assert stream.getvalue() == ""
    assert recalled_duration(tmp_path, "gate x") is not None


def test_a_cache_that_cannot_be_written_is_no_failure(quickly: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    end = watch(lambda: TaskScreen(lambda: tmp_path / "file", stream=Terminal()))
    with task("gate x", key="gate x"):
        time.sleep(0.4)
    end()


def test_a_terminal_sees_each_gate_as_it_runs_and_then_its_verdict_and_time(gates: Path) -> None:
    told = on_terminal(RUN, gates)
    lines = live_lines(told)
    assert lines[0].startswith("gate slow (command), 1 of 2: ")
    # On a busy machine the fast one takes a while too.
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


def test_remembered_durations_are_expected_ones(tmp_path: Path, quickly: None) -> None:
    remember_duration(tmp_path, "lint x", 90.0)
    stream = Terminal()
    end = watch(lambda: TaskScreen(lambda: tmp_path, stream=stream))
    with task("lint x", key="lint x"):
        time.sleep(0.4)
    end()
    assert live_lines(stream.getvalue())[0].endswith(" s of about 1 min 30 s")
