"""Accept a candidate: check every condition, write the decision, and export the series.

Every step before the decision can be repeated. Builds and observations are stored by key, so an interrupted run
continues at the same point when it is restarted. The acceptance is final when the file of the decision is written. Then
the series is exported atomically.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchstack.bench.terms import BenchTerm
from patchstack.builds.inputs.source import Source as BuildSource
from patchstack.builds.record.store import Stored
from patchstack.causes import SettingsUnusable
from patchstack.checks.run import OpenEngine, no_engine
from patchstack.evidence.ledger import Candidate, Decision, Ledger, Outcome, time_of_decision
from patchstack.evidence.origin import Source
from patchstack.evidence.resemblance import Likeness, resembling
from patchstack.gates.carried import CarriedSuite
from patchstack.gates.judgement import Judgement
from patchstack.gates.reference.model_unchanged import still_the_same
from patchstack.gates.suite import Gate, Suite, run_suite
from patchstack.git.objects import Commit
from patchstack.git.remote import Cache
from patchstack.observe.from_build import programs_of
from patchstack.observe.layout import Programs
from patchstack.observe.observer import Observer
from patchstack.observe.runner import Runner
from patchstack.series.files.directory import configured_series
from patchstack.series.files.order import has_patches
from patchstack.series.lint.runner import lint, waiver_problems
from patchstack.series.lock import read_lock
from patchstack.series.verify.verify import prove_series
from patchstack.tasks import clock, task
from patchstack.verdict import Verdict, exit_code
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workflow.candidate.checks import checked_candidates
from patchstack.workflow.candidate.measured import Measured
from patchstack.workflow.candidate.new_gates import Brings, NewGate, judge_new, outcome
from patchstack.workflow.export import plan_with_candidate

BuildOf = Callable[[BuildSource], Stored]
BenchOf = Callable[[Stored], AbstractContextManager[Runner]]
Measure = Callable[[BenchTerm, Sequence[Stored]], Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptStep:
    """One condition of an acceptance, and its verdict.

    `source` is the origin of the step's observations. It is None for a step without observations.
    """

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict)
    source: Source | None = None


def step_line(step: AcceptStep, seconds: float) -> str:
    """Return a finished step as a line of text, with its duration."""
    source = f"; {step.source.words}" if step.source is not None else ""
    return f"{step.verdict:<7}  {step.name}: {step.detail}{source} ({clock(seconds)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The requirements for a candidate.

    `suite` is None if no gates are required. `carried` is the copy of the suite for the decision. `brings` contains the
    gates that the candidate adds. `carried_new` contains copies of the suites of these gates. `bench` contains the
    comparisons that prove the speed. `unproven` contains the names of proofs that may be INVALID. With `fail_fast`, the
    gates stop at the first FAIL. `engine` opens the engine for commands of checks.
    """

    suite: Suite | None
    carried: CarriedSuite | None = None
    brings: Brings = field(default_factory=Brings)
    carried_new: tuple[CarriedSuite, ...] = ()
    bench: tuple[BenchTerm, ...] = ()
    unproven: frozenset[str] = frozenset()
    fail_fast: bool = False
    engine: OpenEngine = no_engine

    @property
    def allow(self) -> tuple[str, ...]:
        """The names of the preflight checks that may fail."""
        if self.suite is not None:
            return self.suite.allow
        return tuple(sorted({name for one in self.brings.gates for name in one.suite.allow}))

    @property
    def known_gates(self) -> Suite | None:
        """The suite without the gates that the candidate adds. It is None if no gate remains."""
        if self.suite is None:
            return None
        left = self.brings.without(self.suite)
        return None if self.suite.gates and not left.gates else left


def alike(candidates: Sequence[Candidate], ledger: Ledger) -> tuple[Likeness, ...]:
    """Return the rejections of changes that resemble the candidates. They only cause a warning."""
    rejected = [one for one in ledger.read() if one.outcome is Outcome.REJECTED]
    return tuple(likeness for one in candidates for likeness in resembling(one, rejected))


