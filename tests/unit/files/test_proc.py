"""Readings of /proc, compared with the system's own; empty on a system without it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from patchstack.files import processes


def test_a_process_is_read_however_it_is_called(tmp_path: Path) -> None:
    program = tmp_path / "a ) (b"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    with subprocess.Popen([program], stdin=subprocess.PIPE, start_new_session=True) as child:
        found = processes.stat(child.pid)
        assert found is not None
        assert (found.session, found.ended) == (child.pid, False)
        assert int(found.start) > 0
        assert dict(processes.visible())[child.pid].start == found.start


def test_a_process_that_waits_to_be_reaped_has_ended() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = processes.stat(child.pid)
    assert found is not None and found.ended
    child.wait()
    assert processes.stat(child.pid) is None
    assert processes.stat_text(child.pid) == ""


@pytest.mark.parametrize("forbidden", [False, True])
def test_the_processes_of_a_session_are_those_that_read_so(monkeypatch: pytest.MonkeyPatch, *, forbidden: bool) -> None:
    def forbid(pid: int) -> int:
        raise PermissionError(pid)

    if forbidden:
        monkeypatch.setattr(os, "getsid", forbid)
    script = "sleep 60 & one=$!; echo $one; (exec sleep 0) & wait $!; echo done; read line; kill $one"
    with subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        sleeper = int(child.stdout.readline())
        assert child.stdout.readline() == b"done\n"
        assert {pid for pid, _ in processes.of_session(child.pid)} == {child.pid, sleeper}
    child = subprocess.Popen(["true"], start_new_session=True)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    ((pid, found),) = processes.of_session(child.pid)
    assert (pid, found.ended) == (child.pid, True), "a process that ended is of its session until it is reaped"
    child.wait()
    assert list(processes.of_session(child.pid)) == []


@pytest.mark.parametrize("text", ["", "1 (x) S", "1 (x", "1 (x) S 1 1 one" + " 0" * 20, ") " + "S 1 1 1" + " 0" * 15])
def test_text_that_is_not_whole_is_no_process(text: str) -> None:
    assert processes.read_stat(text) is None


def test_the_fields_are_those_of_the_manual() -> None:
    text = "7 (x) Z 2 3 -1 " + " ".join(str(field) for field in range(7, 53))
    assert processes.read_stat(text) == processes.Stat(state="Z", parent=2, session=-1, start="22")


def test_environments_are_those_that_processes_were_started_with() -> None:
    with subprocess.Popen(
        ["sh", "-c", "echo there; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"MARK": "a b", "PATH": os.defpath},
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"there\n"  # it is sh, no longer a fork of ours
        assert b"MARK=a b" in dict(processes.environments())[child.pid]


def test_without_proc_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", f"{tmp_path}/none")
    assert processes.stat(os.getpid()) is None
    assert list(processes.visible()) == []
    assert list(processes.of_session(os.getsid(0))) == []
    assert list(processes.environments()) == []
    assert (processes.boot_id(), processes.pid_namespace(), processes.shows_every_process()) == ("", "", False)
    with pytest.raises(OSError, match="cpuinfo"):
        processes.cpuinfo()
