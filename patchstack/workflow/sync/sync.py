"""Bring a fork onto a new pin, commit by commit, in a separate repository.

The sync stops if a person must decide. Every step can be repeated, and writes the state at its end. So a killed run can
be continued.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.causes import AlreadyExists, NotInRange, PatchDoesNotApply, SyncNotReady, SyncWouldLose
from patchstack.series.lock import read_lock
from patchstack.series.verify.verify import VerifiedSeries, prove_and_keep
from patchstack.workflow.sync import target as sync_target
from patchstack.workflow.sync.parking import Parking, parked_name, refuse_parking
from patchstack.workflow.sync.state import LEFT_OUT, Fate, Phase, SyncState, places_of
from patchstack.workflow.sync.steps import advance, edited, opened, prepare, resolved, without_landed
from patchstack.workflow.sync.workspace import SyncWorkspace, tree_of
from patchstack.workspace import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The options of a sync.

    The sync stops after the patches in `edits` (numbers or ids), and runs `command` after each patch. With
    `drop_landed`, it drops patches that have landed upstream. With `unattended`, it never waits for a person.
    """

    edits: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    drop_landed: bool = False
    unattended: bool = False


def begin(
    work: SyncWorkspace, to: str, *, worktree: Path | None = None, branch: str | None = None, manner: Manner = Manner()
) -> SyncState | None:
    """Start a sync to an upstream commit, and run it as far as possible.

    Return None if the pin is already that commit. Only the sync's own directory and the new repository are written.

    Raises `UsageError` if a sync is in progress, or if the directory or the branch already exists. Raises
    `NotHeldError` for a series that does not hold, and the errors of `prove_and_keep`.
    """
    with work.alone():
        if (old := work.state()) is not None:
            raise SyncNotReady(
                f"a sync of {work.config.name} to {old.to_name} is under way ({old.phase})",
                hint=f"run 'patchstack sync {work.config.name}' with --continue or --abort",
            )
        return _begin(work, to, worktree, branch, manner)


def begin_parking(work: SyncWorkspace, parking: Parking, *, worktree: Path | None = None) -> SyncState:
    """Start a sync on the current pin that parks or unparks a patch, and run it as far as possible.

    Raises the errors of `begin` and `refuse_parking`.
    """
    with work.alone():
        if (old := work.state()) is not None:
            raise SyncNotReady(
                f"a sync of {work.config.name} to {old.to_name} is under way ({old.phase})",
                hint=f"run 'patchstack sync {work.config.name}' with --continue or --abort",
            )
        refuse_parking(work, parking)
        state = _begin(work, work.config.pin, worktree, None, Manner(), parking)
        assert state is not None, "a sync to the pin itself was asked for"
        return state


def _begin(
    work: SyncWorkspace,
    to: str,
    worktree: Path | None,
    branch: str | None,
    manner: Manner,
    parking: Parking | None = None,
) -> SyncState | None:
    proven = _proven(work)
    objects, base = proven.sources.objects, proven.sources.base
    target = sync_target.open_target(work.cache, work.config.upstream, base, to, objects)
    if target.commit.oid == base.oid and parking is None:
        return None
    fork = proven.sources.fork
    known = {str(patch.number) for patch in proven.series.patches}
    if unknown := [name for name in manner.edits if name.isdigit() and str(int(name)) not in known]:
        hint = f"run 'patchstack status {work.config.name} --patches' to list the patches"
        raise NotInRange(f"--edit: no such patch: {', '.join(unknown)}", hint=hint)
    lock = read_lock(work.config.patches)
    own = sync_target.own_branch(proven.series, lock, work.config.fork_ref)
    named = branch or (own if manner.unattended else sync_target.synced_name(own, target.commit.oid))
    if parking is not None:
        named = parked_name(own, parking, proven.sources.fork_repository)
    if not (manner.unattended and named == own):
        sync_target.refuse_branch(named, proven.sources.fork_repository)
    place = _place(work, worktree, named)
    distance = len(target.range.commits)
    commits = "1 upstream commit" if distance == 1 else f"{distance} upstream commits"
    way = f"{commits} from {base.oid[:12]} to {target.commit.oid[:12]}" if parking is None else parking.told
    work.talk(f"{work.config.name}: {way}; working in {place}")
    state = SyncState(
        series=work.config.name,
        pin=base.oid,
        to=target.commit.oid,
        to_name=to,
        branch=named,
        worktree=str(place),
        fork_head=fork.head.oid if fork else "",
        digest=sync_target.series_digest(work.config.patches),
        head=target.commit.oid,
        phase=Phase.PREPARING,
        edits=manner.edits,
        command=manner.command,
        drop_landed=manner.drop_landed,
        unattended=manner.unattended,
        park=parking.number if parking is not None and not parking.back else None,
        unpark=parking.number if parking is not None and parking.back else None,
        why=parking.why if parking is not None else "",
    )
    work.save(state)
    return prepare(work, state, proven, target.repository)


