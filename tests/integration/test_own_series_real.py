"""The series that this project maintains, on a real clone of llama.cpp (PATCHSTACK_LLAMA_REPO)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchstack.series.lock import read_lock
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.builders import run_git
from tests.support.checkout import ROOT
from tests.support.oracle import Oracle, objects_of

REPO = os.environ.get("PATCHSTACK_LLAMA_REPO", "")
SERIES = ROOT / "patches" / "paged"

pytestmark = pytest.mark.skipif(not REPO, reason="needs PATCHSTACK_LLAMA_REPO")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """Return the committed workspace, with the clone as its upstream."""
    text = (ROOT / "patchstack.yaml").read_text(encoding="utf-8")
    config = read_workspace(ROOT / "patchstack.yaml").select(["paged"])[0]
    text = text.replace(f"upstream: {config.upstream}", f"upstream: {REPO}").replace("patches/paged", str(SERIES))
    (tmp_path / "patchstack.yaml").write_text(text, encoding="utf-8")
    return Path(REPO)


def test_it_gives_the_tree_of_the_commits_that_it_was_exported_from(
    upstream: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = read_lock(SERIES)
    assert lock is not None
    assert patchstack("verify", "--json") == 0
    assert f'"{lock.tree}"' in capsys.readouterr().out


def test_its_rules_hold(upstream: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]) -> None:
    assert patchstack("lint") == 0, capsys.readouterr()


def test_its_copy_with_context_is_taken_by_git(upstream: Path, tmp_path: Path, patchstack: Patchstack) -> None:
    lock = read_lock(SERIES)
    assert lock is not None
    assert patchstack("export", "--form", "plain", "-o", "plain") == 0
    oracle = Oracle(tmp_path, objects_of(upstream))
    tree: str | None = lock.base_tree
    for path in sorted((tmp_path / "plain").iterdir()):
        assert tree is not None
        tree = oracle.apply(tree, path.read_bytes())
    assert tree == lock.tree


def test_its_commits_come_back_with_their_ids(upstream: Path, patchstack: Patchstack, tmp_path: Path) -> None:
    lock = read_lock(SERIES)
    assert lock is not None
    assert patchstack("checkout", "paged", "fork", "--no-files") == 0
    assert run_git("rev-parse", "HEAD", cwd=tmp_path / "fork").stdout.decode().strip() == lock.head
