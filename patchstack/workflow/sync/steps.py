"""Create the repository of a sync, bring the patches over, and take a person's resolutions."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchstack.causes import NotFetchable, SyncUnresolved
from patchstack.git.objects import Objects, Repository, object_id
from patchstack.git.remote import Remote, fetch_into_cache, shown_url
from patchstack.process import run
from patchstack.series.history import ForkHistory, read_fork
from patchstack.series.lock import read_lock
from patchstack.series.mirror.checkout import absent_files, check_out
from patchstack.series.verify.verify import VerifiedSeries
from patchstack.tasks import task
from patchstack.workflow.sync import conflict, shared_rerere
from patchstack.workflow.sync import target as sync_target
from patchstack.workflow.sync.checks import LONGEST, environment_of
from patchstack.workflow.sync.finish import finish
from patchstack.workflow.sync.landed import landed_patches
from patchstack.workflow.sync.parking import with_parking
from patchstack.workflow.sync.promises import tell_checks
from patchstack.workflow.sync.state import LEFT_OUT, Fate, Phase, SyncState, places_of
from patchstack.workflow.sync.together import merge_together
from patchstack.workflow.sync.unmerged import store_sides
from patchstack.workflow.sync.workspace import SyncWorkspace, tree_of
from patchstack.workflow.sync.worktree import Unmerged, rewritten
from patchstack.workspace import is_url

LANDED = "landed upstream"
_TOGETHER = 250  # number of patches that one process brings over; an interrupted run loses at most these
_SHOWN = 20  # number of last lines that are shown of a failing command's output


def prepare(work: SyncWorkspace, state: SyncState, proven: VerifiedSeries, upstream: Repository) -> SyncState:
    """Create the repository, list the patches, and start to bring them over."""
    config, objects, tree = work.config, proven.sources.objects, tree_of(state)
    fork, own = proven.sources.fork, None
    if fork is None:
        fork, own = _fork_of_patches(work, proven)
    repositories = [one for one in (upstream, proven.sources.fork_repository) if one is not None]
    objects.fetch = fetch_into_cache(objects, work.cache, _sources(work))
    absent = absent_files(objects, objects.commit(state.to).tree)
    _refuse_unfetched(work, state, len(absent))
    remotes = [(name, remote.address) for name, remote in _remotes(work)]
    borrowed = [one for one in objects.directories if own is None or one != own.object_directory]
    tree.make(state.to, borrow=borrowed, shallow=repositories, remotes=remotes, absent=absent)
    objects.add_directory(tree.git_dir / "objects", state.worktree)
    if own is not None:
        _take_objects(own, work, state)
    commits, notes = sync_target.in_one_line(objects, tree, fork, proven.sources.base, state.to)
    patches = sync_target.patches_of(
        proven.series,
        read_lock(config.patches),
        [commit for commit, _ in commits],
        proven.verification.rows,
        in_order=own is not None,
    )
    items = with_parking(work, state, sync_target.items_of(commits, patches), objects)
    wanted = list(sync_target.contents(objects, items))
    objects.want(wanted)
    touched = sync_target.paths_touched(objects, items) & set(absent)
    _refuse_missing(work, len(objects.missing(wanted)) + len(touched))
    if absent:
        notes.append(f"the contents of {_files(len(absent))} are not available: the work tree is sparse, without them")
    shared_rerere.bring(work.shared, tree.git_dir / "rr-cache")
    for note in notes:
        work.talk(f"note: {note}")
    state = replace(
        state,
        phase=Phase.PICKING,
        items=items,
        edits=tuple(items[place].commit for place in places_of(items, state.edits)),
        notes=tuple(notes),
        fork_head=fork.head.oid if own is None else "",
    )
    return advance(work, work.save(state), objects)


def _refuse_unfetched(work: SyncWorkspace, state: SyncState, count: int) -> None:
    """Raise `MissingError` if contents of the new pin could not be fetched from a URL.

    A repository at a URL contains all contents, so the cause is the network. A work tree without these contents would
    be useless.
    """
    upstream = work.config.upstream
    if count and is_url(upstream) and not work.cache.offline:
        raise NotFetchable(
            f"the contents of {_files(count)} of {state.to_name} could not be fetched from {shown_url(upstream)}",
            hint=f"check the network, then run 'patchstack sync {work.config.name} --continue'",
        )


def _refuse_missing(work: SyncWorkspace, count: int) -> None:
    if count:
        raise NotFetchable(
            f"{_files(count)} that the patches change cannot be read: the contents are not available from "
            + " or ".join(shown_url(str(one)) for one in _sources(work)),
            hint=f"fetch them, or check the network; then run 'patchstack sync {work.config.name} --continue'",
        )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def opened(work: SyncWorkspace, state: SyncState) -> Objects:
    """Return the objects of a sync in progress. The sync's repository contains or borrows all of them."""
    objects = Objects()
    objects.add_directory(tree_of(state).git_dir / "objects", state.worktree)
    objects.fetch = fetch_into_cache(objects, work.cache, _sources(work))
    return objects


