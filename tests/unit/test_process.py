"""The one door to programs: environment, limits, and no process left behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.process import ProgramTimeout, clean_environment, run


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_git_variables_of_hooks_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/somewhere/else")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    done = run([sys.executable, "-c", "import os; print(sorted(os.environ))"])
    assert b"GIT_DIR" not in done.stdout
    assert b"SECRET_TOKEN" not in done.stdout
    assert b"LC_ALL" in done.stdout
    assert "SSH_AUTH_SOCK" not in clean_environment()


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingError, match="no-such-program is not installed here") as raised:
        run(["no-such-program"])
    assert raised.value.hint == "install no-such-program and put it on PATH"


def test_past_its_limit_the_whole_group_is_killed(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    started = time.monotonic()
    with pytest.raises(ProgramTimeout, match=r"took over 0\.5 s and was stopped"):
        run(["sh", "-c", script], timeout=0.5)
    assert time.monotonic() - started < 10
    time.sleep(0.1)
    assert not alive(int((tmp_path / "pid").read_text()))


def test_standard_input_is_empty_unless_given() -> None:
    assert run(["cat"]).stdout == b""
    assert run(["cat"], stdin=b"text").stdout == b"text"


def test_stderr_comes_line_by_line_and_whole() -> None:
    lines: list[str] = []
    done = run(["sh", "-c", r"printf 'a\rb\n' >&2; echo out; exit 3"], on_stderr=lines.append)
    assert lines == ["a", "b"]
    assert (done.code, done.stdout, done.stderr, done.complaint) == (3, b"out\n", b"a\rb\n", "a\rb")


def test_a_streaming_program_is_killed_past_its_limit(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 60"
    with pytest.raises(ProgramTimeout):
        run(["sh", "-c", script], timeout=0.5, on_stderr=lambda line: None)
    time.sleep(0.1)
    assert not alive(int((tmp_path / "pid").read_text()))
