"""Accept a finished sync.

First check the policy's requirements. Then write the branch, the series and, last, the pin. Every step can be repeated.
If writing is interrupted, the next `--accept` must complete it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from patchstack.causes import BranchInTheWay, CloneMissing, NotWritable, SyncNotReady, SyncWouldLose
from patchstack.errors import PatchstackError
from patchstack.files.atomic import replace_file
from patchstack.git import run as git
from patchstack.git.objects import Repository
from patchstack.git.remote import Remote, shown_url
from patchstack.series.history import check_pushed
from patchstack.series.mirror.export import carry_out
from patchstack.workflow.sync.checks import ProvingOf, check
from patchstack.workflow.sync.document import sync_document
from patchstack.workflow.sync.finish import plan_series
from patchstack.workflow.sync.shared_rerere import share
from patchstack.workflow.sync.state import Fate, Phase, SyncState
from patchstack.workflow.sync.steps import opened
from patchstack.workflow.sync.target import series_digest
from patchstack.workflow.sync.workspace import OURS, SyncWorkspace, tree_of
from patchstack.workspace import SeriesConfig, is_url
from patchstack.workspace.write import move_pin


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The result of an acceptance.

    `record` is the path of the sync's record. `kept` is the path of the sync's repository. It is None if the repository
    was removed.
    """

    state: SyncState
    record: Path
    kept: Path | None


def accept(work: SyncWorkspace, proving: ProvingOf | None = None) -> Accepted:
    """Accept the new branch.

    The branch is written to the fork, and its series to the workspace. Then the pin is moved. `proving` opens the
    machine for the suite that the policy names.

    Raises `UsageError` if the sync is not ready. Raises `NotHeldError` for a patch that was skipped without a reason,
    for a fork or series that changed since the sync began, and for a failing command or gate of the policy. Raises
    `NotJudged` for a gate that is INVALID. In these cases, the fork and the series do not change.
    """
    with work.alone():
        state = work.the_state()
        if state.phase is Phase.CLOSING:
            return _closed(work, state)
        if state.phase is not Phase.ACCEPTING:
            _refuse(work, state)
            if state.park is None and state.unpark is None:  # the policy applies only if the pin moves
                state = check(work, state, opened(work, state), proving)
            state = work.save(replace(state, phase=Phase.ACCEPTING))
        objects = opened(work, state)
        try:
            _publish(work.config, state)
        except PatchstackError:
            work.save(replace(state, phase=Phase.READY))  # nothing was written, so the sync stays ready
            raise
        carry_out(plan_series(work, state, objects, objects.commit(state.to), work.config.patches))
        with_fork = work.config.fork is not None
        move_pin(work.workspace.path, work.config.name, state.to, state.branch if with_fork else None)
        share(tree_of(state).git_dir / "rr-cache", work.shared)
        _record(work, state)
        _warn_of_push(work, state)
        tree = tree_of(state)
        if not with_fork or tree.left_over() or tree.kept():
            work.clear()
            return Accepted(state=state, record=_record_file(work, state), kept=tree.directory)
        return _closed(work, work.save(replace(state, phase=Phase.CLOSING)))


def _closed(work: SyncWorkspace, state: SyncState) -> Accepted:
    """Remove the sync's repository, because the fork now contains all of its commits."""
    tree_of(state).remove()
    work.clear()
    return Accepted(state=state, record=_record_file(work, state), kept=None)


def _refuse(work: SyncWorkspace, state: SyncState) -> None:
    name = work.config.name
    if state.phase is not Phase.READY or state.report is None:
        raise SyncNotReady(
            f"the sync of {name} is not finished ({state.phase})", hint=f"run 'patchstack sync {name}' to see its state"
        )
    skipped = [
        f"{item.label} {item.subject}" + (f" ({item.reason})" if item.fate is Fate.NOT_CARRIED else "")
        for item in state.items
        if item.fate in (Fate.SKIPPED, Fate.NOT_CARRIED)
    ]
    if skipped:
        raise SyncWouldLose(
            f"the sync of {name} cannot be accepted: patches were skipped without a reason",
            problems=skipped,
            hint=f"for each, run 'patchstack sync {name} --drop N --why TEXT', or --retry N to try it again",
        )
    if not state.report["holds"]:
        raise SyncWouldLose(
            f"the new series {name} has no patches: every patch landed or was dropped",
            hint="remove the series from patchstack.yaml, and run 'patchstack sync --abort' to remove the sync's files",
        )
    if series_digest(work.config.patches) != state.digest:
        raise SyncWouldLose(
            f"the patches in {work.config.patches} have changed since the sync began",
            hint=f"run 'patchstack sync {name} --abort' and begin again: resolutions are remembered",
        )
    head = _fork_head(work, state)
    if state.fork_head and head != state.fork_head:
        raise SyncWouldLose(
            f"the fork {work.config.fork} {work.config.fork_ref} has moved from {state.fork_head[:12]} "
            f"to {head[:12]} since the sync began, and the new branch lacks these commits",
            hint=f"run 'patchstack sync {name} --abort' and begin again: resolutions are remembered",
        )
    tree = tree_of(state)
    if tree.unmerged() or tree.head() != state.head:
        raise SyncWouldLose(
            f"{state.worktree} is no longer at {state.head[:12]}, which was exported and verified",
            hint=f"git -C {state.worktree} reset --hard {state.head[:12]}",
        )


