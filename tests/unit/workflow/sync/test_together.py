"""Patches that are merged in one process: our merge proposes each tree, and git's confirms it. Merging one by one gives
the same commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.upstream.merge.patch import Merge, Picker
from patchstack.workflow.sync import together
from patchstack.workflow.sync.worktree import SyncTree
from tests.conftest import Patchstack
from tests.support.syncing import Moved, kernel, moved

TO = ("sync", "--to", "main", "--worktree", "work")


@pytest.fixture
def world(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return four patches, and an upstream that changes other lines of their file."""
    found = moved(tmp_path, patchstack, 4)
    found.upstream("Other lines (#9)", {"src/kernel.cu": kernel({250: "upstream's", 280: "upstream's too"})})
    return found


def one_by_one(self: SyncTree, steps: Sequence[tuple[bytes, str]]) -> None:
    """Act like an old git, which cannot merge many steps."""


def never(self: SyncTree, commit: str) -> None:
    raise AssertionError(f"{commit} was merged by itself")


class Wrong(Picker):
    """A merge that gives the second patch a tree that git does not give it."""

    asked = 0

    def merge(self, before: str, after: str, onto: str) -> Merge:
        self.asked += 1
        merge = super().merge(before, after, onto)
        return replace(merge, tree=onto) if self.asked == 2 else merge


class Unable(Picker):
    """A merge that finds a conflict in the third patch."""

    asked = 0

    def merge(self, before: str, after: str, onto: str) -> Merge:
        self.asked += 1
        merge = super().merge(before, after, onto)
        return replace(merge, tree=None) if self.asked == 3 else merge


def test_patches_that_merge_are_brought_over_without_a_work_tree_and_give_the_same_commits(
    world: Moved, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(SyncTree, "merge", never)
        assert patchstack(*TO) == 0
    head, lines = world.git("rev-parse", "HEAD"), world.lines()
    assert len(lines) == 4
    assert world.git("status", "--porcelain") == "", "index and work tree are those of the last commit"
    assert patchstack("sync", "--abort") == 0
    monkeypatch.setattr(SyncTree, "merge_all", one_by_one)
    assert patchstack(*TO) == 0
    assert world.git("rev-parse", "HEAD") == head


@pytest.mark.parametrize("ours", [Wrong, Unable])
def test_where_our_merge_is_not_git_s_the_tree_is_git_s(
    world: Moved, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch, ours: type[Picker]
) -> None:
    assert patchstack(*TO) == 0
    head = world.git("rev-parse", "HEAD")
    assert patchstack("sync", "--abort") == 0
    monkeypatch.setattr(together, "Picker", ours)
    assert patchstack(*TO) == 0
    assert world.git("rev-parse", "HEAD") == head