def go_on(work: SyncWorkspace, *, command: tuple[str, ...] = (), unattended: bool = False) -> SyncState:
    """Continue a sync.

    Use a person's resolution or edit, or finish the step of an interrupted run. From now on, `command` is run after
    each patch. With `unattended`, a patch that conflicts is skipped, and the sync continues.

    Raises `NotHeldError` if the conflict is not resolved yet.
    """
    with work.alone():
        state = _usable(work)
        if command or unattended:
            state = replace(state, command=command or state.command, unattended=unattended or state.unattended)
        if unattended and state.phase is Phase.STOPPED:
            _keep_hand_made(work, state, discard=False, what="--unattended")
        if state.phase is Phase.PREPARING:
            proven = _proven(work)
            name = state.to_name if is_url(work.config.upstream) else state.to
            target = sync_target.open_target(
                work.cache, work.config.upstream, proven.sources.base, name, proven.sources.objects
            )
            state = work.save(replace(state, to=target.commit.oid, head=target.commit.oid))
            return prepare(work, state, proven, target.repository)
        objects = opened(work, state)
        if state.phase is Phase.STOPPED and not unattended:
            state = resolved(work, state, objects)
        elif state.phase is Phase.STOPPED:
            state = replace(state, phase=Phase.PICKING, stop=None)
        elif state.phase is Phase.EDITING:
            state = edited(work, state, objects)
            if state.phase is Phase.EDITING:
                return state  # the command failed again, so wait for the person
        return advance(work, state, objects)


def edit(work: SyncWorkspace, names: Sequence[str]) -> SyncState:
    """Stop after the given patches, so that a person can change them.

    If a patch is already on the branch, the sync goes back to it.

    Raises `UsageError` for a patch that is unknown, or that was skipped or dropped. Raises `NotHeldError` if work made
    by hand would be lost.
    """
    with work.alone():
        state = _usable(work)
        chosen = places_of(state.items, names)
        left_out = [state.items[place].label for place in chosen if state.items[place].fate in LEFT_OUT]
        if left_out:
            raise SyncNotReady(
                f"cannot edit patches that were skipped or dropped: {', '.join(left_out)}", hint="use --retry N first"
            )
        state = replace(state, edits=(*state.edits, *(state.items[place].commit for place in chosen)))
        made = [place for place in chosen if state.items[place].fate is Fate.PICKED]
        if not made:
            return work.save(state)
        _keep_hand_made(work, state, discard=False, what="--edit")
        return advance(work, work.save(state.rewound(made[0])), opened(work, state))


def drop_landed(work: SyncWorkspace) -> SyncState:
    """Drop every patch that has landed upstream, and continue.

    Canary found these patches and the reasons to drop them.
    """
    with work.alone():
        state = _usable(work)
        if state.phase is Phase.PREPARING:
            raise SyncNotReady("the sync is not prepared yet", hint=_next(state))
        state = replace(state, drop_landed=True)
        places = [
            place
            for place, item in enumerate(state.items)
            if item.commit in (state.landed or {}) and item.fate not in LEFT_OUT
        ]
        if not places:
            return work.save(state)
        _keep_hand_made(work, state, discard=False, what="--drop-landed")
        state = without_landed(state.rewound(places[0]))
        return advance(work, work.save(state), opened(work, state))


def _keep_hand_made(work: SyncWorkspace, state: SyncState, *, discard: bool, what: str) -> None:
    """Raise `NotHeldError` if commits or resolutions made by hand would be lost.

    With `discard`, save them under a ref instead. `what` is the option that would lose them.
    """
    tree = tree_of(state)
    if state.phase in (Phase.PREPARING, Phase.PICKING) or not tree.hand_made(state.head):
        return
    label = state.at_hand.label if state.at_hand is not None else "branch"
    if not discard:
        raise SyncWouldLose(
            f"{what} would lose work made by hand in {state.worktree}",
            hint="use --continue to include it, or --discard to remove it (a ref still keeps it)",
        )
    name = tree.keep(label)
    work.talk(f"the work made by hand is kept: git -C {state.worktree} show {name}")


def skip(work: SyncWorkspace, *, discard: bool = False) -> SyncState:
    """Skip the current patch for now, and continue.

    Raises `NotHeldError` if work made by hand would be lost. With `discard`, this work is saved under a ref.
    """
    with work.alone():
        state = _usable(work)
        place = state.current
        if state.phase is not Phase.STOPPED or place is None:
            raise SyncNotReady("the sync is not stopped at a patch: there is nothing to skip", hint=_next(state))
        _keep_hand_made(work, state, discard=discard, what="--skip")
        state = replace(state.with_item(place, fate=Fate.SKIPPED, reason="skipped"), phase=Phase.PICKING, stop=None)
        return advance(work, work.save(state), opened(work, state))


