"""Park or unpark a patch.

Parking or unparking is a sync onto the same pin, with one patch fewer or one patch more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.causes import NotInRange, ObjectUnreadable
from patchstack.git import run as git
from patchstack.git.objects import Objects, Repository, object_id, parse_commit
from patchstack.git.scratch import write_object
from patchstack.series.files.names import number_of
from patchstack.series.lock import Lock, ParkedPatch, read_lock
from patchstack.workflow.sync.state import Fate, Item, SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace, tree_of

_MARK = re.compile(r"-with(?:out)?-\d{4}(?:-\d+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parking:
    """A request to park patch `number`, for the reason `why`.

    If `back` is true, the request is to unpark this patch.
    """

    number: int
    why: str = ""
    back: bool = False

    @property
    def told(self) -> str:
        """The action, as text."""
        return f"patch {self.number:04d} {'comes back' if self.back else 'is parked'}"


def refuse_parking(work: SyncWorkspace, parking: Parking) -> None:
    """Raise `UsageError` if the patch cannot be parked or unparked.

    To be parked, it must be in the series, and it must not be the only patch. To be unparked, it must be parked.
    """
    lock = read_lock(work.config.patches)
    if lock is None:
        raise NotInRange(
            f"{work.config.name} has no lock, in which parked patches are recorded",
            hint=f"run 'patchstack export {work.config.name}' to write the lock",
        )
    there = {number_of(patch.file) for patch in lock.patches}
    parked = {number_of(patch.file) for patch in lock.parked}
    known = ", ".join(f"{number:04d}" for number in sorted(one for one in parked if one is not None)) or "none"
    if parking.back and parking.number not in parked:
        raise NotInRange(f"patch {parking.number:04d} is not parked", hint=f"parked: {known}")
    if not parking.back and parking.number in parked:
        raise NotInRange(f"patch {parking.number:04d} is already parked")
    if not parking.back and parking.number not in there:
        hint = f"run 'patchstack status {work.config.name} --patches' to list the patches"
        raise NotInRange(f"there is no patch {parking.number:04d}", hint=hint)
    if not parking.back and len(lock.patches) == 1:
        raise NotInRange(f"patch {parking.number:04d} is the only patch of the series, so it cannot be parked")


def parked_name(branch: str, parking: Parking, fork: Repository | None) -> str:
    """Return the new branch's name.

    This is the fork's branch name with a suffix for the action and the patch. If the fork already has a branch of this
    name, a counter is added.
    """
    name = f"{_MARK.sub('', branch)}-with{'' if parking.back else 'out'}-{parking.number:04d}"
    count = 1
    while (
        fork is not None and git.read(fork.path, "rev-parse", "-q", "--verify", f"refs/heads/{_named(name, count)}").ok
    ):
        count += 1
    return _named(name, count)


def _named(name: str, count: int) -> str:
    return name if count == 1 else f"{name}-{count}"


def with_parking(work: SyncWorkspace, state: SyncState, items: Sequence[Item], objects: Objects) -> tuple[Item, ...]:
    """Return the patches to bring over.

    The parked patch is marked as parked, or the unparked patch is inserted at its old position.

    Raises `MissingError` if the trees of that patch's commit are not available.
    """
    if state.park is not None:
        return tuple(
            replace(item, fate=Fate.PARKED, reason=state.why) if item.number == state.park else item for item in items
        )
    if state.unpark is None:
        return tuple(items)
    lock = read_lock(work.config.patches)
    parked = _parked(lock, state.unpark)
    before, tree = _trees(work, state, parked, objects)
    subject = parse_commit(parked.commit, parked.object).subject
    back = Item(commit=parked.commit, before=before, tree=tree, subject=subject, number=state.unpark, file=parked.file)
    place = next(
        (at for at, item in enumerate(items) if item.number is not None and item.number > state.unpark), len(items)
    )
    return (*items[:place], back, *items[place:])


def _parked(lock: Lock | None, number: int) -> ParkedPatch:
    found = next((one for one in (lock.parked if lock is not None else ()) if number_of(one.file) == number), None)
    if found is None:
        raise NotInRange(f"patch {number:04d} is no longer parked", hint="run 'patchstack sync --abort'")
    return found


def _trees(work: SyncWorkspace, state: SyncState, parked: ParkedPatch, objects: Objects) -> tuple[str, str]:
    """Return the trees before and after a parked commit.

    If only the lock contains the commit, it is written to the sync's repository.
    """
    if object_id("commit", parked.object) != parked.commit:
        raise ObjectUnreadable(f"the lock's commit object of {parked.file} is not {parked.commit[:12]}")
    if not objects.has(parked.commit):
        write_object(tree_of(state).git_dir / "objects", parked.commit, "commit", parked.object)
    commit = parse_commit(parked.commit, parked.object)
    wanted = [parked.tree, *commit.parents]
    objects.want(wanted)
    missing = [oid for oid in wanted if not objects.has(oid)]
    if missing or not commit.parents:
        raise ObjectUnreadable(
            f"{parked.file} cannot be merged: missing objects: {', '.join(one[:12] for one in missing)}",
            hint="fetch the branch that contained the patch into the fork's clone",
        )
    return objects.commit(commit.parents[0]).tree, parked.tree
