"""Accept candidates from end to end: warn, examine, decide, export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.bench.terms import BenchTerm
from patchstack.builds.record.store import Stored
from patchstack.evidence.ledger import Candidate, Decision, Ledger
from patchstack.evidence.resemblance import Likeness
from patchstack.evidence.store import Evidence
from patchstack.git.remote import Cache
from patchstack.series.history import check_pushed
from patchstack.series.mirror.export import ExportPlan, carry_out, check_unchanged, lock_digest
from patchstack.tasks import task, timed
from patchstack.verdict import Verdict, exit_code
from patchstack.workflow.candidate.accept import AcceptStep, Terms, alike, decide, decided_anew, examine
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workflow.candidate.evidence import carried_terms, evidence_of
from patchstack.workflow.candidate.measured import Measured, measured
from patchstack.workflow.candidate.pending import keep
from patchstack.workflow.candidate.ready import check_ready
from patchstack.workflow.export import plan_with_candidate
from patchstack.workflow.machine import ProvingMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The result of an acceptance, with all steps in order.

    If a step is not PASS, `decision` and `export` are None, and only the evidence for `reject` was written. `export` is
    also None if the series already contains these commits and later commits.
    """

    series: str
    commits: tuple[str, ...]
    steps: tuple[AcceptStep, ...]
    decision: Decision | None = None
    export: ExportPlan | None = None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of the steps, in order."""
        return tuple(step.verdict for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBuild:
    """A build that an acceptance needs.

    `which` is `before` or `candidate`. `known` is true if the build is already stored.
    """

    which: str
    commit: str
    key: str
    known: bool


def warnings(
    way: CandidateRange, candidates: Sequence[Candidate], ledger: Ledger
) -> tuple[str | None, tuple[Likeness, ...]]:
    """Return the warnings about candidates. Call this before any expensive work.

    The first result is a warning if the candidates are not pushed. The second contains the rejections of changes that
    resemble the candidates. A candidate may be on its own branch, which is merged into the fork's branch later.

    Raises `NotHeldError` for an unpushed candidate if the policy requires a push.
    """
    config = way.config
    branches = dict.fromkeys((way.fork.branch, config.fork_ref or way.fork.branch))
    unpushed = check_pushed(way.repository, way.head.oid, *branches, required=config.require_pushed)
    return unpushed, alike(candidates, ledger)


def planned_builds(way: CandidateRange, machine: ProvingMachine) -> Iterator[PlannedBuild]:
    """Yield the builds that an acceptance needs, in order, without building them."""
    for which, commit in (("before", way.before), ("candidate", way.head)):
        key = machine.inputs(way.source(commit)).key.hex
        yield PlannedBuild(which=which, commit=commit.oid, key=key, known=machine.store.find(key) is not None)


def accept(
    way: CandidateRange,
    candidates: Sequence[Candidate],
    cache: Cache,
    terms: Terms,
    machine: ProvingMachine,
    ledger: Ledger,
    *,
    why: str,
    told: Callable[[AcceptStep, float], None],
    decided: Callable[[Path], None],
) -> Accepted:
    """Examine candidates. If every step is PASS, write the decision and export the series.

    Otherwise, store the evidence for `reject`. `candidates` are the result of `described`. `told` is called with every
    finished step and its wall time in seconds. `decided` is called with the decision's file, which is written before
    the export.

    Raises the errors of verification, of builds, of the engine and of the export.
    """
    commits = tuple(one.commit for one in candidates)
    read_from = lock_digest(way.config.patches)
    check_ready(way, terms, machine)
    kept = Evidence(machine.workspace.root / "evidence")
    terms = carried_terms(machine.workspace.words_file, terms, kept)
    terms = replace(terms, engine=machine.connection.open_another)
    steps = _examined(way, cache, terms, machine, kept, told)
    evidence = evidence_of(way, terms, steps, kept, machine.known)
    if exit_code(step.verdict for step in steps):
        keep(machine.workspace.root, way, evidence)
        return Accepted(series=way.config.name, commits=commits, steps=tuple(steps))
    made: list[Decision] = []

    def commit() -> None:
        """Write the decision, after a check that the series has not changed since it was verified.

        If the series is exported, this is called just before the last step of the export.
        """
        check_unchanged(way.config.patches, read_from)
        decision, file = decide(way, candidates, evidence, ledger, why=why)
        made.append(decision)
        decided(file)

    if decided_anew(way) is not None:
        commit()
        return Accepted(series=way.config.name, commits=commits, steps=tuple(steps), decision=made[0])
    with task("export"):
        plan = plan_with_candidate(way, cache)
        carry_out(plan, commit)
    return Accepted(series=way.config.name, commits=commits, steps=tuple(steps), decision=made[0], export=plan)


def _examined(
    way: CandidateRange,
    cache: Cache,
    terms: Terms,
    machine: ProvingMachine,
    kept: Evidence,
    told: Callable[[AcceptStep, float], None],
) -> Sequence[AcceptStep]:
    trees = (way.before.tree, way.head.tree)

    def measure(term: BenchTerm, built: Sequence[Stored]) -> Measured:
        planned = machine.planned(term.variant) if term.variant is not None else None
        return measured(term, built, trees, kept.outputs, planned)

    steps = []
    for step, seconds in timed(examine(way, cache, terms, machine.build, machine.runner, measure)):
        told(step, seconds)
        steps.append(step)
    return steps
