"""The lock of a GPU: real processes that want it at once, die with it, and find what others left behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.errors import Exit, MissingError
from patchstack.machine import gpulock
from patchstack.machine.ask import Place, here
from patchstack.machine.gpulock import GpuTaken, LockLost, Standing, gpu_lock, let_go_of, look
from patchstack.machine.lockfile import File, Now, Owner, Sign, judge, read_owner, record_line, taken_line, this_process
from tests import smi
from tests.conftest import ROOT, Places
from tests.toy import wait_for

CHILD = """
import os, signal, sys, time
from patchstack.machine.ask import Place, here
from patchstack.machine.gpulock import gpu_lock
signal.signal(signal.SIGTERM, signal.default_int_handler)
place, wait, hold, log, times = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4], int(sys.argv[5])
def note(what):
    with open(log, "a") as stream:
        stream.write(f"{what} {os.getpid()}\\n")
for _ in range(times):
    with gpu_lock(here(), "a child", places=(Place(path=place),), wait=wait, beat=0.3) as held:
        note("in")
        end = time.monotonic() + hold
        while time.monotonic() < end and not os.path.exists(log + ".go"):
            time.sleep(0.02)
        held.check()
        note("out")
"""


class Directory:
    """A lock's directory, what is in it, and processes that want it."""

    def __init__(self, root: Path) -> None:
        self.path = root / "gpu.lock"
        self.places = (Place(path=str(self.path)),)
        self.owner = self.path / "owner"
        self.log = root / "log"

    def child(self, *, wait: float = 60.0, hold: float = 60.0, times: int = 1) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, str(self.path), str(wait), str(hold), str(self.log), str(times)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def written(self, text: str | bytes, age: float = 0.0) -> None:
        self.path.mkdir(exist_ok=True)
        self.owner.write_bytes(text if isinstance(text, bytes) else text.encode())
        then = time.time() - age
        os.utime(self.owner, (then, then))

    def holding(self) -> subprocess.Popen[str]:
        """A child that has it."""
        child = self.child()
        assert wait_for(lambda: self.log.exists() and f"in {child.pid}" in self.log.read_text()), child
        return child


@pytest.fixture
def lock(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_a_lock_names_its_owner_while_it_is_held_and_who_had_it_after(lock: Directory) -> None:
    with gpu_lock(here(), "gate run nightly", places=lock.places) as held:
        lines = lock.owner.read_text().splitlines()
        assert lines[0].split(" ")[0] == (
            f"patchstack:{held.owner.user}@{os.uname().nodename}:{os.getpid()}:gate-run-nightly"
        )
        assert abs(int(lines[0].split(" ")[1]) - time.time()) < 60
        found = read_owner(lock.owner.read_text())
        assert found is not None
        assert found[0] == held.owner
        (holder,) = look(here(), lock.places)
        assert (holder.standing, holder.owner) == (Standing.LIVE, held.owner)
        (mine,) = look(here(), lock.places, tokens=(held.token,))
        assert mine.words == "ours (gate run nightly)"
    word, who, when = lock.owner.read_text().split()
    assert (word, who) == ("FREE", "released-by-patchstack-gate-run-nightly")
    assert when.isdecimal()
    assert sorted(os.listdir(lock.path)) == ["guard", "owner"]


def test_processes_that_want_it_at_once_have_it_one_after_the_other(lock: Directory) -> None:
    children = [lock.child(hold=0.05, times=3) for _ in range(4)]
    words = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0] * 4, words
    notes = [line.split() for line in lock.log.read_text().splitlines()]
    assert len(notes) == 24
    for entry, leaving in zip(notes[::2], notes[1::2], strict=True):
        assert (entry[0], leaving[0], entry[1]) == ("in", "out", leaving[1]), notes


def test_a_live_owner_is_named_and_the_error_says_what_to_do(lock: Directory) -> None:
    child = lock.holding()
    try:
        with pytest.raises(GpuTaken) as raised, gpu_lock(here(), "me", places=lock.places):
            pass
        assert f"pid {child.pid} (a child) has the GPU for " in raised.value.message
        assert raised.value.exit_code is Exit.INVALID
        assert raised.value.hint is not None
        assert "--wait SECONDS" in raised.value.hint
    finally:
        child.kill()
        child.communicate()


def test_a_live_owner_is_waited_for_and_said_every_so_often(lock: Directory) -> None:
    child = lock.holding()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            child.send_signal(signal.SIGTERM)

    try:
        with gpu_lock(here(), "me", places=lock.places, wait=60, every=0.5, tell=tell) as held:
            assert held.notes == []  # let go of, not taken over
            assert len(told) >= 2
            assert told[0].startswith("waiting for the GPU, 0 of 60 s: ")
    finally:
        child.kill()
        child.communicate()


