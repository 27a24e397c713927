"""The lock of a GPU: real processes that want it at the same time, die while they hold it, and find the lock of a dead
process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchstack.errors import Exit, MissingError
from patchstack.machine.ask import here
from patchstack.machine.gpu import lock as gpulock
from patchstack.machine.gpu.lock import GpuTaken, LockLost, Standing, gpu_lock, let_go_of, look
from patchstack.machine.gpu.lock_record import read_owner
from tests.support.gpu_lock import Directory
from tests.support.toy import wait_for


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
            assert held.notes == []  # released, not taken over
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
    child.kill()  # and not waited for: a zombie counts as gone
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
            raise KeyboardInterrupt  # the change was made, but its answer was lost
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
        with pytest.raises(LockLost, match=r"the GPU's lock was lost during the run: .*free") as raised:
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
        with pytest.raises(LockLost, match=r"no heartbeat could be written for .* s: no route to host"):
            held.check()
    assert told[-1] == ("warning: the GPU's lock could not be released: no route to host; the lock expires after 0 s")
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
            pytest.raises(LockLost, match="the lock that this command ran under is gone"),
            gpu_lock(here(), "inner", places=lock.places) as inner,
        ):
            lock.owner.write_text("somebody-else\n")
            inner.check()