def advance(work: SyncWorkspace, state: SyncState, objects: Objects) -> SyncState:
    """Bring the patches over in order, until a person is needed or all patches are done.

    A person is needed for a conflict, for a failed command, and after a patch that the user wants to edit. In an
    unattended sync, such conflicts and failures only skip the patch. After the last patch, finish the sync.
    """
    tree = tree_of(state)
    state = _proposed(work, state, objects)
    first, clean = state.current, True
    many = not state.command and not state.edits
    while (place := state.current) is not None:
        if many:
            together = _picked_together(work, state, objects, fresh=place == first)
            many = together is not None
            if together is not None and together.current != place:
                state = together
                tell_checks(work, state.items[place : state.current], objects)
                continue
        item = state.items[place]
        with task("bringing patches over") as this:
            this.at(place, len(state.items), f"{item.label} {item.subject}")
            if many or place == first or not clean:
                # The state file is consistent, but an interrupted run may have left a half-finished step.
                tree.reset(state.head, sync_target.paths_made(objects, item))
                clean = True
            got = tree.merge(item.commit)
        if isinstance(got, Unmerged):
            collisions = conflict.explain(objects, tree, got.paths, state.pin, state.to, state.items[:place], got.moved)
            if state.unattended:
                files = ", ".join(collision.path for collision in collisions)
                state = _not_carried(work, state, place, list(got.paths), f"conflict in {files}")
                clean = False
                continue
            reason = (state.landed or {}).get(item.commit)
            stop = {"collisions": conflict.document(collisions), "remembered": list(got.remembered), "landed": reason}
            return work.save(replace(state, phase=Phase.STOPPED, stop=stop))
        if got.remembered:
            work.talk(f"{item.label} {item.subject}: resolved as remembered: {', '.join(got.remembered)}")
        if got.tree == objects.commit(state.head).tree:
            state = _landed(work, state, place, objects)
        else:
            oid = tree.commit(objects.read(item.commit)[1], got.tree, state.head)
            failed = _command_failed(work, state, place)
            if failed is not None and state.unattended:
                state = _not_carried(work, state, place, [], f"{failed['command']} {failed['how']}")
                clean = False
                continue
            state = state.with_item(place, fate=Fate.PICKED, result=oid, remembered=got.remembered)
            tell_checks(work, [state.items[place]], objects)
            state = replace(state, head=oid)
            if failed is not None or item.commit in state.edits:
                edits = tuple(commit for commit in state.edits if commit != item.commit)
                return work.save(replace(state, phase=Phase.EDITING, edits=edits, stop=failed or {"place": place}))
            state = work.save(state)
    if state.phase is Phase.PICKING:
        if many:
            tree.reset(state.head, ())  # batches do not update index and work tree
        state = work.save(replace(state, phase=Phase.PICKED))
    return finish(work, state, objects)


