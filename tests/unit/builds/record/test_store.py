"""Builds in the store: each exists completely or not at all, and is made by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from patchstack.builds.proofs.claim import Proof
from patchstack.builds.record.store import RECORD, Store
from patchstack.errors import MissingError, UsageError
from patchstack.files import processes
from patchstack.verdict import Verdict
from tests.support.build_records import a_record
from tests.support.namespaces import in_another, need_namespaces

KEY, OTHER = "ab" * 32, "ac" * 32


def a_build(store: Store, key: str, finished: str = "2026-01-01T00:00:00+00:00", text: str = "program") -> None:
    with store.draft(key) as draft:
        (draft / "bin").mkdir()
        (draft / "bin" / "tool").write_text(text)
        store.commit(key, draft, a_record(key, finished=finished))


def test_a_build_is_found_under_its_key_and_by_the_start_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "builds")
    assert store.find(KEY) is None
    assert store.all() == ()
    a_build(store, KEY)
    a_build(store, OTHER, "2026-02-01T00:00:00+00:00")
    found = store.find(KEY)
    assert found is not None
    assert (found.directory / "bin" / "tool").read_text() == "program"
    assert [stored.key for stored in store.all()] == [OTHER, KEY]
    assert store.named("ab").key == KEY
    with pytest.raises(UsageError, match="build key a is ambiguous: 2 builds match"):
        store.named("a")
    with pytest.raises(MissingError, match="there is no build ff") as error:
        store.named("ff")
    assert error.value.hint == "run 'patchstack build --list' to show the stored builds"


def test_a_draft_that_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RuntimeError), store.draft(KEY) as draft:
        (draft / "half").write_text("a result")
        raise RuntimeError
    assert store.find(KEY) is None
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_build_made_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a_build(store, KEY, text="old")
    a_build(store, KEY, text="new")
    found = store.find(KEY)
    assert found is not None
    assert (found.directory / "bin" / "tool").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [KEY]


@pytest.mark.parametrize("damage", ["", "{", "[]", "\0", "{}", '{"schema": "patchstack.build/1", "status": "built"}'])
def test_a_damaged_record_is_no_build(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    a_build(store, KEY)
    (tmp_path / KEY / RECORD).write_text(damage)
    assert store.find(KEY) is None
    a_build(store, KEY)
    assert store.find(KEY) is not None


def test_a_killed_build_leaves_no_half_result_and_the_next_one_clears_up(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal; from pathlib import Path; from patchstack.builds.record.store import Store\n"
        f"with Store(Path(sys.argv[1])).draft({KEY!r}) as draft:\n"
        "    (draft / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    store = Store(tmp_path)
    assert store.find(KEY) is None
    assert [path for path in tmp_path.iterdir() if path.is_dir()], "the draft of the killed one is there"
    a_build(store, OTHER)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [OTHER]


def test_the_draft_of_a_process_in_another_container_stays_while_it_may_live(tmp_path: Path) -> None:
    need_namespaces()
    script = (
        "from pathlib import Path; from patchstack.builds.record.store import Store\n"
        f"with Store(Path(sys.argv[1])).draft({KEY!r}) as draft:\n"
        "    (draft / 'half').write_text('x'); ready()\n"
    )
    with in_another(script, tmp_path) as pid:
        assert not Path(f"/proc/{pid}").exists()
        a_build(Store(tmp_path), OTHER)
        (draft,) = tmp_path.glob(".draft-*")
        assert (draft / "half").read_text() == "x"
    a_build(Store(tmp_path), OTHER)
    assert draft.exists(), "nobody here can tell that it was killed"
    old = time.time() - 3 * 86400
    os.utime(draft, (old, old))
    a_build(Store(tmp_path), OTHER)
    assert draft.exists(), "something in it was written lately"
    os.utime(draft / "half", (old, old))
    a_build(Store(tmp_path), OTHER)
    assert not draft.exists()


@pytest.mark.parametrize(
    ("name", "age", "stays"),
    [
        (f".draft-{KEY[:12]}-{2**22 + 1}", 60, True),
        (f".draft-{KEY[:12]}-{2**22 + 1}", 7200, False),
        (f".draft-{KEY[:12]}-{2**22 + 1}-old", 7200, False),
        (f".draft-{KEY[:12]}-{os.getpid()}", 7200, True),
    ],
    ids=["young", "old", "old, of a build replaced", "of a number in use"],
)
def test_a_draft_named_by_an_earlier_version_is_removed_once_it_is_old(
    tmp_path: Path, name: str, age: float, stays: bool
) -> None:
    (tmp_path / name).mkdir()
    then = time.time() - age
    os.utime(tmp_path / name, (then, then))
    a_build(Store(tmp_path), KEY)
    assert (tmp_path / name).exists() == stays


def test_a_number_used_again_for_the_same_key_is_in_nobodys_way(tmp_path: Path) -> None:
    left = tmp_path / f".draft-{KEY[:12]}-{processes.tag()}"
    left.mkdir()
    a_build(Store(tmp_path), KEY)
    assert Store(tmp_path).find(KEY) is not None


def test_of_two_that_want_one_key_one_waits_and_is_told_for_whom(tmp_path: Path) -> None:
    store = Store(tmp_path)
    order: list[str] = []
    told: list[str] = []
    holds = threading.Event()

    def first() -> None:
        with store.alone(KEY, told.append):
            holds.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    assert holds.wait(5)
    with Store(tmp_path).alone(KEY, told.append):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert told == [f"process {os.getpid()}"]


def test_what_was_not_used_for_long_is_old(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a_build(store, KEY)
    a_build(store, OTHER)
    month = time.time() - 31 * 86400
    for key in (KEY, OTHER):
        os.utime(tmp_path / key / RECORD, (month, month))
    used = store.find(OTHER)
    assert used is not None
    store.touch(used)
    assert [stored.key for stored in store.older_than(30)] == [KEY]
    store.remove(store.older_than(30)[0])
    assert [stored.key for stored in store.all()] == [OTHER]


def test_an_amended_record_is_what_is_found_then(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a_build(store, KEY)
    found = store.find(KEY)
    assert found is not None
    proof = Proof(id="exists", verdict=Verdict.PASS, detail="tool")
    store.amend(found, msgspec.structs.replace(found.record, proofs=(proof,)))
    again = store.find(KEY)
    assert again is not None
    assert again.record.proofs == (proof,)
