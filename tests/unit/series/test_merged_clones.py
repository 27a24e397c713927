"""Two clones that each export a patch under the same number and are merged: the errors, and the way to repair it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Patchstack, RunCli
from tests.support.builders import Fork, a_fork, run_git


@pytest.fixture
def merged(tmp_path: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch) -> Fork:
    """Return a workspace in which `main` merges `other`: both exported a third patch. The fork has that of `main`."""
    fork = a_fork(tmp_path, 2)
    for path in fork.patches:
        path.unlink()
    fork.series.rmdir()
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert patchstack("export") == 0
    run_git("init", "-q", "-b", "main", ".", cwd=tmp_path)
    commit(tmp_path, "Two patches")
    run_git("branch", "other", cwd=tmp_path)
    for branch, name in (("other", "b"), ("main", "a")):
        run_git("checkout", "-q", branch, cwd=tmp_path)
        fork.repo.branch(fork.ref, fork.commits[-1])
        fork.repo.commit(f"Patch of {branch}", {f"src/{name}.cpp": f"{name}\n"})
        assert patchstack("export") == 0
        commit(tmp_path, branch)
    assert run_git("merge", "-q", "other", cwd=tmp_path, check=False).returncode == 1
    return fork


def commit(root: Path, message: str) -> None:
    run_git("add", "patches", cwd=root)
    run_git("commit", "-q", "-m", message, cwd=root)


@pytest.mark.parametrize("lock", ["as merged", "--ours", "--theirs"])
@pytest.mark.parametrize("command", ["verify", "lint", "status", "export"])
def test_every_command_names_both_patches_and_the_way_out(
    merged: Fork, run_cli: RunCli, lock: str, command: str
) -> None:
    if lock != "as merged":
        run_git("checkout", "-q", lock, "patches/series.lock", cwd=merged.series.parent)
    ran = run_cli(command, *(("--dry-run",) if command == "export" else ()))
    assert ran.code == 2
    both = "more than one patch has number 3: 0003-Patch-of-main.patch, 0003-Patch-of-other.patch"
    assert both in ran.stderr or "patches/series.lock cannot be used\n  - it has the conflict markers" in ran.stderr
    assert "hint: if both clones exported before the merge" in ran.stderr
    assert "git restore --source=HEAD --staged --worktree patches" in ran.stderr


def test_the_way_out_gives_the_other_patch_the_next_number(
    merged: Fork, run_cli: RunCli, patchstack: Patchstack
) -> None:
    root = merged.series.parent
    run_git("restore", "--source=HEAD", "--staged", "--worktree", "patches", cwd=root)
    merged.repo.commit("Patch of other", {"src/b.cpp": "b\n"})
    assert patchstack("export") == 0
    names = sorted(path.name for path in merged.series.glob("*.patch"))
    assert names[2:] == ["0003-Patch-of-main.patch", "0004-Patch-of-other.patch"]
    assert run_cli("verify").code == 0
    commit(root, "Merged")
