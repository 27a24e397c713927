"""`patchstack sync` when things go wrong: sources that change, names that are taken, states that are damaged."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered, run_git
from tests.support.syncing import Moved, moved

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def ready(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return a finished sync that waits to be accepted."""
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    return found


def refused(patchstack: Patchstack, capsys: Printed, code: int, *arguments: str) -> str:
    capsys.readouterr()
    assert patchstack("sync", *arguments) == code
    return capsys.readouterr().err


def test_a_fork_that_has_moved_meanwhile_is_not_lost(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    ready.fork.repo.commit("Later", {"later": "x\n"})
    told = refused(patchstack, capsys, 1, "--accept")
    assert "error: the fork ./fork product has moved from" in told and "and the new branch lacks these commits" in told
    assert f"pin: {ready.fork.pin}" in ready.settings.read_text()


def test_patches_that_have_changed_meanwhile_are_not_overwritten(
    ready: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    ready.fork.edit_patch(1, "changed by commit 1", "changed by hand")
    before = ready.files()
    assert f"error: the patches in {Path('patches')} have changed since" in refused(patchstack, capsys, 1, "--accept")
    assert ready.files() == before


def test_a_work_tree_that_has_moved_on_is_not_accepted(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    run_git("commit", "-q", "--allow-empty", "-m", "More", cwd=ready.work)
    assert "is no longer at" in refused(patchstack, capsys, 1, "--accept")


def test_a_branch_that_came_in_between_is_not_overwritten(
    ready: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    branch = ready.git("symbolic-ref", "--short", "HEAD")
    ready.fork.repo.branch(branch, ready.fork.pin)
    before = ready.files()
    told = refused(patchstack, capsys, 2, "--accept")
    assert f"error: the fork ./fork already has a different branch {branch}" in told
    assert ready.fork.repo.git("rev-parse", branch) == ready.fork.pin
    assert ready.files() == before and f"pin: {ready.fork.pin}" in ready.settings.read_text()
    ready.fork.repo.git("branch", "-m", branch, "theirs")
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0


def test_a_work_tree_with_files_of_somebodys_own_is_left(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    (ready.work / "notes").write_text("mine\n")
    assert "was not removed, because it contains untracked files" in refused(patchstack, capsys, 0, "--accept")
    assert (ready.work / "notes").read_text() == "mine\n"


def test_a_second_sync_is_refused_while_one_is_under_way(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    told = refused(patchstack, capsys, 2, "--to", "main")
    assert "error: a sync of product to main is under way (ready)" in told
    holder = os.open(ready.root / ".patchstack" / "sync" / "product", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert "error: another patchstack sync is running in" in refused(patchstack, capsys, 2, "--continue")
    os.close(holder)


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"schema": "patchstack.sync-state/1"}', "not JSON"])
def test_a_damaged_state_is_named_and_never_a_traceback(
    ready: Moved, patchstack: Patchstack, capsys: Printed, damage: str
) -> None:
    path = ready.root / ".patchstack" / "sync" / "product" / "state.json"
    path.write_text(damage)
    told = refused(patchstack, capsys, 2, "--continue")
    assert "state.json is not a state file of patchstack sync" in told and "begin again" in told


def test_while_accept_is_half_way_only_accept_goes_on(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    path = ready.root / ".patchstack" / "sync" / "product" / "state.json"
    path.write_text(path.read_text().replace('"phase": "ready"', '"phase": "accepting"'))
    for option in ("--abort", "--continue", "--skip"):
        told = refused(patchstack, capsys, 2, option)
        assert "error: --accept has begun to write and was interrupted" in told
        assert "hint: run 'patchstack sync product --accept' to finish it" in told
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0


def test_a_fork_by_url_is_not_pushed_to(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    text = ready.settings.read_text()
    ready.settings.write_text(text.replace("fork: fork", f"fork: file://{ready.fork.repo.path}"))
    told = refused(patchstack, capsys, 3, "--accept")
    assert "is not on this machine, and patchstack never pushes" in told
    assert f"hint: git -C {ready.work} push file://{ready.fork.repo.path} product-sync-" in told
    assert patchstack("sync", "--abort") == 0


def test_what_somebody_put_where_a_killed_run_began_is_not_removed(
    ready: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    path = ready.root / ".patchstack" / "sync" / "product" / "state.json"
    path.write_text(path.read_text().replace('"phase": "ready"', '"phase": "preparing"'))
    shutil.rmtree(ready.work)
    ready.work.mkdir()
    (ready.work / "mine").write_text("mine\n")
    assert "was not created by patchstack sync" in refused(patchstack, capsys, 2, "--continue")
    assert (ready.work / "mine").read_text() == "mine\n"
    (ready.work / "mine").unlink()
    assert patchstack("sync", "--continue") == 0


def test_a_work_tree_that_is_gone_is_named(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    shutil.rmtree(ready.work)
    told = refused(patchstack, capsys, 3, "--accept")
    assert f"error: the sync's repository {ready.work} no longer exists" in told
    assert patchstack("sync", "--abort") == 0


def test_a_directory_that_is_not_ours_is_not_removed(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    shutil.rmtree(ready.work)
    ready.work.mkdir()
    (ready.work / "mine").write_text("mine\n")
    told = refused(patchstack, capsys, 2, "--abort")
    assert f"error: {ready.work} was not created by patchstack sync; nothing was removed" in told
    assert (ready.work / "mine").read_text() == "mine\n"
