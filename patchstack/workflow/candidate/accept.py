"""Accept a candidate: everything that must hold is shown to hold, the decision is written, and the series follows.

Every step before the decision can be done again: builds and observations are kept by key, so a run that was killed is
begun anew and goes on where it was. The decision's file is the commit point; what comes after it is the export, which
is all or nothing itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchstack.builds.inputs.source import Source
from patchstack.builds.record.store import Stored
from patchstack.errors import ConfigError, MissingError
from patchstack.evidence.ledger import Candidate, Decision, Ledger, Outcome
from patchstack.evidence.resemblance import Likeness, resembling
from patchstack.gates.judgement import Judgement
from patchstack.gates.reference.model_unchanged import still_the_same
from patchstack.gates.suite import Gate, Suite, run_suite
from patchstack.git.objects import Commit
from patchstack.git.remote import Cache
from patchstack.observe.from_build import programs_of
from patchstack.observe.runner import Runner
from patchstack.series.files.order import has_patches
from patchstack.series.verify.verify import prove
from patchstack.tasks import clock, task
from patchstack.verdict import Verdict, exit_code
from patchstack.workflow.candidate.candidate import OnTheWay

BuildOf = Callable[[Source], Stored]
BenchOf = Callable[[Stored], AbstractContextManager[Runner]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptStep:
    """One thing that must hold, and how it came out."""

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict)


def step_line(step: AcceptStep, seconds: float) -> str:
    """A step for people, as it comes out, with the time that it took."""
    return f"{step.verdict:<7}  {step.name}: {step.detail} ({clock(seconds)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is asked of a candidate: the suite (None: no gates), and files with benchmark results, each with a verdict
    of its own."""

    suite: Suite | None
    benchmarks: tuple[Path, ...] = ()
    unproven: frozenset[str] = frozenset()

    @property
    def allow(self) -> tuple[str, ...]:
        """The preflight checks that may fail."""
        return self.suite.allow if self.suite is not None else ()


def alike(candidates: Sequence[Candidate], ledger: Ledger) -> tuple[Likeness, ...]:
    """The rejected decisions that the candidates resemble: a warning, nothing more."""
    rejected = [one for one in ledger.read() if one.outcome is Outcome.REJECTED]
    return tuple(likeness for one in candidates for likeness in resembling(one, rejected))


def examine(way: OnTheWay, cache: Cache, terms: Terms, build: BuildOf, bench: BenchOf) -> Iterator[AcceptStep]:
    """Every step in order, each as it comes out. After a part (the mirror, the prefix, the candidate, the benchmarks)
    with a step that is not PASS, the next is not begun.

    Raises what verifying, building and the engine raise.
    """
    built: list[Stored] = []
    for steps in (
        lambda: [_mirrored(way, cache)],
        lambda: gated(way, way.before, "before", terms, build, bench, built, then=way.head),
        lambda: gated(way, way.head, "candidate", terms, build, bench, built),
        lambda: [_measured(path) for path in terms.benchmarks],
    ):
        held = True
        for step in steps():
            yield step
            held &= step.verdict is Verdict.PASS
        if not held:
            return


def decide(
    way: OnTheWay, candidates: Sequence[Candidate], steps: Sequence[AcceptStep], ledger: Ledger, *, why: str
) -> tuple[Decision, Path]:
    """Write the acceptance down. To be called with steps that are all PASS."""
    assert steps and all(step.verdict is Verdict.PASS for step in steps)
    for known in ledger.read():
        same = [one.commit for one in known.candidates] == [one.commit for one in candidates]
        if known.outcome is Outcome.ACCEPTED and same:
            return known, ledger.write(known)
    decision = Decision(
        outcome=Outcome.ACCEPTED,
        series=way.config.name,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        why=why,
        candidates=tuple(candidates),
        evidence={"steps": [{"name": one.name, "detail": one.detail, **one.evidence} for one in steps]},
    )
    return decision, ledger.write(decision)