def drop(work: SyncWorkspace, names: Sequence[str], why: str, *, discard: bool = False) -> SyncState:
    """Drop patches for the given reason, and continue.

    Patches that are already on the branch are removed from it, and later patches are brought over again.

    Raises `UsageError` for an unknown patch. Raises `NotHeldError` if work made by hand would be lost. With `discard`,
    this work is saved under a ref.
    """
    with work.alone():
        state = _usable(work)
        if state.phase is Phase.PREPARING:
            raise SyncNotReady("the sync is not prepared yet", hint=_next(state))
        chosen = places_of(state.items, names)
        made = [place for place in chosen if state.items[place].fate in (Fate.PICKED, Fate.LANDED)]
        at_hand = state.current if state.phase is Phase.STOPPED else None
        if made or at_hand in chosen:
            _keep_hand_made(work, state, discard=discard, what="--drop")
        if made:
            state = state.rewound(made[0])
        elif at_hand in chosen:
            state = replace(state, phase=Phase.PICKING, stop=None)
        elif state.phase in (Phase.PICKED, Phase.READY):
            state = replace(state, phase=Phase.PICKED, report=None)
        for place in chosen:
            state = state.with_item(place, fate=Fate.DROPPED, reason=why, result=None)
        state = work.save(state)
        return state if state.phase in (Phase.STOPPED, Phase.EDITING) else advance(work, state, opened(work, state))


def retry(work: SyncWorkspace, names: Sequence[str], *, discard: bool = False) -> SyncState:
    """Try skipped or dropped patches again. Later patches are brought over again.

    Raises `UsageError` for an unknown patch, and for a patch that was not skipped or dropped. Raises `NotHeldError` if
    work made by hand would be lost. With `discard`, this work is saved under a ref.
    """
    with work.alone():
        state = _usable(work)
        chosen = places_of(state.items, names)
        if there := [state.items[place].label for place in chosen if state.items[place].fate not in LEFT_OUT]:
            listed = ", ".join(item.label for item in state.items if item.fate in LEFT_OUT) or "none"
            hint = f"skipped or dropped so far: {listed}"
            raise SyncNotReady(f"cannot retry patches that were not skipped or dropped: {', '.join(there)}", hint=hint)
        _keep_hand_made(work, state, discard=discard, what="--retry")
        state = replace(state.rewound(chosen[0]), unattended=False)
        for place in chosen:
            state = state.with_item(place, fate=Fate.PENDING, reason="", stored="")
        return advance(work, work.save(state), opened(work, state))


def abort(work: SyncWorkspace, *, discard: bool = False) -> SyncState:
    """Abort a sync. Remove its repository and state, and return the last state.

    The sync has not changed anything else.

    Raises `UsageError` if `--accept` has begun to write. Unless `discard` is set, raises `NotHeldError` if commits made
    by hand would be lost.
    """
    with work.alone():
        state = work.the_state()
        if state.phase in (Phase.ACCEPTING, Phase.CLOSING):
            raise SyncNotReady(
                "--accept has begun to write and was interrupted",
                hint=f"run 'patchstack sync {work.config.name} --accept' to finish it",
            )
        tree = tree_of(state)
        if (
            not discard
            and state.phase in (Phase.STOPPED, Phase.EDITING)
            and tree.head_or_none() not in (None, state.head)
        ):
            raise SyncWouldLose(
                f"--abort would remove commits made by hand in {state.worktree}",
                hint="fetch the commits from there, or use --abort --discard",
            )
        tree.remove()
        work.clear()
        return state


def _usable(work: SyncWorkspace) -> SyncState:
    state = work.the_state()
    if state.phase in (Phase.ACCEPTING, Phase.CLOSING):
        raise SyncNotReady(
            "--accept has begun to write and was interrupted",
            hint=f"run 'patchstack sync {work.config.name} --accept' to finish it",
        )
    return state


def _next(state: SyncState) -> str:
    return f"run 'patchstack sync {state.series}' to see its state, or add --continue to continue it"


def _place(work: SyncWorkspace, worktree: Path | None, branch: str) -> Path:
    root = work.workspace.root.resolve()
    place = worktree.absolute() if worktree else root.with_name(f"{root.name}-{branch.replace('/', '-')}")
    if os.path.lexists(place) and (not place.is_dir() or any(place.iterdir())):
        raise AlreadyExists(f"{place} already exists", hint="name a directory that does not exist: --worktree DIR")
    return place


def _proven(work: SyncWorkspace) -> VerifiedSeries:
    """Verify the current series, and return it.

    The sync brings the fork's commits over, and exports the new patches from them. So the fork must match the series.
    """
    proven = prove_and_keep(work.config, work.cache)
    found = proven.verification
    merged = proven.sources.fork is not None and proven.sources.fork.merges
    if not merged and (found.holds is False or not found.applies):
        raise PatchDoesNotApply(
            f"{found.series} does not hold on the old pin: {found.first_problem}",
            hint=f"run 'patchstack verify {found.series}', and fix the problem with an export or in the fork",
        )
    return proven
