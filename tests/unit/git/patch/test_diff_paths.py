"""`named_paths` and `every_path`: every path a patch may touch, so that its content can be fetched ahead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patchstack.git import handover
from patchstack.git.handover import every_path
from patchstack.git.patch.diff import named_paths, old_names
from tests.support.builders import Changes, RepoBuilder, executable, numbered

FILES: Changes = {
    "src/a.cpp": numbered(30),
    "with space.txt": "a\nb\n",
    "über/é.txt": "x\n",
    'say "x".txt': "x\n",
    "tab\there": "x\n",
    "table.bin": b"\0\1\2" * 20,
    "run.sh": "#!/bin/sh\n",
}


@pytest.mark.parametrize(
    ("changes", "options", "paths"),
    [
        ({"src/a.cpp": numbered(30, {7: "seven"})}, [], ["src/a.cpp"]),
        ({"src/a.cpp": numbered(30, {7: "seven"}), "run.sh": None}, [], ["src/a.cpp", "run.sh"]),
        ({"src/b.cpp": numbered(30), "src/a.cpp": None}, ["-M"], ["src/a.cpp", "src/b.cpp"]),
        ({"src/b.cpp": numbered(30)}, ["-C", "--find-copies-harder"], ["src/a.cpp", "src/b.cpp"]),
        ({"run.sh": executable("#!/bin/sh\n")}, [], ["run.sh"]),
        ({"table.bin": b"\0\3" * 9}, ["--binary"], ["table.bin"]),
        ({"with space.txt": "a\nB\n"}, [], ["with space.txt"]),
        ({"with space.txt": executable("a\nb\n")}, [], ["with space.txt"]),
        ({"over there.txt": "a\nb\n", "with space.txt": None}, ["-M"], ["with space.txt", "over there.txt"]),
        ({"über/é.txt": "y\n"}, [], ["über/é.txt"]),
        ({'say "x".txt': "y\n"}, [], ['say "x".txt']),
        ({"tab\there": "y\n"}, [], ["tab\there"]),
        ({"src/a.cpp": numbered(30, {7: "seven"})}, ["--src-prefix=old/", "--dst-prefix=new/"], ["src/a.cpp"]),
    ],
)
def test_every_path_that_git_names_in_a_diff_is_found(
    tmp_path: Path, changes: Changes, options: list[str], paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    before = repo.commit("Before", FILES)
    diff = repo.diff(before, repo.commit("After", changes), *options)
    assert {path.encode() for path in paths} <= named_paths(diff)
    patch = b"From x\nSubject: [PATCH] y\n\n" + diff + b"-- \n2.39.5\n"
    assert {path.encode() for path in paths} <= named_paths(patch)
    monkeypatch.setattr(handover, "_MOST_ESCAPES", -1)  # git lists the paths
    assert {path.encode() for path in paths} <= every_path(patch)


def test_a_patch_that_git_cannot_read_touches_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_MOST_ESCAPES", -1)
    assert every_path(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-cut short\n") == set()


def test_git_lists_the_paths_of_a_patch_with_many_files() -> None:
    many = b"".join(
        b"diff --git a/d/f%d b/d/f%d\n--- a/d/f%d\n+++ b/d/f%d\n@@ -1 +1 @@\n-a\n+b\n" % (n, n, n, n)
        for n in range(6000)
    )
    assert every_path(many + many) == {b"d/f%d" % n for n in range(6000)}


def test_the_files_whose_contents_change_are_named_in_order(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    before = repo.commit("Before", FILES)
    changes: Changes = {
        "src/a.cpp": numbered(30, {7: "seven"}),
        "with space.txt": None,
        "run.sh": executable("#!/bin/sh\n"),
        "new": "x\n",
    }
    diff = repo.diff(before, repo.commit("After", changes))
    assert list(old_names(b"Subject: x\n---\n\n" + diff)) == [b"src/a.cpp", b"with space.txt\t"]


@given(st.binary(max_size=40), st.lists(st.sampled_from([b"\n", b"--- a/", b"x", b"\n--- a/"]), max_size=9))
def test_any_bytes_are_looked_through_for_names(noise: bytes, pieces: list[bytes]) -> None:
    data = b"".join(pieces) + noise
    lines = data.split(b"\n")[1:-1]
    assert list(old_names(data)) == [line[6:] for line in lines if line.startswith(b"--- a/")]


def test_a_traditional_diff_names_its_paths_too() -> None:
    assert b"src/a.cpp" in named_paths(
        b"--- a/src/a.cpp\t2026-01-01 00:00:00\n+++ b/src/a.cpp\t2026-01-01\n@@ -1 +1 @@\n-a\n+b\n"
    )


def test_line_ends_of_dos_do_not_stick_to_a_path() -> None:
    assert b"src/a.cpp" in named_paths(b"diff --git a/src/a.cpp b/src/a.cpp\r\n--- a/src/a.cpp\r\n+++ b/src/a.cpp\r\n")


def test_no_path_leaves_the_tree() -> None:
    found = named_paths(b"diff --git a/../x b/../x\n--- /etc/passwd\n+++ b//etc/shadow\nrename from ../../y\n")
    assert not [name for name in found if name.startswith(b"/") or b".." in name.split(b"/")]


@settings(derandomize=True)
@given(st.one_of(st.binary(), st.text('diff --git a/b"\\07\t\r\n+-renamofcpyt').map(str.encode)))
@example(b'"\\')
def test_no_bytes_whatever_make_it_fail(data: bytes) -> None:
    for name in named_paths(b"--- " + data) | named_paths(data):
        assert name
        assert not name.startswith(b"/")
