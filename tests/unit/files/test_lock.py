"""One process at a time: who is refused, who waits and for whom, and that a program may hold a lock with us."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from patchstack.errors import MissingError, UsageError
from patchstack.files.lock import locked, locked_directory, locked_while
from patchstack.process import run


def give_up(who: str) -> None:
    raise RuntimeError(who)


def test_who_must_wait_for_a_file_is_told_for_whom_and_may_give_up(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file), pytest.raises(RuntimeError, match=f"^process {os.getpid()}$"), locked(file, give_up):
        pytest.fail("two hold it")
    with locked(file, give_up):
        assert file.read_text() == f"process {os.getpid()}\n"


def test_a_holder_that_has_not_said_who_it_is_is_another_process(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file):
        os.truncate(file, 0)
        with pytest.raises(RuntimeError, match=r"^another process$"), locked(file, give_up):
            pytest.fail("two hold it")


def test_of_a_longer_name_in_the_file_nothing_stays(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("process 12345678901234567890\n")
    with locked(file):
        assert file.read_text() == f"process {os.getpid()}\n"


@pytest.mark.parametrize("told", [None, [""]])
def test_who_does_not_give_up_has_the_lock_after_the_holder(tmp_path: Path, told: list[str] | None) -> None:
    file, order = tmp_path / "lock", []
    first_has_it, second_waits = threading.Event(), threading.Event()

    def first() -> None:
        with locked(file):
            first_has_it.set()
            second_waits.wait(0.2 if told is None else 5)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    assert first_has_it.wait(5)
    with locked(file, None if told is None else lambda who: second_waits.set()):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_program_that_was_given_the_descriptor_holds_the_lock_with_us(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file) as descriptor:
        run(["sh", "-c", "sleep 1 >/dev/null 2>&1 &"], hold=(descriptor,))
    with pytest.raises(RuntimeError), locked(file, give_up):
        pytest.fail("two hold it")
    with locked(file):
        pass


def test_a_program_that_was_not_given_it_does_not(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file):
        run(["sh", "-c", "sleep 1 >/dev/null 2>&1 &"])
    with locked(file, give_up):
        pass


def test_a_directory_in_use_is_refused_with_the_name_of_its_users(tmp_path: Path) -> None:
    words = f"another patchstack export is running in {re.escape(str(tmp_path))}"
    with locked_directory(tmp_path, "patchstack export"):
        with pytest.raises(UsageError, match=words) as raised, locked_directory(tmp_path, "patchstack export"):
            pytest.fail("two hold it")
        assert raised.value.hint == "wait until it ends"
    with locked_directory(tmp_path, "patchstack export"):
        assert list(tmp_path.iterdir()) == []


def test_the_child_of_a_killed_process_may_hold_a_directory_a_moment_longer(tmp_path: Path) -> None:
    with locked_directory(tmp_path, "x") as descriptor:
        child = subprocess.Popen(["sleep", "0.5"], pass_fds=(descriptor,))
    with locked_directory(tmp_path, "x"):
        assert child.wait() == 0


def test_only_a_directory_can_be_held_as_one(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingError, match="none cannot be opened: No such file"),
        locked_directory(tmp_path / "none", "x"),
    ):
        pytest.fail("it does not exist")
    (tmp_path / "file").touch()
    with (
        pytest.raises(MissingError, match="file cannot be opened: Not a directory"),
        locked_directory(tmp_path / "file", "x"),
    ):
        pytest.fail("it is a file")


def test_an_error_of_the_block_lets_go_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="of the block"), locked_directory(tmp_path, "x"):
        raise OSError("of the block")
    with locked_directory(tmp_path, "x"):
        pass


def test_a_lock_that_exists_while_it_is_held_names_its_owner_and_is_gone_after(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked_while(file, "alice", give_up):
        assert file.read_text() == "alice\n"
        with pytest.raises(RuntimeError, match=r"^alice$"), locked_while(file, "bob", give_up):
            pytest.fail("two hold it")
    assert list(tmp_path.iterdir()) == []


def _wait(barrier: threading.Barrier) -> None:
    barrier.wait(20)


def test_who_waited_for_a_lock_that_was_removed_holds_the_one_that_exists(tmp_path: Path) -> None:
    file, order = tmp_path / "lock", list[str]()
    waiting = threading.Barrier(3)

    def take(name: str) -> None:
        with locked_while(file, name, lambda _: _wait(waiting)):
            order.append(name)
            assert file.read_text() == f"{name}\n"

    with locked_while(file, "first", give_up):
        others = [threading.Thread(target=take, args=(name,)) for name in ("second", "third")]
        for one in others:
            one.start()
        waiting.wait(20)
        assert order == []
    for one in others:
        one.join(20)
    assert sorted(order) == ["second", "third"]
    assert not file.exists()


def test_what_a_killed_holder_left_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("a longer name of one that was killed\n")
    with locked_while(file, "me", give_up):
        assert file.read_text() == "me\n"


def test_an_owner_s_name_cannot_write_to_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with (
        locked_while(file, "\x1b[31mred\x07", give_up),
        pytest.raises(RuntimeError, match=r"^\[31mred$"),
        locked_while(file, "bob", give_up),
    ):
        pytest.fail("two hold it")


@pytest.mark.parametrize("kind", ["link", "dangling", "directory", "pipe"])
def test_what_is_no_lock_of_ours_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    file, victim = tmp_path / "lock", tmp_path / "victim"
    victim.write_text("precious")
    match kind:
        case "link":
            file.symlink_to(victim)
        case "dangling":
            file.symlink_to(tmp_path / "nowhere")
        case "directory":
            file.mkdir()
        case _:
            os.mkfifo(file)
    with pytest.raises(UsageError, match="is not a lock file"), locked_while(file, "me", give_up):
        pytest.fail("it is held")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_that_does_not_exist_has_no_lock(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingError, match="cannot be written"),
        locked_while(tmp_path / "no" / "lock", "me", give_up),
    ):
        pytest.fail("it is held")
