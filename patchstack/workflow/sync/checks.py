"""Check a finished sync before the pin moves.

The checks are the commands of the policy, and its suite on a build of the new branch. Every finished step is written to
the sync's report.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchstack.causes import SyncDoesNotHold
from patchstack.errors import Exit, PatchstackError
from patchstack.git.objects import Objects
from patchstack.process import run
from patchstack.series.sources import Sources
from patchstack.tasks import longest, task, timed
from patchstack.verdict import Verdict, exit_code
from patchstack.workflow.candidate.accept import AcceptStep, BenchOf, BuildOf, Terms, gated, step_line
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workflow.sync.finish import made_branch
from patchstack.workflow.sync.state import Phase, SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace

LONGEST = 24 * 3600.0  # the time limit of a required command, in seconds
_SHOWN = 20  # number of last output lines of a failed command that the report contains


class NotJudged(PatchstackError):
    """A requirement of the policy could not be judged."""

    code = "PS0907"
    exit_code = Exit.INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """The suite that the policy names, with functions that build its programs and open a runner."""

    terms: Terms
    build: BuildOf
    runner: BenchOf


ProvingOf = Callable[[], AbstractContextManager[Proving]]
"""A function that opens the engine for the suite. It is called only after all commands succeeded."""


def interrupted(state: SyncState) -> Mapping[str, Any] | None:
    """Return the checks of an earlier `--accept` that failed or was interrupted.

    The result contains `verdict` (None before the end) and `steps`. Return None if no `--accept` was started, or if the
    branch changed since then.
    """
    if state.phase is not Phase.READY or state.report is None:
        return None
    found: Mapping[str, Any] | None = state.report.get("checks")
    return found


def check(work: SyncWorkspace, state: SyncState, objects: Objects, proving: ProvingOf | None) -> SyncState:
    """Check a finished sync against the policy.

    Return the state of the sync, with every step in its report.

    Raises `NotHeldError` if a step fails. Otherwise, raises `NotJudged` if a step could not be judged.
    """
    if not work.config.sync_require and work.config.sync_suite is None:
        return state
    assert work.config.sync_suite is None or proving is not None, "a suite that is not run would pass"
    steps: list[AcceptStep] = []
    state = _kept(work, state, steps, None)
    for step in _asked(work, state, objects, proving):
        steps.append(step)
        state = _kept(work, state, steps, None)
    bad = [step for step in steps if step.verdict is not Verdict.PASS]
    code = exit_code(step.verdict for step in steps)
    verdict = {Exit.HOLDS: Verdict.PASS, Exit.DOES_NOT_HOLD: Verdict.FAIL}.get(code, Verdict.INVALID)
    state = _kept(work, state, steps, verdict)
    if bad:
        raise _refusal(work, bad, verdict)
    return state


def _asked(work: SyncWorkspace, state: SyncState, objects: Objects, proving: ProvingOf | None) -> Iterator[AcceptStep]:
    """Yield the steps of the commands. If all commands succeeded, yield the steps of the suite."""
    for step in _commands(work, state):
        yield step
        if step.verdict is not Verdict.PASS:
            return
    if proving is None:
        return
    work.talk(f"suite {work.config.sync_suite} on the new branch")
    with proving() as ready:
        way = _branch(work, state, objects)
        taken: list[tuple[str, float]] = []
        for step, seconds in timed(gated(way, way.head, "new pin", ready.terms, ready.build, ready.runner)):
            work.talk(step_line(step, seconds))
            taken.append((step.name, seconds))
            yield step
        if line := longest(taken):
            work.talk(line)


def _kept(work: SyncWorkspace, state: SyncState, steps: list[AcceptStep], verdict: Verdict | None) -> SyncState:
    told = {"verdict": verdict, "steps": [dataclasses.asdict(step) for step in steps]}
    return work.save(replace(state, report={**(state.report or {}), "checks": told}))


def _commands(work: SyncWorkspace, state: SyncState) -> Iterator[AcceptStep]:
    """Run the policy's commands in the new branch's work tree, up to the first failure."""
    for number, command in enumerate(work.config.sync_require, 1):
        told = " ".join(command)
        work.talk(f"required: {told}")
        with task(f"required: {told}"):
            done = run(command, cwd=Path(state.worktree), env=environment_of(work, state), timeout=LONGEST)
        log = work.directory / f"required-{number}.log"
        log.write_bytes(done.stdout + done.stderr)
        last = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()[-_SHOWN:]
        yield AcceptStep(
            name=told,
            verdict=Verdict.PASS if done.ok else Verdict.FAIL,
            detail=f"exited {done.code}",
            evidence={} if done.ok else {"log": str(log), "last": last},
        )
        if not done.ok:
            return


def environment_of(work: SyncWorkspace, state: SyncState) -> dict[str, str]:
    """Return the environment for the commands of the policy and of `--exec`.

    Variables for git are removed, because a hook or CI may have set them. Variables that describe the sync are added.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ours = {"PIN": state.to, "BRANCH": state.branch, "TREE": state.worktree, "WORKSPACE": str(work.workspace.path)}
    return kept | {f"PATCHSTACK_SYNC_{name}": value for name, value in ours.items()}


def _branch(work: SyncWorkspace, state: SyncState, objects: Objects) -> CandidateRange:
    """Return the commits of the new branch as candidates on the new pin."""
    base = objects.commit(state.to)
    repository, fork = made_branch(state, objects, base)
    return CandidateRange(
        config=work.config,
        sources=Sources(objects=objects, base=base, upstream=repository, fork=fork, fork_repository=repository),
        fork=fork,
        repository=repository,
        before=base,
        new=fork.commits,
    )


def _refusal(work: SyncWorkspace, bad: list[AcceptStep], verdict: Verdict) -> PatchstackError:
    again = f"patchstack sync {work.config.name} --continue"
    if "log" in bad[0].evidence:
        return SyncDoesNotHold(
            f"the pin does not move: {bad[0].name} {bad[0].detail}",
            problems=bad[0].evidence["last"],
            hint=f"its complete output is in {bad[0].evidence['log']}; run '{again}' to continue",
        )
    problems = [f"{step.verdict} {step.name}: {step.detail}" for step in bad]
    if verdict is Verdict.FAIL:
        return SyncDoesNotHold(
            f"the pin does not move: suite {work.config.sync_suite} does not hold on the new branch",
            problems=problems,
            hint=f"use --drop N --why TEXT to drop a patch, or --abort; run '{again}' to run the suite again",
        )
    return NotJudged(
        f"the pin does not move: suite {work.config.sync_suite} could not be judged",
        problems=problems,
        hint=f"run '{again}' to judge it again; known results are reused",
    )
