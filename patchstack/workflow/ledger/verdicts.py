"""Draw the verdicts of a decision again, by the gates themselves, from the records that it names."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack import __version__
from patchstack.errors import PatchstackError
from patchstack.evidence.ledger import Decision, Outcome
from patchstack.evidence.store import BadRecord, Evidence, Record
from patchstack.gates.carried import carried_name, unpack
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.backend_ops import OWN
from patchstack.gates.suite import Gate, Suite, judge_gate
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.replay import RecordedBuilds, Replay
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.accept import of_the_next
from patchstack.workflow.ledger.finding import Findings

PHASES = ("before", "candidate")
_LOST = re.compile(r" \(\d+ of \d+ tries could not be judged\)")  # these leave no record


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What the verdicts of a decision are drawn from: its records by key, its steps, and its suite as it was then."""

    decision: Decision
    records: Mapping[str, Record]
    builds: Mapping[str, Mapping[str, Any]]
    steps: Mapping[tuple[str, str], Mapping[str, Any]]
    suite: Suite | None
    root: Path

    def replay(
        self, which: str, gate: str, records: Sequence[Record] | None = None, *, reference: str = "before"
    ) -> Replay:
        """Return an observer of a build that answers from records, for one gate. The references of gates are of the
        build `reference`, unless that is the build itself."""
        files = {str(step["build"]): _texts(step.get("programs")) for step in self.builds.values()}
        for step in self.steps.values():
            others = step.get("others")
            for name, other in others.items() if isinstance(others, Mapping) else ():
                files[str(name)] = _texts(other.get("programs") if isinstance(other, Mapping) else None)
        of = self.builds.get(reference)
        known = None
        if of is not None and which != reference:
            key = str(of["build"])
            known = Programs(directory=Path(key), platform="", key=key, name=str(of.get("shown", "")))
        return Replay(
            records=tuple(self.records.values()) if records is None else records,
            files=files.get(str(self.builds[which]["build"]), {}),
            builds=RecordedBuilds(root=self.root, files=files),
            context=RunContext(kind="", reference=known, judge=known),
            borrows=self.steps.get((which, gate), {}).get("judge") != OWN,
        )


def read_records(decision: Decision, kept: Evidence, found: Findings) -> dict[str, Record]:
    """Return the records that a decision names, by key. What is wrong with one is noted, and it is left out."""
    named = decision.evidence.get("records")
    records = {}
    for key, digest in sorted(named.items()) if isinstance(named, Mapping) else ():
        try:
            record = kept.read(str(digest))
        except BadRecord as error:
            found.wrong.append(f"record {str(digest)[:12]} {error.message}")
            continue
        if record.key != key:
            found.wrong.append(f"record {str(digest)[:12]} is of the key {record.key[:12]}, not {str(key)[:12]}")
            continue
        records[str(key)] = record
    if records:
        found.derived.append(f"{len(records)} records with their outputs and keys")
    return records


@contextmanager
def material(decision: Decision, kept: Evidence, found: Findings) -> Iterator[Material | None]:
    """Give what the verdicts of a decision are drawn from; None if too much of it is missing, which is noted."""
    evidence = decision.evidence
    records = read_records(decision, kept, found)
    steps = [step for step in evidence.get("steps", ()) if isinstance(step, Mapping)]
    builds = {str(step["which"]): step for step in steps if "inputs" in step and "which" in step}
    gates = {(str(step["which"]), str(step["gate"])): step for step in steps if "gate" in step and "which" in step}
    with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
        suite = None
        named = evidence.get("suite")
        if isinstance(named, Mapping):
            content = kept.outputs.read(str(named.get("sha256")), _size(named.get("size")))
            if content is None or carried_name(content) != named.get("name"):
                found.wrong.append("the suite that was asked is missing, or is not of its digest")
                yield None
                return
            try:
                suite = unpack(content, kept.outputs.read, Path(directory))
            except PatchstackError as error:
                found.wrong.append("; ".join([error.message, *error.problems[:3]]))
                yield None
                return
        yield Material(
            decision=decision, records=records, builds=builds, steps=gates, suite=suite, root=Path(directory)
        )


