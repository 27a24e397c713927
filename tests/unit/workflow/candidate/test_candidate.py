"""Candidates in the form of the ledger: the paths that a commit changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack
from tests.support.builders import Changes, Fork, a_fork, executable, numbered, run_git, symlink

ODD: Changes = {
    "old b/new b/x.txt": "x\n",
    "über/é.txt": "x\n",
    'say "x".txt': "x\n",
    "tab\there": "x\n",
    "table.bin": b"\0\1\2" * 20,
}


def rejected(fork: Fork, patchstack: Patchstack, form: str = "plain") -> dict[str, Any]:
    """Return the fork's newest commit, as a rejection stores it."""
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n    form: {form}\n"
    )
    assert patchstack("reject", fork.ref, "--why", "no") == 0
    (path,) = (fork.series.parent / "ledger").iterdir()
    (candidate,) = json.loads(path.read_text())["candidates"]
    assert candidate["commit"] == fork.commits[-1]
    return dict(candidate)


@pytest.mark.parametrize("form", ["plain", "anchored"])
@pytest.mark.parametrize(
    ("changes", "files"),
    [
        (
            {"src/kernel.cu": numbered(300, {9: "nine"}), "src/new.cu": "x\n", "a": "x\n"},
            ["a", "src/kernel.cu", "src/new.cu"],
        ),
        ({"docs/notes.txt": None, "src/other.cpp": None}, ["docs/notes.txt", "src/other.cpp"]),
        ({"tools/run.sh": "#!/bin/sh\necho run\n"}, ["tools/run.sh"]),
        ({"src/other.cpp": executable(numbered(40, {3: "three"}))}, ["src/other.cpp"]),
        ({"docs/notes.txt": None, "docs/renamed.txt": "one\ntwo\nthree\n"}, ["docs/notes.txt", "docs/renamed.txt"]),
        (
            {"src/other.cpp": None, "src/over there.cpp": numbered(40, {3: "three"})},
            ["src/other.cpp", "src/over there.cpp"],
        ),
        ({"src/copy.cpp": numbered(40)}, ["src/copy.cpp"]),
        ({"src/other.cpp": symlink("kernel.cu")}, ["src/other.cpp"]),
        ({"docs/notes.txt": None, "docs/notes.txt/more": "x\n"}, ["docs/notes.txt", "docs/notes.txt/more"]),
        ({"table.bin": b"\0\3" * 9}, ["table.bin"]),
        ({"old b/new b/x.txt": "y\n"}, ["old b/new b/x.txt"]),
        ({"old b/new b/x.txt": None}, ["old b/new b/x.txt"]),
        ({"old b/new b/x.txt": executable("x\n")}, ["old b/new b/x.txt"]),
        ({"über/é.txt": "y\n", "a": "x\n"}, ["a", "über/é.txt"]),
        ({"über/é.txt": None, "über/è.txt": "x\n"}, ["über/è.txt", "über/é.txt"]),
        ({'say "x".txt': "y\n", "tab\there": executable("x\n")}, ['say "x".txt', "tab\there"]),
    ],
)
def test_the_files_of_a_candidate_are_the_paths_it_changes(
    tmp_path: Path, patchstack: Patchstack, changes: Changes, files: list[str], form: str
) -> None:
    fork = a_fork(tmp_path, steps=[("Odd names", ODD), ("The candidate", changes)])
    assert rejected(fork, patchstack, form)["files"] == files
    told = run_git("diff-tree", "-r", "-z", "--no-renames", "--name-only", *fork.commits, cwd=fork.repo.path).stdout
    assert sorted(told.decode().split("\0")[:-1]) == files, "git says the same"


def test_a_diff_in_a_message_names_no_file(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = a_fork(tmp_path, 1)
    body = "It looked like this:\n\ndiff --git a/old.c b/old.c\n--- a/old.c\n+++ b/old.c"
    fork.commits.append(fork.repo.commit("Talk", {"src/new.cu": "x\n"}, body=body))
    assert rejected(fork, patchstack)["files"] == ["src/new.cu"]


def test_a_range_has_the_files_of_each_commit(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = a_fork(tmp_path, steps=[("One", {"a": "x\n"}), ("Two", {"b": "x\n", "c": "x\n"}), ("Three", {"a": None})])
    rejected(fork, patchstack)
    assert patchstack("reject", f"{fork.pin}..{fork.ref}", "--why", "all of it") == 0
    decisions = [json.loads(path.read_text()) for path in (tmp_path / "ledger").iterdir()]
    whole = next(one for one in decisions if len(one["candidates"]) == 3)
    assert [one["files"] for one in whole["candidates"]] == [["a"], ["b", "c"], ["a"]]
