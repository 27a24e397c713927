"""Compare every patch's change on the new pin with its change on the old pin.

The result is the same change, the same change with different context, or a different change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.git.objects import Objects
from patchstack.git.trees import compare_trees, same_change
from patchstack.workflow.sync.state import Fate, Item
from patchstack.workflow.sync.worktree import SyncTree


class Kind(StrEnum):
    """How a patch's change on the new pin compares with its change on the old pin.

    For a patch that is not on the new branch, the kind is the reason.
    """

    UNCHANGED = "unchanged"
    CONTEXT = "context only"
    CHANGED = "changed"
    LANDED = "landed"
    SKIPPED = "skipped"
    DROPPED = "dropped"
    NOT_CARRIED = "not carried"
    PARKED = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One patch and its result."""

    item: Item
    kind: Kind


_LEFT_OUT = {
    Fate.LANDED: Kind.LANDED,
    Fate.SKIPPED: Kind.SKIPPED,
    Fate.DROPPED: Kind.DROPPED,
    Fate.NOT_CARRIED: Kind.NOT_CARRIED,
    Fate.PARKED: Kind.PARKED,
}


def compare_changes(objects: Objects, tree: SyncTree, items: Sequence[Item]) -> tuple[Outcome, ...]:
    """Compare every patch's change with its change on the old pin.

    `unchanged` means that the same lines are removed and added, in the same order and with the same context (git's
    patch-id). The position in the file may differ. `context only` means different context, and `changed` means
    different lines. No patch-id is computed for patches whose files have the same contents as before.
    """
    picked = {item.commit: _trees(objects, item.result) for item in items if item.fate is Fate.PICKED and item.result}
    alike = {
        item.commit
        for item in items
        if item.commit in picked
        and set(compare_trees(objects, item.before, item.tree)) == set(compare_trees(objects, *picked[item.commit]))
    }
    asked = [item for item in items if item.commit in picked and item.commit not in alike]
    ids = tree.patch_ids([oid for item in asked for oid in (item.commit, item.result or "")]) if asked else {}

    def kind(item: Item) -> Kind:
        if item.fate in _LEFT_OUT:
            return _LEFT_OUT[item.fate]
        assert item.result is not None, "a finished sync has no pending patch"
        if item.commit in alike:
            return Kind.UNCHANGED
        if not same_change(objects, (item.before, item.tree), picked[item.commit]):
            return Kind.CHANGED
        return Kind.UNCHANGED if ids.get(item.commit) == ids.get(item.result) else Kind.CONTEXT

    return tuple(Outcome(item=item, kind=kind(item)) for item in items)


def _trees(objects: Objects, oid: str) -> tuple[str, str]:
    """Return the trees before and after the commit's own change."""
    made = objects.commit(oid)
    return objects.commit(made.parents[0]).tree, made.tree