def _mirrored(way: OnTheWay, cache: Cache) -> AcceptStep:
    """The series as it is mirrors the fork up to the candidate's parent."""
    base = way.sources.base
    if not has_patches(way.config.patches):
        verdict = Verdict.PASS if way.before.oid == base.oid else Verdict.FAIL
        return AcceptStep(name="verify", verdict=verdict, detail="there is no series yet: the first candidate makes it")
    with task("verify", key=f"verify {way.config.name}", announced=True):
        result = prove(dataclasses.replace(way.config, fork_ref=way.before.oid, expect="fork"), cache)
    given = "1 patch gives" if result.applied_count == 1 else f"{result.applied_count} patches give"
    detail = f"{given} {result.applied_tree[:12]}, the fork at {way.before.oid[:12]}"
    if not result.holds:
        detail = result.first_problem or "the series is not the fork below the candidate"
        after = prove(dataclasses.replace(way.config, fork_ref=way.head.oid, expect="fork"), cache)
        if after.holds:  # an accept that was ended behind its export
            result, detail = after, f"the series has {way.head.oid[:12]} already"
    return AcceptStep(
        name="verify",
        verdict=Verdict.PASS if result.holds else Verdict.FAIL,
        detail=detail,
        evidence={"tree": result.applied_tree},
    )


def gated(
    way: OnTheWay,
    commit: Commit,
    which: str,
    terms: Terms,
    build: BuildOf,
    bench: BenchOf,
    built: list[Stored] | None = None,
    then: Commit | None = None,
) -> Iterator[AcceptStep]:
    """Build a commit's tree, hold its proofs, run the suite on it. The last of `built` is what the references of the
    gates are of, since they passed on it; the new build is added. A reference may be of the commit `then`, which comes
    after: then a gate holds where it gives another transcript and is measured to be the same model as that one."""
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
        evidence={"build": stored.key, "proofs": {name: str(one) for name, one in proofs}},
    )
    if terms.suite is None or verdict is not Verdict.PASS:
        return
    with bench(stored) as ready:
        if before is not None:
            ready = _referring_to(before, ready)
        for gate, judgement in run_suite(terms.suite, ready, of=which):
            if then is not None and judgement.details.get("kl"):
                after = _built(way, then, "candidate", build)
                judgement = _of_the_next(terms.suite.only([gate.name]), judgement, ready, after)
            yield _gate_step(gate, judgement, which, stored.key)


def _built(way: OnTheWay, commit: Commit, which: str, build: BuildOf) -> Stored:
    with task(f"build {which}", key=f"build {way.config.name}", announced=True):
        return build(way.source(commit))


def _of_the_next(suite: Suite, judgement: Judgement, ready: Runner, after: Stored) -> Judgement:
    """A judgement over a transcript that changed, where the reference may be of the build after this one."""
    if not after.record.built:
        return judgement
    ((_, again),) = run_suite(suite, _referring_to(after, ready), of="before, against the candidate")
    if not still_the_same(again):
        return judgement
    return dataclasses.replace(again, verdict=Verdict.PASS, reason=f"the reference is the candidate's; {again.reason}")


def _referring_to(build: Stored, ready: Runner) -> Runner:
    """The runner, for gates whose references are of that build."""
    return ready.within(dataclasses.replace(ready.context, reference=programs_of(build, isolated=ready.about.isolated)))


def _gate_step(gate: Gate, judgement: Judgement, which: str, key: str) -> AcceptStep:
    return AcceptStep(
        name=f"gate {gate.name} ({which})",
        verdict=judgement.verdict,
        detail=judgement.reason,
        evidence={
            "build": key,
            "kind": gate.kind,
            "actual": judgement.actual,
            "expected": judgement.expected,
            "observations": [one.key for one in judgement.attempts if one.complaint is None],
            "recalled": list(judgement.recalled),
        },
    )


def _measured(path: Path) -> AcceptStep:
    """A benchmark's result file: a JSON document with a `verdict`."""
    try:
        content = path.read_bytes()
        verdict = Verdict(json.loads(content)["verdict"])
    except OSError as error:
        raise MissingError(f"the benchmark result {path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no benchmark result: it has no verdict PASS, FAIL or INVALID") from error
    digest = hashlib.sha256(content).hexdigest()
    return AcceptStep(
        name=f"benchmark {path.name}", verdict=verdict, detail=f"sha256 {digest[:12]}", evidence={"sha256": digest}
    )


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    code = exit_code(verdicts)
    return {0: Verdict.PASS, 1: Verdict.FAIL}.get(int(code), Verdict.INVALID)