def test_waiting_ends_when_its_time_is_over(lock: Directory) -> None:
    child = lock.holding()
    try:
        began = time.monotonic()
        with (
            pytest.raises(GpuTaken, match=r"\(waited 1 s\)"),
            gpu_lock(here(), "me", places=lock.places, wait=1, every=60),
        ):
            pass
        assert 1 <= time.monotonic() - began < 20
    finally:
        child.kill()
        child.communicate()


def test_the_lock_of_a_killed_process_is_taken_over_at_once_with_a_note(lock: Directory) -> None:
    child = lock.holding()
    child.kill()  # and not waited for: a zombie is as gone
    assert wait_for(lambda: look(here(), lock.places)[0].standing is Standing.DEAD)
    told: list[str] = []
    with gpu_lock(here(), "me", places=lock.places, tell=told.append) as held:
        assert held.notes[0].endswith(f"pid {child.pid} (a child) had the GPU: its process {child.pid} is gone")
    assert told == [f"note: the GPU's lock is taken over: {held.notes[0]}"]
    child.communicate()


def test_of_many_who_find_a_dead_owner_one_gets_it(lock: Directory) -> None:
    dead = lock.holding()
    dead.kill()
    dead.communicate()
    lock.log.unlink()
    children = [lock.child(wait=0) for _ in range(4)]
    assert wait_for(lambda: sum(child.poll() is not None for child in children) == 3, seconds=60)
    Path(f"{lock.log}.go").touch()
    words = [child.communicate(timeout=120)[1] for child in children]
    assert sorted(child.returncode for child in children) == [0, 1, 1, 1], words
    assert sum("GpuTaken" in each for each in words) == 3, words
    assert [line.split()[0] for line in lock.log.read_text().splitlines()] == ["in", "out"]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_go_of_the_lock(lock: Directory, ending: signal.Signals) -> None:
    child = lock.holding()
    child.send_signal(ending)
    _, words = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in words
    assert lock.owner.read_text().startswith("FREE ")


def test_an_exception_lets_go_of_the_lock(lock: Directory) -> None:
    with pytest.raises(ZeroDivisionError), gpu_lock(here(), "me", places=lock.places):
        raise ZeroDivisionError
    assert lock.owner.read_text().startswith("FREE ")


def test_an_interrupt_while_it_is_taken_leaves_nothing_behind(lock: Directory) -> None:
    real = here()

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        answer = real(argv)
        if "change" in argv and not lock.owner.read_text().startswith("FREE"):
            raise KeyboardInterrupt  # the change was made, and we never heard of it
        return answer

    with pytest.raises(KeyboardInterrupt), gpu_lock(ask, "me", places=lock.places):
        raise AssertionError("it was not taken")
    assert lock.owner.read_text().startswith("FREE ")


def test_its_owner_gives_signs_of_life(lock: Directory) -> None:
    with gpu_lock(here(), "me", places=lock.places, beat=0.1) as held:
        first = lock.owner.read_text().splitlines()
        assert wait_for(lambda: lock.owner.read_text().splitlines()[2] != first[2])
        assert lock.owner.read_text().splitlines()[1] == first[1]
        held.check()


def test_a_lock_that_is_taken_away_is_noticed_and_left_to_its_taker(lock: Directory) -> None:
    with gpu_lock(here(), "me", places=lock.places, beat=0.1) as held:
        (holder,) = look(here(), lock.places)
        assert let_go_of(here(), holder) or let_go_of(here(), look(here(), lock.places)[0])
        assert wait_for(lambda: held.lost is not None)
        lock.owner.write_text("somebody-else 1782828229\n")
        with pytest.raises(LockLost, match=r"the GPU was not ours all the time: .*free") as raised:
            held.check()
        assert raised.value.exit_code is Exit.INVALID
    assert lock.owner.read_text() == "somebody-else 1782828229\n"


def test_a_machine_that_goes_away_is_noticed_and_releasing_says_so(lock: Directory) -> None:
    away = False
    real = here()

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        if away:
            raise MissingError("no route to host")
        return real(argv)

    told: list[str] = []
    with gpu_lock(ask, "me", places=lock.places, beat=0.1, stale=0.5, tell=told.append) as held:
        away = True
        assert wait_for(lambda: held.lost is not None)
        with pytest.raises(LockLost, match=r"no sign of life could be written for .* s: no route to host"):
            held.check()
    assert told[-1] == ("warning: the GPU's lock could not be let go of: no route to host; others take it after 0 s")
    assert lock.owner.read_text().startswith("patchstack:")