def _fork_head(work: SyncWorkspace, state: SyncState) -> str:
    config = work.config
    if config.fork is None or config.fork_ref is None or not state.fork_head:
        return ""
    return Remote.at(config.fork, work.cache).resolve(config.fork_ref, "fork ref", until=state.pin)[1].oid


def _publish(config: SeriesConfig, state: SyncState) -> None:
    """Add the new branch to the fork.

    In an unattended sync, the old branch of the same name is renamed. Other branches do not change.

    Raises `UsageError` if the fork has a different branch of this name. Raises `MissingError` if the fork is at a URL,
    because patchstack never pushes.
    """
    if config.fork is None:
        return
    if is_url(config.fork):
        push = f"git -C {state.worktree} push {shown_url(config.fork)} {state.branch}"
        raise CloneMissing(
            f"the fork {shown_url(config.fork)} is not on this machine, and patchstack never pushes",
            hint=f"{push}; then set fork: to a clone in patchstack.yaml, and run --accept again",
        )
    fork = Repository.open(config.fork, Path(config.fork))
    name = f"refs/heads/{state.branch}"
    there = git.read(fork.path, "rev-parse", "--quiet", "--verify", name).stdout.decode().strip()
    if there == state.head:
        return
    if there and state.unattended and there == state.fork_head:
        _give_way(fork, state, there)
    elif there:
        raise BranchInTheWay(
            f"the fork {fork.name} already has a different branch {state.branch}, at {there[:12]}",
            hint=f"rename it there: git -C {fork.name} branch -m {state.branch} NAME; then run --accept again",
        )
    git.checked(
        git.fetch_locally(fork.git_dir, Path(state.worktree).resolve(), f"+{name}:{name}"),
        f"the fork {fork.name} could not fetch the branch {state.branch}",
        hint=f"git -C {fork.name} fetch {shown_url(config.upstream)} {state.to}; then run --accept again",
    )


def _give_way(fork: Repository, state: SyncState, old: str) -> None:
    """Save the fork's branch under a different name, because the new branch takes its name.

    Raises `UsageError` if a work tree has the branch checked out, because the files would no longer match the branch.
    """
    listed = git.read(fork.path, "worktree", "list", "--porcelain").stdout.decode("utf-8", "replace")
    bare = git.read(fork.path, "rev-parse", "--is-bare-repository").stdout.strip() == b"true"
    if f"branch refs/heads/{state.branch}" in listed.splitlines() and not bare:
        raise BranchInTheWay(
            f"the fork {fork.name} has {state.branch} checked out, and the new branch takes its name",
            hint=f"git -C {fork.name} switch --detach; then run --accept again",
        )
    kept = f"refs/heads/{state.branch}-before-{state.to[:9]}"
    git.checked(
        git.isolated(fork.git_dir, "update-ref", kept, old),
        f"the old branch of the fork {fork.name} could not be saved as {kept}",
    )


def _warn_of_push(work: SyncWorkspace, state: SyncState) -> None:
    # Only warn, even if the policy requires a push: `_publish` has just created the branch, so it cannot be pushed yet.
    # The next export checks it.
    if work.config.fork is None:
        return
    fork = Repository.open(work.config.fork, Path(work.config.fork))
    if warning := check_pushed(fork, state.head, state.branch, required=False):
        work.talk(f"warning: {warning}")


def _record_file(work: SyncWorkspace, state: SyncState) -> Path:
    what = state.to[:12]
    if (number := state.unpark if state.park is None else state.park) is not None:
        what = f"{'parked' if state.unpark is None else 'unparked'}-{number:04d}-{state.head[:12]}"
    return work.workspace.root / OURS / "synced" / f"{state.series}-{what}.json"


def _record(work: SyncWorkspace, state: SyncState) -> None:
    """Write the results of all patches and their reasons to a file that can be committed."""
    path = _record_file(work, state)
    document = msgspec.structs.replace(sync_document(state), phase="accepted", worktree=None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, document.indented)
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror or error}") from error
