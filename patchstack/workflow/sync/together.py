"""Merge many patches in one git process, without index and work tree.

`git merge-tree` needs the tree of every step before it starts. patchstack computes these trees in memory with its own
merge. The result of a step is valid if git and patchstack produced the same trees in all earlier steps. So every tree
that is used comes from git.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchstack.git.objects import Objects
from patchstack.upstream.merge.patch import Picker
from patchstack.workflow.sync.state import Item
from patchstack.workflow.sync.worktree import SyncTree, rewritten


def merge_together(objects: Objects, tree: SyncTree, items: Sequence[Item], head: str) -> list[str] | None:
    """Merge patches onto a commit with git, and return the tree after each patch.

    The list ends at the first conflict, or at the first difference from patchstack's own merge. Return None if this git
    version is too old.
    """
    picker = Picker(objects)
    supposed = [objects.commit(head).tree]
    for item in items:
        merge = picker.merge(item.before, item.tree, supposed[-1])
        if merge.tree is None:
            break
        supposed.append(merge.tree)
    steps = [(_stand_in(objects, item, onto), item.commit) for item, onto in zip(items, supposed, strict=False)]
    merged = tree.merge_all(steps)
    if merged is None:
        return None
    for place, (ours, gits) in enumerate(zip(supposed[1:], merged, strict=False)):
        if ours != gits:
            return merged[: place + 1]
    return merged


def _stand_in(objects: Objects, item: Item, onto: str) -> bytes:
    """Return a commit with the given tree and with the parent of a patch's commit.

    This parent is the merge base of both, so that the merge applies the patch's own change.
    """
    raw = objects.read(item.commit)[1]
    return rewritten(raw, onto, objects.commit(item.commit).parents[0])
