"""Endless files instead of a workspace's files: every command reports them immediately."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import Fork, a_fork


@pytest.fixture
def product(tmp_path: Path) -> Fork:
    fork = a_fork(tmp_path)
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        "    fork: fork\n    fork_ref: product\n"
    )
    return fork


def patchstack(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patchstack", *args], cwd=place, capture_output=True, text=True, timeout=20, check=False
    )


def odd(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)


@pytest.mark.parametrize("kind", ["fifo", "device", "sparse"])
@pytest.mark.parametrize(("command", "code"), [("verify --expect lock", 2), ("status", 0), ("export", 2)])
def test_a_lock_that_never_ends_is_refused(tmp_path: Path, product: Fork, kind: str, command: str, code: int) -> None:
    assert patchstack(tmp_path, "export").returncode == 0
    odd(tmp_path / "patches" / "series.lock", kind)
    ran = patchstack(tmp_path, *command.split())
    assert "Traceback" not in ran.stderr
    said = ran.stdout + ran.stderr
    assert ("be read: not a regular file" if kind != "sparse" else "be read: too large") in said, said
    assert ran.returncode == code, said


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_workspace_file_that_never_ends_is_refused(tmp_path: Path, product: Fork, kind: str) -> None:
    odd(tmp_path / "patchstack.yaml", kind)
    ran = patchstack(tmp_path, "verify", "--workspace", "patchstack.yaml")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: patchstack.yaml "), ran.stderr


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_decision_that_never_ends_is_not_trusted(tmp_path: Path, product: Fork, kind: str) -> None:
    odd(tmp_path / "ledger" / f"{'0' * 40}.json", kind)
    ran = patchstack(tmp_path, "ledger", "--check")
    assert "not a regular file" in ran.stdout + ran.stderr, ran
    assert ran.returncode in (1, 2)
