"""Files of a GPU's lock: the agreed form, and files that are empty, links, or not writable."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.machine.ask import Place, here
from patchstack.machine.gpu.lock import GpuTaken, gpu_lock, look
from patchstack.machine.gpu.lock_record import this_process
from tests.conftest import Places
from tests.support import smi
from tests.support.gpu_lock import Directory


@pytest.fixture
def lock(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


NOTEBOOK = "FREE released-by-claude-fp4norm-profile 1782828229\n"


@pytest.fixture
def agreed(places: Places) -> Path:
    """Return the owner file that hand-written scripts use, in the home directory."""
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
    assert (
        "'claude-fp4norm-profile 1782828229' has the GPU, according to ~/gpu_bench_lock/owner for "
        in raised.value.message
    )
    assert raised.value.hint == "if nobody uses the GPU anymore, run 'patchstack gpu unlock --force'"
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
    with pytest.raises(GpuTaken, match="cannot be understood"), gpu_lock(here(), "me", places=lock.places):
        pass
    lock.written(text, age=500)
    with gpu_lock(here(), "me", places=lock.places) as held:
        assert "nobody has touched it for 50" in held.notes[0]


def test_a_file_from_the_future_that_says_nothing_is_watched(lock: Directory) -> None:
    lock.written(b"", age=-100_000)
    with gpu_lock(here(), "me", places=lock.places, stale=0.5, wait=30) as held:
        assert "cannot be understood, and nobody has touched it for" in held.notes[0]


def test_an_owner_that_is_no_file_is_refused(lock: Directory) -> None:
    lock.owner.mkdir(parents=True)
    os.utime(lock.owner, (0, 0))
    with pytest.raises(GpuTaken, match="it is not a file"), gpu_lock(here(), "me", places=lock.places):
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
        pytest.raises(MissingError, match="flock is not installed") as raised,
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
