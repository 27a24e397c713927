"""Sentences and states that must be true, on matches, inheritance and moves; and the cost of hostile input."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from patchstack.git.patch.diff import named_paths
from tests.conftest import RunCli
from tests.support.builders import Changes, Fork, a_fork, kernel_steps, mail, numbered, write_series


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 5)


@pytest.mark.parametrize("options", [[], ["--keep-going"]])
def test_a_series_that_does_not_apply_is_not_said_to_match(fork: Fork, run_cli: RunCli, options: list[str]) -> None:
    fork.edit_patch(2, "-line 20\n", "-line twenty\n")
    fork.repo.commit("One more", {"more": "x\n"})
    (drift,) = run_cli("verify", *fork.options, *options, "--json").document["drift"]["summary"]
    assert drift.startswith("the fork has 1 commit the series lacks; the last commit it mirrors is")
    assert "matches" not in drift


def test_a_patch_edited_behind_an_edited_one_diverges_itself(tmp_path: Path, run_cli: RunCli) -> None:
    steps: list[tuple[str, Changes]] = [
        ("First", {"f": "".join(f"{n}\n" for n in range(10)) + "x\n" * 40}),
        ("Second", {"f": "".join(f"{n}\n" for n in range(10)) + "x\n" * 20 + "new\n" + "x\n" * 20}),
    ]
    fork = a_fork(tmp_path, steps=steps)
    fork.edit_patch(1, "+3\n", "+three\n")
    # The same line, inserted elsewhere: among equal lines nothing else would detect it.
    fork.edit_patch(2, "@@ -28,6 +28,7 @@", "@@ -40,6 +40,7 @@")
    states = [patch["state"] for patch in run_cli("verify", *fork.options, "--json").document["patches"]]
    assert states == ["diverges", "diverges"]


def test_commits_that_undo_each_other_may_stand_for_one_another(tmp_path: Path, run_cli: RunCli) -> None:
    off, on = {"switch": "off\n"}, {"switch": "on\n"}
    steps: list[tuple[str, Changes]] = [("Begin", off), ("Set", on), ("Unset", off), ("Set", on), ("Unset", off)]
    fork = a_fork(tmp_path, steps=steps)
    names = [path.name for path in fork.patches]
    second, third = fork.patches[1].read_bytes(), fork.patches[2].read_bytes()
    fork.patches[3].write_bytes(second)
    fork.patches[1].write_bytes(
        fork.patches[1].read_bytes().replace(fork.commits[1].encode(), fork.commits[3].encode())
    )
    fork.patches[3].write_bytes(second)
    assert names and third
    document = run_cli("verify", *fork.options, "--json").document
    assert (document["holds"], document["drift"]) == (True, None)


def test_every_reason_of_a_conflict_stands_on_its_own_line_and_whole(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, steps=kernel_steps([1]))
    diff = (
        b"diff --git a/src/other.cpp b/src/other.cpp\n--- a/src/other.cpp\n+++ b/src/other.cpp\n"
        b"@@ -5,3 +5,3 @@\n line 5\n-    for (int i = 0; i < m; i++) {\n+x\n line 7\n"
    )
    write_series(fork.series, {"0002-loop.patch": mail("loop", diff)})
    lines = run_cli("verify", *fork.sources, "--apply-only").stdout.splitlines()
    assert any("`    for (int i = 0; i < m; i++) {`" in line for line in lines)


@pytest.mark.parametrize(
    "data",
    [
        b'diff --git "a/x" "b/x"\n+++ "' + b'\\"' * 200_000 + b"\n",
        b"--- " + b'" ' * 200_000 + b"\n",
        b"diff --git " + b" b/" * 200_000 + b"\n",
    ],
    ids=["quotes", "words", "halves"],
)
def test_a_hostile_name_costs_no_more_than_its_length(data: bytes) -> None:
    started = time.monotonic()
    named_paths(data)
    assert time.monotonic() - started < 2


def test_a_path_of_thousands_of_directories_is_no_bug(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 1)
    deep = "/".join(["d"] * 3000)
    diff = f"diff --git a/{deep} b/{deep}\nnew file mode 100644\n--- /dev/null\n+++ b/{deep}\n@@ -0,0 +1 @@\n+x\n"
    write_series(fork.series, {"0002-deep.patch": mail("deep", diff.encode())})
    assert run_cli("verify", *fork.sources, "--apply-only").code == 0


def test_a_branch_of_another_history_is_told_in_time(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 3)
    fork.repo.branch("other", fork.pin)
    for number in range(400):
        fork.repo.commit(f"Other {number}", {"other": numbered(3, {1: str(number)})})
    started = time.monotonic()
    ran = run_cli("verify", *fork.options[:-1], "other", "--json")
    assert ran.code == 1
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("option", ["--upstream", "--patches"])
def test_a_path_too_long_for_the_system_is_told(fork: Fork, run_cli: RunCli, option: str) -> None:
    options = list(fork.sources)
    options[options.index(option) + 1] = "x" * 5000
    ran = run_cli("verify", *options)
    assert ran.code in (2, 3)
    assert ran.stderr.startswith("error: ")
    assert "a bug in patchstack" not in ran.stderr


@pytest.mark.parametrize("yaml", ["upstream: ~nosuchuser/x", 'upstream: "a\\0b"'])
def test_places_that_cannot_be_are_told(fork: Fork, run_cli: RunCli, tmp_path: Path, yaml: str) -> None:
    (tmp_path / "patchstack.yaml").write_text(f"series:\n  x:\n    patches: patches\n    {yaml}\n    pin: {fork.pin}\n")
    ran = run_cli("verify")
    assert ran.code in (2, 3)
    assert "a bug in patchstack" not in ran.stderr


def test_a_deleted_working_directory_is_told(
    tmp_path: Path, run_patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    ran = run_patchstack("verify")
    assert ran.code in (2, 3), ran
    assert "a bug in patchstack" not in ran.stderr
