"""Whether the process that left a file has surely ended: in this PID namespace, in a different one, and on macOS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.files import processes
from tests.support.checkout import ROOT
from tests.support.namespaces import in_another, need_namespaces

HOUR, DAY = 3600.0, 86400.0
ELSEWHERE = "0123abcd"


@pytest.fixture
def dead() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A system without /proc."""
    monkeypatch.setattr(processes, "_PROC", f"{tmp_path}/none")
    processes.here.cache_clear()
    yield
    processes.here.cache_clear()


def test_a_number_that_is_not_in_use_here_proves_its_process_gone(dead: int) -> None:
    assert processes.is_gone(dead, processes.here(), silent=0)


@pytest.mark.parametrize("pid", [os.getpid(), os.getppid(), 1, 0], ids=["own", "parent", "first", "none"])
def test_a_number_in_use_here_is_alive_however_long_it_is_silent(pid: int) -> None:
    assert not processes.is_gone(pid, processes.here(), silent=1000 * DAY)
    assert not processes.is_gone(pid, None, silent=1000 * DAY)


def test_the_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    assert not processes.is_gone(1, processes.here(), silent=1000 * DAY)
    assert not processes.is_gone(1, None, silent=1000 * DAY)


@pytest.mark.parametrize(("silent", "gone"), [(HOUR - 1, False), (HOUR + 1, True)])
def test_a_number_without_a_place_that_is_not_in_use_counts_as_gone_after_an_hour(
    dead: int, silent: float, gone: bool
) -> None:
    assert processes.is_gone(dead, None, silent=silent) == gone


@pytest.mark.parametrize(("silent", "gone"), [(2 * DAY - 1, False), (2 * DAY + 1, True)])
def test_elsewhere_numbers_mean_nothing_and_two_silent_days_decide(dead: int, silent: float, gone: bool) -> None:
    assert processes.is_gone(dead, ELSEWHERE, silent=silent) == gone
    assert processes.is_gone(os.getpid(), ELSEWHERE, silent=silent) == gone


@pytest.mark.parametrize("tagged", ["", "x", "-1", "12-", "12-0123", "12-0123abcg", "12 ", "12-0123abcd-old"])
def test_what_is_no_tag_is_nobodys_left_over(tmp_path: Path, tagged: str) -> None:
    os.utime(tmp_path, (0, 0))
    assert not processes.left_behind(tagged, tmp_path)


def test_a_number_that_no_process_can_have_is_not_in_use(tmp_path: Path) -> None:
    os.utime(tmp_path, (0, 0))
    assert processes.left_behind(f"{2**80}", tmp_path)


def test_a_directory_is_as_silent_as_the_newest_in_it(tmp_path: Path, dead: int) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "file"
    file.write_text("x")
    (tmp_path / "link").symlink_to("nowhere")
    for path in (tmp_path / "link", tmp_path / "deep", tmp_path):
        os.utime(path, (0, 0), follow_symlinks=False)
    assert not processes.left_behind(str(dead), tmp_path)
    os.utime(file, (0, 0))
    assert processes.left_behind(str(dead), tmp_path)


def test_what_is_no_longer_there_is_left_alone(tmp_path: Path, dead: int) -> None:
    assert not processes.left_behind(str(dead), tmp_path / "gone")


def test_the_tag_of_a_living_process_is_its_own_and_of_a_killed_one_left_behind(tmp_path: Path) -> None:
    script = "from patchstack.files.processes import tag; print(tag(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        told = child.stdout.readline().strip()
        assert told.startswith(f"{child.pid}-{processes.here()}")
        assert not processes.left_behind(told, tmp_path)
        child.kill()
    assert processes.left_behind(told, tmp_path)


def test_another_pid_namespace_of_this_machine_is_elsewhere(tmp_path: Path) -> None:
    need_namespaces()
    script = "from patchstack.files.processes import here; open(sys.argv[1], 'w').write(here()); ready()\n"
    with in_another(script, tmp_path / "place"):
        place = (tmp_path / "place").read_text()
    assert len(place) == 8
    assert place != processes.here()


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_living_process_is_seen_too(dead: int) -> None:
    assert not processes.is_gone(os.getpid(), None, silent=DAY)
    assert processes.is_gone(dead, None, silent=DAY)


@pytest.mark.usefixtures("no_proc")
def test_a_system_that_does_not_tell_where_it_is_shares_its_place_with_nobody() -> None:
    mine = processes.here()
    assert processes.here() == mine
    processes.here.cache_clear()
    assert processes.here() != mine


@pytest.mark.usefixtures("no_proc")
def test_on_a_mac_the_start_of_the_system_is_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_boot_session", lambda: "9F1C0E1E-0000-0000-0000-000000000000")
    mine = processes.here()
    processes.here.cache_clear()
    assert processes.here() == mine
    monkeypatch.setattr(processes, "_boot_session", lambda: "another")
    processes.here.cache_clear()
    assert processes.here() != mine
