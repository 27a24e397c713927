"""Store an unresolved conflict of an unattended sync: both sides and the patch, as files in the workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

from patchstack.causes import NotWritable
from patchstack.git import run as git
from patchstack.workflow.sync.state import Item, SyncState
from patchstack.workflow.sync.workspace import OURS, SyncWorkspace
from patchstack.workflow.sync.worktree import SyncTree

SIDES = {1: "base", 2: "upstream", 3: "patch"}
"""The file name for the content of each stage of a path in conflict."""


def store_sides(
    work: SyncWorkspace, state: SyncState, item: Item, tree: SyncTree, paths: list[tuple[str, frozenset[int]]]
) -> Path:
    """Store a patch that is not carried, and every side of each file in conflict.

    Return the directory, which is below `.patchstack/not-carried` in the workspace.

    Raises `MissingError` if it cannot be written.
    """
    place = work.workspace.root / OURS / "not-carried" / f"{state.series}-{state.to[:12]}" / item.label
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "original.patch").write_bytes(tree.as_patch(item.commit))
        for number, (path, stages) in enumerate(paths, 1):
            for stage in sorted(stages):
                file = place / f"{number}-{Path(path).name}" / SIDES[stage]
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(tree.staged(stage, path))
            marked = tree.directory / path
            if marked.is_file() and not marked.is_symlink():
                (place / f"{number}-{Path(path).name}" / "merged").write_bytes(marked.read_bytes())
    except (OSError, git.GitFailed) as error:
        raise NotWritable(f"{place} cannot be written: {error}") from error
    return place