def check_verdicts(given: Material, found: Findings) -> None:
    """Draw every verdict again, and hold the steps of the decision against what comes out."""
    _check_steps(given, found)
    if given.suite is None:
        found.asserted.append("no gate was asked")
        return
    drawn = 0
    for which in PHASES:
        if which not in given.builds:
            continue
        for gate in given.suite.gates:
            step = given.steps.get((which, gate.name))
            if step is None:
                if given.decision.outcome is Outcome.ACCEPTED:
                    found.wrong.append(f"gate {gate.name} ({which}) has no verdict, and the suite asks for it")
                continue
            drawn += _check_gate(given, gate, which, step, found)
    known = {(which, gate.name) for gate in given.suite.gates for which in PHASES}
    found.wrong += [
        f"gate {name} ({which}) is not in the suite" for which, name in given.steps if (which, name) not in known
    ]
    if drawn:
        found.derived.append(f"{drawn} verdicts of gates, drawn again")
        machines = sorted({str(record.ingredients.get("hardware", ""))[:80] for record in given.records.values()})
        found.asserted.append(f"that {'; '.join(machines)} really printed these outputs")


def draw(given: Material, gate: Gate, which: str, replay: Replay) -> Judgement:
    """Return the judgement of a gate over what a replay answers, as `accept` comes to it."""
    judgement = judge_gate(gate, replay)
    if which == "before" and judgement.details.get("kl") and "candidate" in given.builds and given.suite is not None:
        referring = given.replay(which, gate.name, replay.records, reference="candidate")
        return of_the_next(given.suite.only([gate.name]), judgement, referring)
    return judgement


def _check_gate(given: Material, gate: Gate, which: str, step: Mapping[str, Any], found: Findings) -> bool:
    what = f"gate {gate.name} ({which})"
    try:
        judgement = draw(given, gate, which, given.replay(which, gate.name))
    except PatchstackError as error:
        found.wrong.append(f"{what}: {error.message}")
        return False
    build = str(given.builds[which]["build"])
    wrong = []
    if str(judgement.verdict) != step.get("verdict"):
        wrong.append(f"{what}: the outputs give {judgement.verdict}, not {step.get('verdict')}: {judgement.reason}")
    elif (judgement.actual, judgement.expected, gate.kind) != (
        step.get("actual"),
        step.get("expected"),
        step.get("kind"),
    ):
        wrong.append(f"{what}: the outputs give {judgement.actual}, and {step.get('actual')} is written")
    elif judgement.reason != (detail := _LOST.sub("", str(step.get("detail")))):
        if given.decision.evidence.get("patchstack") == __version__:
            wrong.append(f"{what}: the outputs give another reason than {detail[:200]}: {judgement.reason[:200]}")
        else:
            found.asserted.append(f"{what}: the words of its reason, by another version of patchstack")
    if _LOST.search(str(step.get("detail"))) is not None:
        found.asserted.append(f"{what}: that some tries could not be judged")
    if step.get("build") != build:
        wrong.append(f"{what}: it names another build than {build[:12]}")
    used = {one.key for one in judgement.attempts if one.complaint is None}
    if not wrong and used != set(_list(step.get("observations"))):
        wrong.append(f"{what}: it names other observations than its verdict is drawn from")
    found.wrong += wrong
    return not wrong


def _check_steps(given: Material, found: Findings) -> None:
    """Hold the steps of an acceptance against what an acceptance asks: each must be there, and PASS."""
    decision, evidence = given.decision, given.decision.evidence
    steps = [step for step in evidence.get("steps", ()) if isinstance(step, Mapping)]
    names = [str(step.get("name")) for step in steps]
    if len(set(names)) != len(names):
        found.wrong.append("a step is there twice")
    if decision.outcome is not Outcome.ACCEPTED:
        return
    for name in ("verify", *(f"build {which}" for which in PHASES)):
        if name not in names:
            found.wrong.append(f"it has no step {name!r}")
    for step in steps:
        if step.get("verdict") != Verdict.PASS:
            found.wrong.append(f"{step.get('name')}: {step.get('verdict')} does not allow an acceptance")
    for which, step in given.builds.items():
        proofs = step.get("proofs")
        bad = [name for name, one in proofs.items() if one != Verdict.PASS] if isinstance(proofs, Mapping) else ["all"]
        if bad:
            found.wrong.append(f"build {which}: not proven: {', '.join(bad)}")
        else:
            found.asserted.append(f"build {which}: that its proofs held")
    found.asserted += [f"{name}: its result" for name in names if name.startswith("benchmark ")]


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(one) for key, one in value.items()} if isinstance(value, Mapping) else {}


def _list(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _size(value: object) -> int:
    return value if isinstance(value, int) else -1