def _picked_together(work: SyncWorkspace, state: SyncState, objects: Objects, *, fresh: bool) -> SyncState | None:
    """Bring over the next patches in one process, up to the first conflict or a limit.

    Return the same state if the first patch conflicts. Return None if this git version cannot merge in this way. If
    `fresh` is true, files that an earlier run may have left are removed first.
    """
    tree = tree_of(state)
    places: list[int] = []
    for place in range(state.current or 0, len(state.items)):
        if state.items[place].fate is Fate.PENDING and len(places) < _TOGETHER:
            places.append(place)
    with task("bringing patches over") as this:
        first, last = state.items[places[0]], state.items[places[-1]]
        this.at(places[0], len(state.items), f"{first.label} to {last.label} {last.subject}")
        if fresh:
            left = [path for place in places for path in sync_target.paths_made(objects, state.items[place])]
            tree.reset(state.head, left)
        trees = merge_together(objects, tree, [state.items[place] for place in places], state.head)
    if trees is None:
        return None
    parent, parent_tree = state.head, objects.commit(state.head).tree
    made: list[bytes] = []
    items = list(state.items)
    landed: list[int] = []
    for place, merged in zip(places, trees, strict=False):
        if merged == parent_tree:
            landed.append(place)
            continue
        raw = rewritten(objects.read(items[place].commit)[1], merged, parent)
        made.append(raw)
        parent, parent_tree = object_id("commit", raw), merged
        items[place] = replace(items[place], fate=Fate.PICKED, result=parent)
    if not trees:
        return state
    tree.write_commits(made, parent)
    state = replace(state, items=tuple(items), head=parent)
    for place in landed:
        state = _with_landed(work, state, place, objects)
    return work.save(state)


def _proposed(work: SyncWorkspace, state: SyncState, objects: Objects) -> SyncState:
    """Find the patches that have landed, once per sync. Propose to drop them, or drop them with `drop_landed`."""
    if state.landed is not None:
        return state
    with task("looking for patches that have landed"):
        found = landed_patches(work, state, objects)
    for item in state.items:
        if item.commit in found and not (state.drop_landed or item.fate in LEFT_OUT):
            work.talk(f"{item.label} {item.subject}: upstream already has it: {found[item.commit]}")
    if found and not state.drop_landed:
        work.talk(f"run 'patchstack sync {state.series} --drop-landed' to drop them for these reasons")
    state = replace(state, landed=found)
    return work.save(without_landed(state) if state.drop_landed else state)


def without_landed(state: SyncState) -> SyncState:
    """Return the state in which the landed patches are dropped, each with its reason."""
    for place, item in enumerate(state.items):
        if item.commit in (state.landed or {}) and item.fate not in LEFT_OUT:
            state = state.with_item(place, fate=Fate.DROPPED, result=None, reason=(state.landed or {})[item.commit])
    return state


def _not_carried(
    work: SyncWorkspace, state: SyncState, place: int, paths: list[tuple[str, frozenset[int]]], why: str
) -> SyncState:
    """Skip a patch in an unattended sync.

    The files that a person needs to carry the patch later are stored.
    """
    item = state.items[place]
    stored = store_sides(work, state, item, tree_of(state), paths)
    shown = stored.relative_to(work.workspace.root).as_posix()
    work.talk(f"{item.label} {item.subject}: not carried: {why}; all sides are in {shown}")
    return work.save(state.with_item(place, fate=Fate.NOT_CARRIED, reason=why, stored=shown))


def _command_failed(work: SyncWorkspace, state: SyncState, place: int) -> dict[str, Any] | None:
    """Run the sync's command after a patch. If it fails, return a description of the failure."""
    if not state.command:
        return None
    item, told = state.items[place], shlex.join(state.command)
    with task(f"{item.label}: {told}"):
        done = run(state.command, cwd=Path(state.worktree), env=environment_of(work, state), timeout=LONGEST)
    log = work.directory / f"exec-{item.label}.log"
    log.write_bytes(done.stdout + done.stderr)
    if done.ok:
        work.talk(f"{item.label}: {told} succeeded")
        return None
    last = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()[-_SHOWN:]
    return {"place": place, "command": told, "how": f"exited {done.code}", "last": last, "log": str(log)}


def edited(work: SyncWorkspace, state: SyncState, objects: Objects) -> SyncState:
    """Commit a person's edit of the patch after which the sync stopped.

    Raises `NotHeldError` if the edit is not finished, or if the edited patch changes nothing.
    """
    stop = state.stop
    assert stop is not None
    tree, place = tree_of(state), int(stop["place"])
    item = state.items[place]
    tree.break_locks()
    parent = objects.commit(state.head).parents[0]
    found = tree.edited(state.head, parent)
    if isinstance(found, list):
        raise SyncUnresolved(
            f"the edit of {item.label} ({item.subject}) is not finished",
            problems=found,
            hint=f"in {state.worktree}, run git add or git commit --amend; then use --continue",
        )
    if found.tree == objects.commit(parent).tree:
        raise SyncUnresolved(
            f"{item.label} ({item.subject}) changes nothing in {state.worktree}",
            hint=f"use --drop {item.number or item.label} --why TEXT to drop it",
        )
    oid = state.head
    if found.message is not None or found.tree != objects.commit(state.head).tree:
        oid = tree.commit(objects.read(item.commit)[1], found.tree, parent, found.message)
        state = state.with_item(place, result=oid, by_hand=True)
    state = replace(state, head=oid)
    tree.reset(oid, ())
    if "command" in stop and (failed := _command_failed(work, state, place)) is not None:
        return work.save(replace(state, stop=failed))
    return work.save(replace(state, phase=Phase.PICKING, stop=None))