def test_a_program_below_the_owner_has_its_lock_and_does_not_end_it(
    lock: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpu_lock(here(), "outer", places=lock.places) as outer:
        monkeypatch.setenv(gpulock.TOKEN, outer.token)
        with gpu_lock(here(), "inner", places=lock.places) as inner:
            inner.check()
        assert look(here(), lock.places)[0].standing is Standing.OURS
        (holder,) = look(here(), lock.places)
        assert holder.owner is not None
        assert holder.owner.purpose == "outer"
        with (
            pytest.raises(LockLost, match="the lock that this ran under is gone"),
            gpu_lock(here(), "inner", places=lock.places) as inner,
        ):
            lock.owner.write_text("somebody-else\n")
            inner.check()


NOTEBOOK = "FREE released-by-claude-fp4norm-profile 1782828229\n"


@pytest.fixture
def agreed(places: Places) -> Path:
    """The owner file that scripts by hand have agreed on, in the home."""
    directory = places.home / "gpu_bench_lock"
    directory.mkdir()
    return directory / "owner"


def both(lock: Directory) -> tuple[Place, ...]:
    return (*lock.places, Place(path="~/gpu_bench_lock", if_there=True))


def test_the_agreed_owner_file_is_taken_and_freed_with_ours(lock: Directory, agreed: Path) -> None:
    agreed.write_text(NOTEBOOK)
    assert look(here(), both(lock))[1].words == f"free ({NOTEBOOK.strip()})"
    with gpu_lock(here(), "gate", places=both(lock)):
        assert agreed.read_text().startswith(f"patchstack:{this_process('', '').user}@")
    assert agreed.read_text().startswith("FREE released-by-patchstack-gate 1")


def test_the_agreed_owner_file_is_not_made_where_there_is_none(lock: Directory, places: Places) -> None:
    with gpu_lock(here(), "gate", places=both(lock)):
        pass
    assert not (places.home / "gpu_bench_lock").exists()


def test_an_owner_of_the_agreed_file_is_named_and_never_taken_over(lock: Directory, agreed: Path) -> None:
    agreed.write_text("claude-fp4norm-profile 1782828229\n")
    os.utime(agreed, (0, 0))
    with pytest.raises(GpuTaken) as raised, gpu_lock(here(), "gate", places=both(lock), stale=0.1, wait=1):
        pass
    assert "'claude-fp4norm-profile 1782828229' has the GPU, by ~/gpu_bench_lock/owner for " in raised.value.message
    assert raised.value.hint == "where nobody uses the GPU any more: patchstack gpu unlock --force"
    assert agreed.read_text() == "claude-fp4norm-profile 1782828229\n"
    assert not lock.owner.exists()


def test_who_is_quicker_at_the_second_place_makes_the_first_free_again(lock: Directory, agreed: Path) -> None:
    agreed.write_text(NOTEBOOK)
    real = here()

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        if "change" in argv and str(lock.path) in argv:
            agreed.write_text("codex-serving 1782890417\n")
        return real(argv)

    with pytest.raises(GpuTaken), gpu_lock(ask, "gate", places=both(lock)):
        pass
    assert lock.owner.read_text().startswith("FREE ")
    assert agreed.read_text() == "codex-serving 1782890417\n"


def test_one_who_waits_for_the_second_place_is_not_in_his_own_way_at_the_first(lock: Directory, agreed: Path) -> None:
    agreed.write_text(NOTEBOOK)
    real = here()
    seen: list[str] = []

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        if "change" in argv and "change" not in seen:
            agreed.write_text("codex-serving 1782890417\n")
        seen.append("change" if "change" in argv else "look")
        if seen.count("look") == 3:
            agreed.write_text(NOTEBOOK)
        return real(argv)

    with gpu_lock(ask, "gate", places=both(lock), wait=20) as held:
        assert held.notes == []


def test_a_change_waits_for_one_that_is_being_made(lock: Directory) -> None:
    lock.path.mkdir()
    with open(lock.path / "guard", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        letting_go = threading.Timer(1.0, fcntl.flock, (guard, fcntl.LOCK_UN))
        letting_go.start()
        began = time.monotonic()
        with gpu_lock(here(), "me", places=lock.places):
            assert time.monotonic() - began > 0.9
        letting_go.join()


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"\x00\xff\x00", b'patchstack:me@there:1:gate 1782828229\n{"schema": "patch']
)
def test_a_file_that_says_nothing_is_waited_for_and_then_taken_over(lock: Directory, text: bytes) -> None:
    lock.written(text)
    with pytest.raises(GpuTaken, match="says nothing that can be read"), gpu_lock(here(), "me", places=lock.places):
        pass
    lock.written(text, age=500)
    with gpu_lock(here(), "me", places=lock.places) as held:
        assert "nobody has touched it for 50" in held.notes[0]


