"""The one door to programs: environment, limits, and no remaining process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.process import PIPE, ProgramTimeout, clean_environment, run, start


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
    with pytest.raises(ProgramTimeout, match=r"took longer than 0\.5 s and was stopped"):
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


def test_a_started_program_leads_a_session_and_its_input_is_empty() -> None:
    script = "import os, sys; exit(f'{os.getpid()}' * 2 != f'{os.getsid(0)}{os.getpgrp()}' or sys.stdin.read() != '')"
    child = start([sys.executable, "-c", script])
    assert child.wait() == 0
    assert (child.poll(), child.wait_at_most(0)) == (0, 0)


def test_a_started_program_gets_the_descriptors_and_the_environment_that_are_given(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    child = start(
        ["sh", "-c", "echo $NAME; pwd; echo hint >&2"], cwd=tmp_path, env={"NAME": "x"}, stdout=theirs, stderr=PIPE
    )
    os.close(theirs)
    with open(ours, "rb") as said:
        assert said.read().decode() == f"x\n{tmp_path}\n"
    assert child.stderr.read() == b"hint\n"
    child.end_group()
    assert child.stderr.closed


def test_a_program_that_still_runs_has_no_exit_code_yet() -> None:
    child = start(["sleep", "60"])
    assert child.poll() is None
    assert child.wait_at_most(0.05) is None
    child.terminate()
    assert child.wait() == -signal.SIGTERM


def test_the_end_of_a_group_is_the_end_of_all_that_the_program_started(tmp_path: Path) -> None:
    child = start(["sh", "-c", "sleep 60 & echo $! >&2; wait"], stderr=PIPE)
    below = int(child.stderr.readline())
    assert alive(below)
    child.end_group()
    assert child.poll() == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while alive(below) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(below)


def test_what_cannot_be_started_is_for_the_caller_to_explain() -> None:
    with pytest.raises(FileNotFoundError):
        start(["no-such-program"])
    with pytest.raises(ValueError, match="null byte"):
        start(["true", "\0"])
