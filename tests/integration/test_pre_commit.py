"""Our hooks, run by the real pre-commit program on a workspace that is a git repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import Fork, a_fork, lock_of, run_git, write_lock
from tests.support.checkout import ROOT

MANIFEST = ROOT / ".pre-commit-hooks.yaml"
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(not (BIN / "pre-commit").exists(), reason="needs the pre-commit package")


def pre_commit(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "PATH": f"{BIN}{os.pathsep}{environment['PATH']}",
        "PRE_COMMIT_HOME": str(where.parent / "pre-commit-home"),
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{key}": "a@b" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
    }
    return subprocess.run(
        [BIN / "pre-commit", *words],
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a series with a lock and a check, in a repository whose commits pre-commit checks."""
    fork = a_fork(tmp_path)
    work = tmp_path / "product"
    run_git("init", "-q", "--template=", work, cwd=tmp_path)
    fork.series = fork.series.rename(work / "patches")
    fork.patches = sorted(fork.series.glob("*.patch"))
    write_lock(fork.series, lock_of(fork))
    (work / "patchstack.yaml").write_text(
        f"series:\n  mine:\n    patches: patches\n    upstream: {fork.upstream.path}\n    pin: '{fork.pin}'\n"
        "    checks:\n      - {name: hook, patch: 1, kind: present, pattern: 'changed by commit 1'}\n"
    )
    hooks = tmp_path / "hooks"
    run_git("init", "-q", "--template=", hooks, cwd=tmp_path)
    # A hook of language python gets its environment from a package index, which tests do not have.
    (hooks / ".pre-commit-hooks.yaml").write_text(MANIFEST.read_text().replace("language: python", "language: system"))
    run_git("add", ".", cwd=hooks)
    run_git("commit", "-q", "-m", "Hooks", cwd=hooks)
    rev = run_git("rev-parse", "HEAD", cwd=hooks).stdout.decode().strip()
    (work / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {rev}\n"
        "    hooks: [{id: patchstack-verify, verbose: true}, {id: patchstack-lint, verbose: true}]\n"
    )
    run_git("add", ".", cwd=work)
    return fork


def test_the_manifest_is_one() -> None:
    done = pre_commit(ROOT, "validate-manifest", str(MANIFEST))
    assert done.returncode == 0, done.stdout + done.stderr


def test_hooks_pass_on_a_series_that_holds(fork: Fork) -> None:
    done = pre_commit(fork.series.parent, "run", "--all-files")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mine: holds" in done.stdout
    assert "PASS  mine: checks: 1 PASS" in done.stdout


def test_a_patch_that_was_edited_by_hand_does_not_pass(fork: Fork) -> None:
    fork.edit_patch(1, "changed by commit 1", "changed by hand")
    run_git("add", ".", cwd=fork.series.parent)
    done = pre_commit(fork.series.parent, "run")
    assert done.returncode == 1
    assert "mine: does not hold" in done.stdout
    assert "FAIL  mine: checks: 1 FAIL" in done.stdout


def test_other_files_run_no_hook(fork: Fork) -> None:
    work = fork.series.parent
    run_git("commit", "-q", "-m", "Begin", cwd=work)
    (work / "README").write_text("x\n")
    run_git("add", "README", cwd=work)
    done = pre_commit(work, "run")
    assert done.returncode == 0
    assert "(no files to check)Skipped" in done.stdout