def examine(
    way: CandidateRange, cache: Cache, terms: Terms, build: BuildOf, bench: BenchOf, measure: Measure
) -> Iterator[AcceptStep]:
    """Yield every step in order as soon as it is done.

    The parts are verification, lint, the checks, the build before the candidate, the candidate's build, and the
    comparisons. The gates of a build are in the same part as the build. If a step of a part is not PASS, the next part
    is not started.

    Raises the errors of verification, of builds and of the engine.
    """
    built: list[Stored] = []
    for steps in (
        lambda: [_mirrored(way, cache), *_switches(terms.brings)],
        lambda: [lint_step(way, cache)],
        lambda: _checked(way, terms),
        lambda: gated(way, way.before, "before", terms, build, bench, built, then=way.head),
        lambda: gated(way, way.head, "candidate", terms, build, bench, built),
        lambda: [_compared(measure(term, built)) for term in terms.bench],
    ):
        held = True
        for step in steps():
            yield step
            held &= step.verdict is Verdict.PASS
        if not held:
            return


def decide(
    way: CandidateRange, candidates: Sequence[Candidate], evidence: Mapping[str, Any], ledger: Ledger, *, why: str
) -> tuple[Decision, Path]:
    """Write the acceptance. Call this only with the evidence of steps that are all PASS.

    If the ledger already contains an acceptance of the same commits with the same basis and format, return that
    decision. A new decision supersedes all earlier decisions on the same commits.
    """
    same = [one for one in ledger.read() if one.commits == tuple(one.commit for one in candidates)]
    accepted = [one for one in same if one.outcome is Outcome.ACCEPTED and one.format == 2]
    for known in accepted:
        if _rests_on(known.evidence) == _rests_on(evidence):
            return known, ledger.write(known)
    decision = Decision(
        outcome=Outcome.ACCEPTED,
        series=way.config.name,
        made=time_of_decision(),
        why=why or next((one.why for one in same if one.outcome is Outcome.ACCEPTED), ""),
        candidates=tuple(candidates),
        evidence=evidence,
        supersedes=tuple(sorted(one.id for one in same)),
    )
    return decision, ledger.write(decision)


