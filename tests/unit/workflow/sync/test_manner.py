"""Options of a sync: editing, a command after each patch, landed patches, unattended runs; and kills."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered, run_git
from tests.support.syncing import Moved, fates, kernel, moved, of

Printed = pytest.CaptureFixture[str]
TO = ("sync", "--to", "main", "--worktree", "work")


@pytest.fixture
def quiet(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return three patches, and an upstream without conflicts."""
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    return found


@pytest.fixture
def colliding(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return three patches, and an upstream that changes the second one's line."""
    found = moved(tmp_path, patchstack)
    found.upstream("The very line (#8)", {"src/kernel.cu": kernel({20: "upstream's"})})
    return found


def document(patchstack: Patchstack, capsys: Printed) -> dict[str, Any]:
    capsys.readouterr()
    patchstack("sync", "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


# Work made by hand


def test_skip_never_loses_a_commit_made_by_hand(colliding: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    patchstack(*TO)
    colliding.resolve("src/kernel.cu", kernel({20: "by hand"}, of(1)))
    run_git("commit", "-q", "-m", "By hand", cwd=colliding.work)
    mine = colliding.git("rev-parse", "HEAD")
    capsys.readouterr()
    for arguments in (("--skip",), ("--drop", "2", "--why", "no"), ("--abort",)):
        assert patchstack("sync", *arguments) == 1
        told = capsys.readouterr().err
        assert "made by hand in" in told and "--discard" in told
        assert colliding.git("rev-parse", "HEAD") == mine
    assert patchstack("sync", "--skip", "--discard") == 0
    told = capsys.readouterr().err
    name = f"refs/patchstack/kept/0002-{mine[:12]}"
    assert f"the work made by hand is kept: git -C {colliding.work} show {name}" in told
    assert colliding.git("rev-parse", name) == mine
    assert colliding.lines() == ["Change 1 of a kernel", "Change 3 of a kernel"]
    # The repository has the only copy, so that --accept leaves it.
    assert patchstack("sync", "--drop", "2", "--why", "not now") == 0
    assert patchstack("sync", "--accept") == 0
    assert colliding.git("rev-parse", name) == mine


def test_skip_keeps_a_resolution_that_was_added_and_not_committed(
    colliding: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    patchstack(*TO)
    text = kernel({20: "resolved"}, of(1))
    colliding.resolve("src/kernel.cu", text)
    assert patchstack("sync", "--skip") == 1
    capsys.readouterr()
    assert patchstack("sync", "--skip", "--discard") == 0
    name = capsys.readouterr().err.partition(" show ")[2].split()[0]
    assert colliding.git("show", f"{name}:src/kernel.cu") + "\n" == text


def test_a_conflict_nobody_touched_is_skipped_without_a_question(colliding: Moved, patchstack: Patchstack) -> None:
    patchstack(*TO)
    assert patchstack("sync", "--skip") == 0
    assert colliding.git("for-each-ref", "refs/patchstack") == ""


# Landed


def elsewhere(found: Moved) -> None:
    """Upstream makes the first patch's change at a different place of the file, so that the patch no longer merges."""
    lines = kernel(of(1)).splitlines(keepends=True)
    found.upstream("Take it, moved down (#9)", {"src/kernel.cu": "".join([*lines[40:], *lines[:40]])})


def test_a_landed_patch_is_proposed_and_dropped_on_demand_with_the_reason(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed
) -> None:
    found = moved(tmp_path, patchstack, 1)
    found.upstream("Also (#8)", {"src/other.cpp": numbered(41)})
    elsewhere(found)
    capsys.readouterr()
    patchstack(*TO)
    printed = capsys.readouterr()
    reason = f"landed as upstream #9 ({found.fork.upstream.head()[:12]}, 2025-06-15)"
    assert f"0001 Change 1 of a kernel: upstream already has it: {reason}" in printed.err
    assert "run 'patchstack sync product --drop-landed' to drop them for these reasons" in printed.err
    assert patchstack("sync", "--drop-landed") == 0
    (patch,) = document(patchstack, capsys)["patches"]
    assert (patch["fate"], patch["reason"]) == ("dropped", reason)


def test_drop_landed_from_the_beginning_asks_nothing(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack, 2)
    lines = kernel(of(1)).splitlines(keepends=True)
    found.upstream("Take the first (#9)", {"src/kernel.cu": "".join([*lines[40:], *lines[:40]])})
    patchstack(*TO, "--drop-landed")
    patches = document(patchstack, capsys)["patches"]
    assert patches[0]["fate"] == "dropped" and "landed as upstream #9" in patches[0]["reason"]
    assert patchstack("sync", "--retry", "1") == 1, "what was dropped can be tried again"


# --edit


def test_edit_stops_behind_a_patch_and_takes_what_was_changed(
    quiet: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    capsys.readouterr()
    assert patchstack(*TO, "--edit", "2") == 1
    printed = capsys.readouterr().out
    assert "product: stopped after 0002 Change 2 of a kernel (2 of 3), to edit it" in printed
    assert f"in {quiet.work}: edit, git add (or git commit --amend), then patchstack sync product --continue" in printed
    assert quiet.lines() == ["Change 1 of a kernel", "Change 2 of a kernel"]
    (quiet.work / "src/kernel.cu").write_text(kernel({250: "edited"}, of(1, 2)))
    assert patchstack("sync", "--continue") == 1
    assert "src/kernel.cu was changed but not added" in capsys.readouterr().err
    run_git("add", "-A", cwd=quiet.work)
    assert patchstack("sync", "--continue") == 0
    assert quiet.lines() == [f"Change {number} of a kernel" for number in (1, 2, 3)]
    assert quiet.git("show", "HEAD~1:src/kernel.cu") + "\n" == kernel({250: "edited"}, of(1, 2))
    assert (
        quiet.git("log", "-1", "--format=%an %at", "HEAD~1")
        == run_git("log", "-1", "--format=%an %at", f"{quiet.fork.ref}~1", cwd=quiet.fork.repo.path)
        .stdout.decode()
        .strip()
    )
    assert "0002    Change 2 of a kernel" in capsys.readouterr().out
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0


def test_edit_takes_an_amended_commit_with_its_message_and_no_second_one(
    quiet: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    patchstack(*TO)
    assert patchstack("sync", "--edit", "1") == 1, "a patch that is on the branch is gone back to"
    run_git("commit", "-q", "--amend", "-m", "Change 1, better", cwd=quiet.work)
    run_git("commit", "-q", "--allow-empty", "-m", "More", cwd=quiet.work)
    capsys.readouterr()
    assert patchstack("sync", "--continue") == 1
    assert "is neither " in capsys.readouterr().err
    run_git("reset", "-q", "--hard", "HEAD^", cwd=quiet.work)
    assert patchstack("sync", "--continue") == 0
    assert quiet.lines() == ["Change 1, better", "Change 2 of a kernel", "Change 3 of a kernel"]


def test_edit_of_a_number_that_no_patch_has_is_refused_before_the_work(quiet: Moved, patchstack: Patchstack) -> None:
    assert patchstack(*TO, "--edit", "77") == 2
    assert not quiet.work.exists()


# --exec


def test_a_command_is_run_after_each_patch_and_stops_where_it_fails(
    quiet: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    command = "sh -c 'test -e src/fixed || ! grep -q \"commit 2\" src/kernel.cu || { echo broken; exit 3; }'"
    capsys.readouterr()
    assert patchstack(*TO, "--exec", command) == 1
    printed = capsys.readouterr()
    assert "exited 3 after 0002 Change 2 of a kernel (2 of 3)\n    broken\n" in printed.out
    assert printed.err.count(" succeeded\n") == 1
    assert patchstack("sync", "--continue") == 1, "nothing was mended"
    (quiet.work / "src/fixed").write_text("x\n")
    run_git("add", "-A", cwd=quiet.work)
    assert patchstack("sync", "--continue") == 0
    assert quiet.git("log", "--format=%s", "-1", "--", "src/fixed") == "Change 2 of a kernel"


@pytest.mark.parametrize(("command", "words"), [("'", "No closing quotation"), (" ", "--exec is empty")])
def test_a_command_that_is_none_is_refused(
    command: str, words: str, quiet: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    capsys.readouterr()
    assert patchstack(*TO, "--exec", command) == 2
    assert words in capsys.readouterr().err and not quiet.work.exists()


# --unattended


def test_unattended_goes_through_and_stores_both_sides(
    colliding: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    old = colliding.fork.repo.git("rev-parse", colliding.fork.ref)
    to = colliding.fork.upstream.head()
    capsys.readouterr()
    assert patchstack(*TO, "--unattended") == 0
    printed = capsys.readouterr()
    place = f".patchstack/not-carried/product-{to[:12]}/0002"
    assert f"0002 Change 2 of a kernel: not carried: conflict in src/kernel.cu; all sides are in {place}" in printed.err
    assert ", 0 dropped, 1 not carried" in printed.out
    files = colliding.root / place / "1-kernel.cu"
    assert (files / "upstream").read_text() == kernel({20: "upstream's"}, of(1))
    assert (files / "patch").read_text() == kernel(of(1, 2))
    assert (files / "base").read_text() == kernel(of(1))
    assert "<<<<<<<" in (files / "merged").read_text()
    assert (colliding.root / place / "original.patch").read_text().startswith("From ")
    assert colliding.git("symbolic-ref", "--short", "HEAD") == colliding.fork.ref, "the branch keeps its name"
    assert fates(document(patchstack, capsys)) == ["unchanged", "not carried", "unchanged"]
    capsys.readouterr()
    assert patchstack("sync", "--accept") == 1
    assert "0002 Change 2 of a kernel (conflict in src/kernel.cu)" in capsys.readouterr().err
    assert patchstack("sync", "--drop", "2", "--why", "later") == 0
    colliding.fork.repo.git("symbolic-ref", "HEAD", f"refs/heads/{colliding.fork.ref}")
    assert patchstack("sync", "--accept") == 2, "the fork has its branch checked out"
    assert "has product checked out, and the new branch takes its name" in capsys.readouterr().err
    colliding.fork.repo.git("symbolic-ref", "HEAD", "refs/heads/main")
    assert patchstack("sync", "--accept") == 0
    assert colliding.fork.repo.git("rev-parse", f"product-before-{to[:9]}") == old
    assert colliding.fork.repo.git("rev-parse", f"{colliding.fork.ref}^{{tree}}") != old
    assert patchstack("verify") == 0


def test_what_was_not_carried_can_be_tried_again(colliding: Moved, patchstack: Patchstack) -> None:
    assert patchstack(*TO, "--unattended") == 0
    assert patchstack("sync", "--retry", "2") == 1
    colliding.resolve("src/kernel.cu", kernel({20: "both"}, of(1)))
    assert patchstack("sync", "--continue") == 0
    assert colliding.lines() == [f"Change {number} of a kernel" for number in (1, 2, 3)]


# Kills


def test_continue_waits_for_a_git_that_outlived_a_killed_run(
    colliding: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    patchstack(*TO)
    colliding.resolve("src/kernel.cu", kernel({20: "both"}, of(1)))
    lock = colliding.work / ".git" / "index.lock"
    lock.write_text("")
    environment = {**os.environ, "GIT_WORK_TREE": str(colliding.work)}
    with subprocess.Popen(["sh", "-c", f"sleep 1; rm {lock}; sleep 0.1"], env=environment):
        began = time.monotonic()
        assert patchstack("sync", "--continue") == 0, capsys.readouterr()
        assert time.monotonic() - began > 0.5


def test_continue_removes_a_lock_that_nobody_holds(colliding: Moved, patchstack: Patchstack) -> None:
    patchstack(*TO)
    colliding.resolve("src/kernel.cu", kernel({20: "both"}, of(1)))
    (colliding.work / ".git" / "index.lock").write_text("")
    assert patchstack("sync", "--continue") == 0
