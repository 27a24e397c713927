"""Bring a fork onto a new pin, commit by commit, in a repository of its own; stop where a person must look.

Every step writes the state when it is done, and can be done again: a run that was killed goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchstack.errors import NotHeldError, UsageError
from patchstack.series.lock import read_lock
from patchstack.series.verify.verify import VerifiedSeries, prove_and_keep
from patchstack.workflow.sync import target as sync_target
from patchstack.workflow.sync.state import Fate, Phase, SyncState
from patchstack.workflow.sync.steps import advance, opened, prepare, resolved
from patchstack.workflow.sync.workspace import SyncWorkspace, tree_of
from patchstack.workspace import is_url

_ID = 7  # digits of a commit's id that are taken for one
_LEFT_OUT = (Fate.SKIPPED, Fate.DROPPED)


def begin(
    bench: SyncWorkspace, to: str, *, worktree: Path | None = None, branch: str | None = None
) -> SyncState | None:
    """Begin a sync to a commit of the upstream, and take it as far as it goes; None where the pin is there already.

    Raises `UsageError` where one is under way or a name is taken, `NotHeldError` for a series that does not hold, and
    what opening the sources raises. Nothing but the bench's own directory and the new repository is written.
    """
    with bench.alone():
        if (old := bench.state()) is not None:
            raise UsageError(
                f"a sync of {bench.config.name} to {old.to_name} is under way ({old.phase})",
                hint=f"patchstack sync {bench.config.name} --continue, or --abort",
            )
        return _begin(bench, to, worktree, branch)


def _begin(bench: SyncWorkspace, to: str, worktree: Path | None, branch: str | None) -> SyncState | None:
    proven = _proven(bench)
    objects, base = proven.sources.objects, proven.sources.base
    target = sync_target.open_target(bench.cache, bench.config.upstream, base, to, objects)
    if target.commit.oid == base.oid:
        return None
    fork = proven.sources.fork
    named = branch or sync_target.branch_name(
        proven.series, read_lock(bench.config.patches), bench.config.fork_ref, target.commit.oid
    )
    sync_target.refuse_branch(named, proven.sources.fork_repository)
    place = _place(bench, worktree, named)
    distance = len(target.range.commits)
    commits = "1 upstream commit" if distance == 1 else f"{distance} upstream commits"
    bench.talk(f"{bench.config.name}: {commits} from {base.oid[:12]} to {target.commit.oid[:12]}; working in {place}")
    state = SyncState(
        series=bench.config.name,
        pin=base.oid,
        to=target.commit.oid,
        to_name=to,
        branch=named,
        worktree=str(place),
        fork_head=fork.head.oid if fork else "",
        digest=sync_target.series_digest(bench.config.patches),
        head=target.commit.oid,
        phase=Phase.PREPARING,
    )
    bench.save(state)
    return prepare(bench, state, proven, target.repository)


def go_on(bench: SyncWorkspace) -> SyncState:
    """Go on with a sync: take what a person made of the conflict, or finish what a killed run began.

    Raises `NotHeldError` where the conflict is not resolved yet.
    """
    with bench.alone():
        state = _usable(bench)
        if state.phase is Phase.PREPARING:
            proven = _proven(bench)
            name = state.to_name if is_url(bench.config.upstream) else state.to
            target = sync_target.open_target(
                bench.cache, bench.config.upstream, proven.sources.base, name, proven.sources.objects
            )
            state = bench.save(replace(state, to=target.commit.oid, head=target.commit.oid))
            return prepare(bench, state, proven, target.repository)
        objects = opened(bench, state)
        if state.phase is Phase.STOPPED:
            state = resolved(bench, state, objects)
        return advance(bench, state, objects)


def skip(bench: SyncWorkspace) -> SyncState:
    """Leave the patch at hand out for now, and go on."""
    with bench.alone():
        state = _usable(bench)
        place = state.current
        if state.phase is not Phase.STOPPED or place is None:
            raise UsageError("the sync is not stopped at a patch: there is nothing to skip", hint=_next(state))
        state = replace(state.with_item(place, fate=Fate.SKIPPED, reason="skipped"), phase=Phase.PICKING, stop=None)
        return advance(bench, bench.save(state), opened(bench, state))


def drop(bench: SyncWorkspace, names: Sequence[str], why: str) -> SyncState:
    """Leave patches out for good, each with the reason, and go on. Patches that are on the branch already are taken
    from it: those after them are made again. Raises `UsageError` for a number that no patch has."""
    with bench.alone():
        state = _usable(bench)
        if state.phase is Phase.PREPARING:
            raise UsageError("the sync is not prepared yet", hint=_next(state))
        chosen = _places(state, names)
        made = [place for place in chosen if state.items[place].fate in (Fate.PICKED, Fate.LANDED)]
        at_hand = state.current if state.phase is Phase.STOPPED else None
        if made:
            state = state.rewound(made[0])
        elif at_hand in chosen:
            state = replace(state, phase=Phase.PICKING, stop=None)
        elif state.phase in (Phase.PICKED, Phase.READY):
            state = replace(state, phase=Phase.PICKED, report=None)
        for place in chosen:
            state = state.with_item(place, fate=Fate.DROPPED, reason=why, result=None)
        state = bench.save(state)
        return state if state.phase is Phase.STOPPED else advance(bench, state, opened(bench, state))


def retry(bench: SyncWorkspace, names: Sequence[str]) -> SyncState:
    """Try patches again that were skipped or dropped; those after them are made again. Raises `UsageError`."""
    with bench.alone():
        state = _usable(bench)
        chosen = _places(state, names)
        if there := [state.items[place].label for place in chosen if state.items[place].fate not in _LEFT_OUT]:
            listed = ", ".join(item.label for item in state.items if item.fate in _LEFT_OUT) or "none"
            raise UsageError(f"{', '.join(there)} was not left out", hint=f"left out so far: {listed}")
        state = state.rewound(chosen[0])
        for place in chosen:
            state = state.with_item(place, fate=Fate.PENDING, reason="")
        return advance(bench, bench.save(state), opened(bench, state))


def abort(bench: SyncWorkspace) -> SyncState:
    """Give a sync up: its repository and state go, and nothing else was ever changed. Gives what it was.

    Raises `UsageError` where `--accept` has begun to write.
    """
    with bench.alone():
        state = bench.the_state()
        if state.phase in (Phase.ACCEPTING, Phase.CLOSING):
            raise UsageError(
                "--accept has begun to write and was interrupted",
                hint=f"patchstack sync {bench.config.name} --accept finishes it",
            )
        tree_of(state).remove()
        bench.clear()
        return state


def _usable(bench: SyncWorkspace) -> SyncState:
    state = bench.the_state()
    if state.phase in (Phase.ACCEPTING, Phase.CLOSING):
        raise UsageError(
            "--accept has begun to write and was interrupted",
            hint=f"patchstack sync {bench.config.name} --accept finishes it",
        )
    return state


def _places(state: SyncState, names: Sequence[str]) -> list[int]:
    """The places of patches by their numbers or, for commits without a patch, by the beginning of the commit's id.

    Raises `UsageError` for names that no patch has, or more than one."""
    found = set()
    unknown = []
    for name in names:
        places = [
            place
            for place, item in enumerate(state.items)
            if (name.isdigit() and item.number == int(name)) or (len(name) >= _ID and item.commit.startswith(name))
        ]
        if len(places) == 1:
            found.add(places[0])
        else:
            unknown.append(name)
    if unknown:
        known = ", ".join(item.label for item in state.items)
        raise UsageError(f"no patch is {', '.join(unknown)}", hint=f"the patches are {known}")
    return sorted(found)


def _next(state: SyncState) -> str:
    return f"patchstack sync {state.series} shows where it stands, --continue goes on"


def _place(bench: SyncWorkspace, worktree: Path | None, branch: str) -> Path:
    root = bench.workspace.root.resolve()
    place = worktree.absolute() if worktree else root.with_name(f"{root.name}-{branch.replace('/', '-')}")
    if os.path.lexists(place) and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{place} is there already", hint="name a new directory: --worktree DIR")
    return place


def _proven(bench: SyncWorkspace) -> VerifiedSeries:
    """The series as it is, which must hold: what is synced is the fork, and the patches follow it."""
    proven = prove_and_keep(bench.config, bench.cache)
    found = proven.verification
    merged = proven.sources.fork is not None and proven.sources.fork.merges
    if not merged and (found.holds is False or not found.applies):
        raise NotHeldError(
            f"{found.series} does not hold on the old pin: {found.first_problem}",
            hint=f"patchstack verify {found.series} shows it; mend that first, with an export or in the fork",
        )
    return proven
