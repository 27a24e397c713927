"""Finish a sync.

Write the series of the new branch next to the old series, verify it, and write the report.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from patchstack.causes import SyncDoesNotHold
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.series.files.directory import load_series
from patchstack.series.history import ForkHistory, read_fork
from patchstack.series.mirror.export import ExportPlan, ExportPolicy, carry_out, plan_export
from patchstack.series.verify.verify import Expectation, verify
from patchstack.workflow.sync.build_changes import compare_toolchains
from patchstack.workflow.sync.document import toolchain_entry
from patchstack.workflow.sync.outcomes import compare_changes
from patchstack.workflow.sync.promises import checks_at_end
from patchstack.workflow.sync.state import Fate, Phase, SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace, tree_of


def finish(work: SyncWorkspace, state: SyncState, objects: Objects) -> SyncState:
    """Export the new branch into the sync's own directory, verify it there, and write the report.

    Raises the errors of `plan_series` and `carry_out`. Raises `NotHeldError` if the new series on the new pin differs
    from the new branch.
    """
    if state.phase is Phase.READY:
        return state
    base = objects.commit(state.to)
    report: dict[str, Any] = {"tree": None, "patch_count": 0, "retired": [], "holds": None}
    if any(item.fate is Fate.PICKED for item in state.items):
        shutil.rmtree(work.stage, ignore_errors=True)
        work.stage.parent.mkdir(exist_ok=True)
        shutil.copytree(work.config.patches, work.stage)
        plan = plan_series(work, state, objects, base, work.stage)
        carry_out(plan)
        report |= _verified(work, state, objects, base)
        report["retired"] = list(plan.retired)
    outcomes = compare_changes(objects, tree_of(state), state.items)
    report["changes"] = {outcome.item.commit: outcome.kind.value for outcome in outcomes}
    report["promises"] = checks_at_end(work, state, objects)
    changed = compare_toolchains(objects, objects.commit(state.pin).tree, base.tree)
    report["toolchain"] = msgspec.to_builtins(toolchain_entry(changed))
    return work.save(replace(state, phase=Phase.READY, report=report))


def plan_series(work: SyncWorkspace, state: SyncState, objects: Objects, base: Commit, directory: Path) -> ExportPlan:
    """Return the plan of the new branch's series, based on the series in a directory.

    Every patch keeps its number and its id, because the patch of each commit is known.
    """
    repository, fork = made_branch(state, objects, base)
    same = {
        item.number: item.result
        for item in state.items
        if item.fate is Fate.PICKED and item.number is not None and item.result is not None
    }
    return plan_export(
        objects,
        repository,
        work.config.name,
        directory,
        base,
        fork,
        ExportPolicy.of(work.config),
        discard_edits=True,  # the series was verified when the sync began, and has not changed since
        same=same,
        parking={state.park: state.why} if state.park is not None else None,
    )


def made_branch(state: SyncState, objects: Objects, base: Commit) -> tuple[Repository, ForkHistory]:
    """Return the sync's repository, and the commits of its branch since the new pin."""
    repository = Repository.open(state.worktree, Path(state.worktree))
    return repository, read_fork(repository, state.head, base, objects, branch=state.branch)


def _verified(work: SyncWorkspace, state: SyncState, objects: Objects, base: Commit) -> dict[str, Any]:
    _, fork = made_branch(state, objects, base)
    found = verify(objects, load_series(work.stage, work.config.name), base, Expectation(fork=fork))
    if not found.holds:
        raise SyncDoesNotHold(
            f"the series of the new branch does not hold: {found.first_problem}",
            hint=f"inspect {state.worktree}, or run 'patchstack sync {state.series} --abort' to abort the sync",
        )
    return {"tree": found.applied_tree, "patch_count": found.patch_count, "holds": True}