def test_a_file_from_the_future_that_says_nothing_is_watched(lock: Directory) -> None:
    lock.written(b"", age=-100_000)
    with gpu_lock(here(), "me", places=lock.places, stale=0.5, wait=30) as held:
        assert "says nothing that can be read, and nobody has touched it for" in held.notes[0]


def test_an_owner_that_is_no_file_is_refused(lock: Directory) -> None:
    lock.owner.mkdir(parents=True)
    os.utime(lock.owner, (0, 0))
    with pytest.raises(GpuTaken, match="it is no file"), gpu_lock(here(), "me", places=lock.places):
        pass
    assert os.listdir(lock.owner) == []


def test_a_symbolic_link_in_the_lock_s_stead_is_not_followed(lock: Directory, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    lock.path.symlink_to(tmp_path / "victim")
    with pytest.raises(MissingError, match="it is a symbolic link"), gpu_lock(here(), "me", places=lock.places):
        pass
    assert os.listdir(tmp_path / "victim") == []


TOOLS = ("sh", "sed", "cat", "date", "readlink", "cksum", "head", "stat", "mkdir", "rm", "mv", "sleep")


def test_a_machine_without_flock_cannot_keep_a_lock_and_says_so(lock: Directory, tmp_path: Path) -> None:
    ask = here(env=smi.only(tmp_path / "bin", TOOLS))
    with (
        pytest.raises(MissingError, match="there is no flock program") as raised,
        gpu_lock(ask, "me", places=lock.places),
    ):
        pass
    assert raised.value.hint is not None
    assert "flock is in the package util-linux" in raised.value.hint
    assert not lock.owner.exists()


def test_a_change_that_cannot_be_written_leaves_the_file_as_it_was(lock: Directory, tmp_path: Path) -> None:
    lock.written("FREE released-by-me 1782828229\n")
    ask = here(env=smi.program(tmp_path / "bin", "mv", "echo 'No space left on device' >&2; exit 1"))
    with (
        pytest.raises(MissingError, match="cannot be written: No space left on device"),
        gpu_lock(ask, "me", places=lock.places),
    ):
        pass
    assert lock.owner.read_text() == "FREE released-by-me 1782828229\n"
    assert sorted(os.listdir(lock.path)) == ["guard", "owner"]


def test_a_full_disk_leaves_the_file_as_it_was(lock: Directory, tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(mount)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here, only root may: {done.stderr.decode().strip()}")
    try:
        (mount / "gpu.lock").mkdir()
        (mount / "gpu.lock" / "owner").write_text("FREE released-by-me 1782828229\n")
        (mount / "gpu.lock" / "guard").touch()
        with pytest.raises(OSError, match="No space left"):
            (mount / "filler").write_bytes(b"x" * 100_000)
        with (
            pytest.raises(MissingError, match=r"cannot be written: .*([Nn]o space|I/O error)"),
            gpu_lock(here(), "me", places=(Place(path=str(mount / "gpu.lock")),)),
        ):
            pass
        assert (mount / "gpu.lock" / "owner").read_text() == "FREE released-by-me 1782828229\n"
    finally:
        subprocess.run(["umount", str(mount)], check=True)


ME = this_process("0123456789abcdef", "gate")
OWNER = replace(ME, boot="boot-of-a-laptop", host="laptop", since=1000.0)
NOW = Now(boot="boot-of-the-spark", namespace="pid:[1]", uptime=500.0, epoch=1500.0)


def a_file(owner: Owner, sign: Sign, process: str | None = None) -> File:
    uptime = "-" if sign.uptime is None else f"{sign.uptime:.2f}"
    text = f"{taken_line(owner)} 1500\n{record_line(owner)}\nbeat {sign.boot or '-'} {uptime} {sign.epoch:.0f}\n"
    return File(place=Place(path="/l"), text=text, digest="1 2", modified=1500.0, process=process)


def at(uptime: float | None = 490.0, epoch: float = 1490.0, boot: str = NOW.boot) -> Sign:
    return Sign(boot=boot, uptime=uptime, epoch=epoch)


THERE = replace(OWNER, boot=NOW.boot, namespace=NOW.namespace, pid=42, start="777")
STAT = "42 (llama) bench) S " + " ".join(str(n) for n in range(4, 22)) + " 777 0 0"


@pytest.mark.parametrize(
    ("file", "now", "unchanged", "standing", "words"),
    [
        (a_file(OWNER, at()), NOW, 0.0, Standing.LIVE, "laptop pid"),
        (a_file(OWNER, at()), NOW, 0.0, Standing.LIVE, "(gate) has the GPU for 8 min"),
        (a_file(OWNER, at(370.0)), NOW, 0.0, Standing.DEAD, "no sign of life for 130 s"),
        (a_file(OWNER, at()), NOW, 200.0, Standing.DEAD, "no sign of life for 200 s"),
        # The clock jumped by a day: the time since the machine's start has not.
        (a_file(OWNER, at(490.0, 1490.0)), replace(NOW, epoch=90000.0), 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(370.0, 90000.0)), NOW, 0.0, Standing.DEAD, "no sign of life for 130 s"),
        # A machine that tells no such time has only its clock; a sign from the future is watched.
        (a_file(OWNER, at(None, 1490.0)), replace(NOW, uptime=None), 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(None, 1300.0)), replace(NOW, uptime=None), 0.0, Standing.DEAD, "for 200 s"),
        (a_file(OWNER, at(None, 9000.0)), replace(NOW, uptime=None), 0.0, Standing.LIVE, "has the GPU"),
        (
            a_file(OWNER, at(None, 9000.0)),
            replace(NOW, uptime=None),
            130.0,
            Standing.DEAD,
            "while we looked, for 130 s",
        ),
        (a_file(OWNER, at(900.0)), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(OWNER, at(900.0)), NOW, 130.0, Standing.DEAD, "no sign of life while we looked"),
        (a_file(OWNER, at(boot="before")), NOW, 0.0, Standing.DEAD, "the machine was started anew since"),
        # The owner's process is one of the machine's own, and can be looked at.
        (a_file(THERE, at(), STAT), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(THERE, at(10.0), STAT), NOW, 0.0, Standing.LIVE, "no sign of life for 490 s, but its process is there"),
        (a_file(THERE, at(), ""), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), STAT.replace("777", "778")), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), STAT.replace(" S ", " Z ")), NOW, 0.0, Standing.DEAD, "its process 42 is gone"),
        (a_file(THERE, at(), None), NOW, 0.0, Standing.LIVE, "has the GPU"),
        # In another namespace a number means another process.
        (a_file(replace(THERE, namespace="pid:[2]"), at(), ""), NOW, 0.0, Standing.LIVE, "has the GPU"),
        # One of our own machine, wherever the GPU is.
        (a_file(ME, at()), NOW, 0.0, Standing.LIVE, "has the GPU"),
        (a_file(replace(ME, start="1"), at()), NOW, 0.0, Standing.DEAD, "is gone"),
    ],
)
def test_an_owner_is_alive_or_gone(file: File, now: Now, unchanged: float, standing: Standing, words: str) -> None:
    holder = judge(file, now, tokens=(), stale=120.0, unchanged=unchanged)
    assert holder.standing is standing, holder
    assert words in holder.words


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "patchstack.gpu-lock/2"},
        {"pid": "1"},
        {"token": ""},
        {"since": None},
        {"extra": 1},
        {"host": 7},
    ],
)
def test_a_record_of_another_form_is_not_read(change: dict[str, object]) -> None:
    lines = (a_file(OWNER, at()).text or "").splitlines()
    assert read_owner("\n".join(lines)) is not None
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    assert read_owner("\n".join(lines)) is None


@pytest.mark.parametrize("last", ["", "beat", "beat - x 1", "rest - - 1", "beat - - -", "beat - - 1 1"])
def test_a_record_without_a_sign_of_life_is_not_read(last: str) -> None:
    lines = (a_file(OWNER, at()).text or "").splitlines()
    assert read_owner("\n".join([*lines[:2], last])) is None
    assert read_owner("\n".join([lines[0], "[]", lines[2]])) is None


def test_no_place_at_all_is_an_error() -> None:
    with pytest.raises(MissingError, match="there is no place for the GPU's lock"), gpu_lock(here(), "me", places=()):
        pass


def test_a_machine_that_answers_oddly_is_an_error() -> None:
    real = here()

    def odd(argv: Sequence[str]) -> tuple[int, str]:
        return real([*argv[:2], argv[2].replace("date +%s", "echo noon"), *argv[3:]])

    with pytest.raises(MissingError, match="the machine does not tell its time"):
        look(odd)
