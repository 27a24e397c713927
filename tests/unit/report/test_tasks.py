"""Progress of tasks: one line on a terminal that is gone afterwards, plain lines elsewhere, nothing under 2 s."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from patchstack.files.durations import recalled_duration, remember_duration
from patchstack.report import tasks as screen
from patchstack.report.streams import choose, manners, printing
from patchstack.report.tasks import TaskScreen, fitted, what, when
from patchstack.tasks import Task, task, watch
from tests.support.terminal import CLEARED, left_standing, live_lines


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
    """Show tasks on a stream until the returned function is called."""
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


def test_remembered_durations_are_expected_ones(tmp_path: Path, quickly: None) -> None:
    remember_duration(tmp_path, "lint x", 90.0)
    stream = Terminal()
    end = watch(lambda: TaskScreen(lambda: tmp_path, stream=stream))
    with task("lint x", key="lint x"):
        time.sleep(0.4)
    end()
    assert live_lines(stream.getvalue())[0].endswith(" s of about 1 min 30 s")