def _rests_on(evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the basis of a decision: builds, suite, comparisons, and additions of the candidates.

    Repeated observations do not change the basis, so they do not lead to a new decision.
    """
    steps = evidence.get("steps", ())
    builds, compared = (tuple(step.get(name) for step in steps) for name in ("build", "comparison"))
    brings = evidence.get("brings") or Brings().document()
    return evidence.get("suite"), builds, compared, brings, evidence.get("suites_of_new_gates") or []


def _switches(brings: Brings) -> Iterator[AcceptStep]:
    """Yield a step for each switch that no gate proves.

    Such switches are accepted for the reason in `brings`.
    """
    for one in brings.unproven:
        for switch in one.switches:
            yield AcceptStep(
                name=f"switch {switch} of {one.commit[:12]}",
                verdict=Verdict.PASS,
                detail=f"unproven, no gate shows that it does something: {brings.reason}",
            )


def _mirrored(way: CandidateRange, cache: Cache) -> AcceptStep:
    """Check that the series mirrors the fork up to the candidate's parent, and return the step."""
    base = way.sources.base
    if not has_patches(way.config.patches):
        verdict = Verdict.PASS if way.before.oid == base.oid else Verdict.FAIL
        return AcceptStep(name="verify", verdict=verdict, detail="there is no series yet: the first candidate makes it")
    with task("verify", key=f"verify {way.config.name}", announced=True):
        result = prove_series(dataclasses.replace(way.config, fork_ref=way.before.oid, expect="fork"), cache)
    given = "1 patch gives" if result.applied_count == 1 else f"{result.applied_count} patches give"
    detail = f"{given} {result.applied_tree[:12]}, the fork at {way.before.oid[:12]}"
    if not result.holds:
        detail = result.first_problem or "the series differs from the fork below the candidate"
        after = prove_series(dataclasses.replace(way.config, fork_ref=way.head.oid, expect="fork"), cache)
        # The series may already contain the candidate: an earlier accept was interrupted after its export, or this
        # commit gets a new decision.
        if not after.holds and (end := decided_anew(way)) is not None:
            after = prove_series(dataclasses.replace(way.config, fork_ref=end, expect="fork"), cache)
        if after.holds:
            result, detail = after, f"the series already has {way.head.oid[:12]}"
    return AcceptStep(
        name="verify",
        verdict=Verdict.PASS if result.holds else Verdict.FAIL,
        detail=detail,
        evidence={"tree": result.applied_tree},
    )


def lint_step(way: CandidateRange, cache: Cache) -> AcceptStep:
    """Check the series with the candidates against the lint rules.

    Only findings in the candidates' patches count. Other findings are only mentioned.

    Raises the errors of `plan_with_candidate`, and `ConfigError` for unusable waivers.
    """
    config = way.config
    if problems := waiver_problems(config.waive):
        raise SettingsUnusable(f"the waivers of {config.name} cannot be used", problems=problems)
    with task("lint", key=f"lint {config.name}", announced=True):
        anew = decided_anew(way) is not None
        series = configured_series(config) if anew else plan_with_candidate(way, cache).projected
        result = lint(way.sources.objects, series, way.sources.base, config.lint, config.waive)
    ours = {patch.file for patch in series.patches} if anew else {one.file for one in series.patches[-len(way.new) :]}
    own = [finding for finding in result.findings if finding.file in ours]
    others = len(result.findings) - len(own)
    detail = f"{own[0].file}: {own[0].rule}: {own[0].message}" if own else "the candidate keeps the rules"
    if len(own) > 1:
        detail += f"; and {len(own) - 1} more"
    if others:
        detail += f"; {others} in other patches"
    return AcceptStep(name="lint", verdict=Verdict.FAIL if own else Verdict.PASS, detail=detail)


def _checked(way: CandidateRange, terms: Terms) -> Iterator[AcceptStep]:
    """Yield the results of the checks of the series, on the tree with the candidates."""
    for row in checked_candidates(way, terms.engine):
        yield AcceptStep(
            name=f"check {row.check.name}",
            verdict=row.verdict,
            detail=row.found.reason,
            evidence={"kind": row.check.kind, "tree": row.tree},
        )


def decided_anew(way: CandidateRange) -> str | None:
    """Return the last commit of the series if the series contains the candidates and later commits.

    Return None otherwise.
    """
    lock = read_lock(way.config.patches) if has_patches(way.config.patches) else None
    known = {patch.commit for patch in lock.patches} if lock is not None else set()
    if lock is None or way.head.oid == lock.head or not {one.oid for one in way.new} <= known:
        return None
    return lock.head


def gated(
    way: CandidateRange,
    commit: Commit,
    which: str,
    terms: Terms,
    build: BuildOf,
    bench: BenchOf,
    built: list[Stored] | None = None,
    then: Commit | None = None,
) -> Iterator[AcceptStep]:
    """Build the tree of a commit, check the proofs of the build, and run the gates on it. Yield each step.

    The references of the gates come from the last build of `built`, on which the gates passed. The new build is
    appended to `built`.

    With `then`, references may instead belong to the build of this later commit. A gate whose transcript differs from
    its reference then passes if measurements show that the model is the same as at `then`.
    """
    stored = _built(way, commit, which, build)
    before = built[-1] if built else None
    if built is not None:
        built.append(stored)
    rejection = stored.record.rejection
    if rejection is not None:
        yield AcceptStep(
            name=f"build {which}",
            verdict=Verdict.FAIL,
            detail=f"{rejection.file}:{rejection.line}: {rejection.message}",
            evidence={"build": stored.key},
        )
        return
    proofs = [
        (proof.id, Verdict.PASS if proof.verdict is Verdict.INVALID and proof.id in terms.unproven else proof.verdict)
        for proof in stored.record.proofs
    ]
    verdict = _together([one for _, one in proofs])
    bad = [name for name, one in proofs if one is not Verdict.PASS]
    yield AcceptStep(
        name=f"build {which}",
        verdict=verdict,
        detail=f"{stored.key[:12]}, " + (f"not proven: {', '.join(bad)}" if bad else f"{len(proofs)} proofs hold"),
        evidence={
            "build": stored.key,
            "shown": programs_of(stored, isolated=False).name,
            "which": which,
            "inputs": dict(stored.record.inputs),
            "variant": stored.record.variant,
            "programs": programs_of(stored, isolated=False).loaded().all(),
            "proofs": {name: str(one) for name, one in proofs},
        },
    )
    suite = terms.known_gates
    if (suite is None and not terms.brings.gates) or verdict is not Verdict.PASS:
        return
    with bench(stored) as ready:
        if before is not None:
            ready = _referring_to(before, ready)
        for gate, judgement in run_suite(suite, ready, of=which) if suite is not None else ():
            if suite is not None and then is not None and judgement.details.get("kl"):
                after = _built(way, then, "candidate", build)
                if after.record.built:
                    judgement = of_the_next(suite.only([gate.name]), judgement, _referring_to(after, ready))
            yield _gate_step(gate, judgement, which, stored.key, ready.others)
            if terms.fail_fast and judgement.verdict is Verdict.FAIL:
                return
        for new, judgement in judge_new(terms.brings, ready, which):
            step = _new_gate_step(new, judgement, which, stored.key, ready.others)
            yield step
            if terms.fail_fast and step.verdict is Verdict.FAIL:
                return


def _built(way: CandidateRange, commit: Commit, which: str, build: BuildOf) -> Stored:
    with task(f"build {which}", key=f"build {way.config.name}", announced=True):
        return build(way.source(commit))


def of_the_next(suite: Suite, judgement: Judgement, referring: Observer) -> Judgement:
    """Judge a changed transcript again, with a reference that may belong to the next build.

    `suite` contains only the gate of the judgement. `referring` observes the judged build, with the next build as the
    reference. Return `judgement` unchanged if nothing proves that the model is still the same.
    """
    ((_, again),) = run_suite(suite, referring, of="before, against the candidate")
    if not still_the_same(again):
        return judgement
    return dataclasses.replace(again, verdict=Verdict.PASS, reason=f"the reference is the candidate's; {again.reason}")


def _referring_to(build: Stored, ready: Runner) -> Runner:
    """Return the runner with `build` as the source of references and test programs."""
    programs = programs_of(build, isolated=ready.about.isolated)
    return ready.within(dataclasses.replace(ready.context, reference=programs, judge=programs))


def _gate_step(gate: Gate, judgement: Judgement, which: str, key: str, others: Mapping[str, Programs]) -> AcceptStep:
    source = judgement.source
    return AcceptStep(
        name=f"gate {gate.name} ({which})",
        verdict=judgement.verdict,
        detail=judgement.reason,
        source=source,
        evidence={
            "build": key,
            "which": which,
            "gate": gate.name,
            "kind": gate.kind,
            "actual": judgement.actual,
            "expected": judgement.expected,
            "judge": judgement.details.get("judge"),
            "observations": sorted({one.key for one in judgement.attempts if one.complaint is None}),
            "recalled": list(judgement.recalled),
            "source": {"origin": str(source.origin), "made": source.made, "decision": source.decision}
            if source is not None
            else None,
            "others": {
                name: {"key": other.key, "programs": other.loaded().all()} for name, other in sorted(others.items())
            },
        },
    )


def _new_gate_step(
    new: NewGate, judgement: Judgement, which: str, key: str, others: Mapping[str, Programs]
) -> AcceptStep:
    """Return the step of a gate that the candidate adds. The evidence of the step contains the gate's own verdict."""
    step = _gate_step(new.gate, judgement, which, key, others)
    verdict, detail = outcome(which, judgement)
    return dataclasses.replace(
        step,
        name=f"new gate {new.title} ({which})",
        verdict=verdict,
        detail=detail,
        evidence={**step.evidence, "new_of": new.suite.name, "gave": str(judgement.verdict)},
    )


def _compared(found: Measured) -> AcceptStep:
    return AcceptStep(name=found.name, verdict=found.verdict, detail=found.detail, evidence=found.evidence)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    code = exit_code(verdicts)
    return {0: Verdict.PASS, 1: Verdict.FAIL}.get(int(code), Verdict.INVALID)