def _landed(work: SyncWorkspace, state: SyncState, place: int, objects: Objects) -> SyncState:
    return work.save(_with_landed(work, state, place, objects))


def _with_landed(work: SyncWorkspace, state: SyncState, place: int, objects: Objects) -> SyncState:
    item = state.items[place]
    mover = conflict.landed_in(objects, tree_of(state), item, state.pin, state.to)
    where = f": {mover.commit[:12]} {mover.subject}" if mover else ""
    work.talk(f"{item.label} {item.subject}: nothing is left of it, {LANDED}{where}")
    return state.with_item(place, fate=Fate.LANDED, reason=f"{LANDED}{where}")


def resolved(work: SyncWorkspace, state: SyncState, objects: Objects) -> SyncState:
    """Commit a person's resolution of the conflict.

    Raises `NotHeldError` if the conflict is not resolved, or if the resolved patch changes nothing.
    """
    tree, place = tree_of(state), state.current
    assert place is not None and state.stop is not None
    tree.break_locks()
    item = state.items[place]
    paths = [collision["path"] for collision in state.stop["collisions"]]
    found = tree.resolution(state.head, paths)
    if isinstance(found, list):
        raise SyncUnresolved(
            f"{item.label} ({item.subject}) is not resolved yet",
            problems=found,
            hint=f"edit and git add the files in {state.worktree}, then use --continue; or use --skip or --drop",
        )
    if found.tree == tree.tree_of(state.head):
        raise SyncUnresolved(
            f"{item.label} ({item.subject}) changes nothing in {state.worktree}",
            hint="use --skip to skip it for now, or --drop N --why TEXT to drop it",
        )
    tree.remember()
    oid = tree.commit(objects.read(item.commit)[1], found.tree, state.head, found.message)
    shared_rerere.share(tree.git_dir / "rr-cache", work.shared)
    state = state.with_item(place, fate=Fate.PICKED, result=oid, by_hand=True, reason="")
    tell_checks(work, [state.items[place]], objects)
    return work.save(replace(state, head=oid, phase=Phase.PICKING, stop=None))


def _fork_of_patches(work: SyncWorkspace, proven: VerifiedSeries) -> tuple[ForkHistory, Repository]:
    """Return the history of a series without a fork.

    Its commits are made from the lock or the patches, in a temporary repository.
    """
    config, objects, base = work.config, proven.sources.objects, proven.sources.base
    directory = work.directory / "commits"
    shutil.rmtree(directory, ignore_errors=True)
    lock = read_lock(config.patches)
    made = check_out(
        objects,
        proven.series,
        lock,
        base,
        directory,
        upstream=config.upstream,
        branch=lock.branch if lock is not None else config.name,
        files=False,
    )
    repository = Repository.open(str(directory), directory)
    objects.add_directory(repository.object_directory, str(directory))
    return read_fork(repository, made.head, base, objects, branch=made.branch), repository


def _take_objects(own: Repository, work: SyncWorkspace, state: SyncState) -> None:
    """Copy the commits of a series without a fork into the sync's repository."""
    target = tree_of(state).git_dir / "objects"
    for directory in own.object_directory.iterdir():
        if len(directory.name) == 2:
            shutil.copytree(directory, target / directory.name, dirs_exist_ok=True)


def _sources(work: SyncWorkspace) -> list[str | Path]:
    """Return the sources from which missing contents can be fetched."""
    return [remote.source for _, remote in _remotes(work)]


def _remotes(work: SyncWorkspace) -> list[tuple[str, Remote]]:
    named = [("upstream", work.config.upstream), ("fork", work.config.fork)]
    return [(name, Remote.at(where, work.cache)) for name, where in named if where]
