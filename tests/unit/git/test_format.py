"""An export formats no commit twice: git's output is remembered, by digest, in our own cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.git import format as formats
from patchstack.git.objects import Commit
from tests.conftest import Patchstack, Places
from tests.support.builders import Fork, a_fork, edit

Formatted = list[str]


def workspace(fork: Fork, extra: str = "") -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n{extra}"
    )


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork of 20 commits whose series was never written."""
    fork = a_fork(tmp_path, 20)
    for path in fork.patches:
        path.unlink()
    workspace(fork)
    return fork


@pytest.fixture
def formatted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Formatted]:
    """Record the subjects of the commits that git formats."""
    subjects: Formatted = []
    real: Callable[..., object] = formats._write

    def counted(root: Path, base: str, commits: Sequence[Commit], *args: object, **more: object) -> object:
        subjects.extend(commit.subject for commit in commits)
        return real(root, base, commits, *args, **more)

    monkeypatch.setattr(formats, "_write", counted)
    yield subjects


def files(fork: Fork) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(fork.series.iterdir())}


def test_what_is_there_already_is_not_formatted_again(
    fork: Fork, patchstack: Patchstack, formatted: Formatted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("export") == 0
    assert sorted(formatted) == sorted(edit(number)[0] for number in range(1, 21))
    before = files(fork)
    formatted.clear()
    capsys.readouterr()
    assert patchstack("export") == 0
    assert "product: up to date: 20 patches" in capsys.readouterr().out
    assert formatted == []
    # One patch is gone and one commit is new: those two are formatted, and no other.
    (fork.series / "0007-Change-7-of-a-kernel.patch").unlink()
    fork.repo.commit("One more", {"more": "x\n"})
    assert patchstack("export") == 0
    assert sorted(formatted) == ["Change 7 of a kernel", "One more"]
    after = files(fork)
    assert {name: after[name] for name in before if name != "series.lock"} == {
        name: data for name, data in before.items() if name != "series.lock"
    }
    assert patchstack("verify") == 0


def test_a_patch_and_a_lock_that_lie_together_are_not_believed(
    fork: Fork, patchstack: Patchstack, formatted: Formatted
) -> None:
    assert patchstack("export") == 0
    clean = files(fork)
    edited = fork.series / "0002-Change-2-of-a-kernel.patch"
    lie = clean[edited.name].replace(b"From: A U Thor", b"From: Some Body")
    edited.write_bytes(lie)
    lock = fork.series / "series.lock"
    true, false = (hashlib.sha256(data).hexdigest() for data in (clean[edited.name], lie))
    lock.write_text(lock.read_text().replace(true, false))
    formatted.clear()
    assert patchstack("verify") == 0, "its tree is the fork's"
    assert patchstack("export") == 0
    assert formatted == ["Change 2 of a kernel"]
    assert files(fork) == clean


def test_other_options_are_another_memory(fork: Fork, patchstack: Patchstack, formatted: Formatted) -> None:
    assert patchstack("export") == 0
    for extra in ("    context: 5\n", "    form: anchored\n", ""):
        formatted.clear()
        workspace(fork, extra)
        assert patchstack("export") == 0
        assert len(formatted) == 20, extra
    assert b"@@ -7,7 +7,7 @@" in files(fork)["0001-Change-1-of-a-kernel.patch"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"%s": 3}', b'{"%s": ["x", 1, null]}', b"[" * 99_999])
def test_a_damaged_memory_remembers_nothing(
    fork: Fork, patchstack: Patchstack, formatted: Formatted, places: Places, damage: bytes
) -> None:
    assert patchstack("export") == 0
    memory = next((places.cache / "formatted").iterdir())
    memory.write_bytes(damage.replace(b"%s", fork.commits[0].encode()))
    formatted.clear()
    before = files(fork)
    assert patchstack("export") == 0
    assert len(formatted) == 20
    assert files(fork) == before
    assert [path.name for path in memory.parent.iterdir()] == [memory.name]


def test_a_cache_that_cannot_be_written_to_is_done_without(
    fork: Fork, patchstack: Patchstack, formatted: Formatted, places: Places
) -> None:
    places.cache.write_text("not a directory")
    assert patchstack("export") == 0
    assert patchstack("export") == 0
    assert len(formatted) == 40
    assert patchstack("verify") == 0


@pytest.mark.parametrize(
    ("wanted", "cpus", "parts"),
    [
        ("1" * 20, 1, [(0, 10), (10, 20)]),
        ("1" * 7, 8, [(0, 7)]),
        ("1" * 54, 2, [(0, 14), (14, 28), (28, 42), (42, 54)]),
        ("0010", 4, [(2, 3)]),
        ("1011", 4, [(0, 1), (2, 4)]),
        ("0" * 9, 4, []),
        ("0" + "1" * 16 + "0" + "1" * 3, 2, [(1, 11), (11, 17), (18, 21)]),
    ],
)
def test_a_long_series_is_formatted_in_parts_of_commits_that_follow_each_other(
    wanted: str, cpus: int, parts: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert list(formats._parts([letter == "1" for letter in wanted])) == parts


def test_a_commit_that_its_patch_does_not_give_is_named_and_the_others_are_judged_on(
    fork: Fork, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real: Callable[..., list[formats.FormattedCommit]] = formats._write

    def spoiled(*args: object, **more: object) -> object:
        wrong = (b"+changed by commit 3", b"+changed by 3")
        return [replace(one, data=one.data.replace(*wrong)) for one in real(*args, **more)]

    monkeypatch.setattr(formats, "_write", spoiled)
    assert patchstack("export") == 1
    told = capsys.readouterr().err
    assert "error: the series would not recreate the fork; nothing was written" in told
    assert f"{fork.commits[2][:12]} (Change 3 of a kernel): its patch does not produce its tree" in told
    assert told.count("does not produce its tree") == 1
    assert files(fork) == {}
