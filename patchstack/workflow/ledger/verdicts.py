"""Derive the verdicts of a decision again.

The gates themselves derive the verdicts from the records that the decision names.
"""

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
from patchstack.evidence.decided import DecidedBrings, decided_brings
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
_LOST = re.compile(r" \(\d+ of \d+ tries could not be judged\)")  # not in a replay: records contain only judged tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The input of a decision's verdicts.

    `records` contains the records by key. `builds` maps `before` and `candidate` to the steps of these builds. `steps`
    maps a build and a gate to a step. `new_steps` maps a build and `SUITE/NAME` to the step of a gate that came with
    the candidates. `suite` is the required suite. `suites` contains all suites in the decision, by name. `places` maps
    a suite to the directory of its files, below `root`.
    """

    decision: Decision
    records: Mapping[str, Record]
    builds: Mapping[str, Mapping[str, Any]]
    steps: Mapping[tuple[str, str], Mapping[str, Any]]
    new_steps: Mapping[tuple[str, str], Mapping[str, Any]]
    suite: Suite | None
    suites: Mapping[str, Suite]
    places: Mapping[str, Path]
    root: Path

    @property
    def known_gates(self) -> tuple[Gate, ...]:
        """The gates of the required suite, except those that came with the candidates."""
        brings = decided_brings(self.decision.evidence) or DecidedBrings()
        new = {one.path for one in brings.gates}
        return (
            tuple(gate for gate in self.suite.gates if f"{self.suite.name}/{gate.name}" not in new)
            if self.suite
            else ()
        )

    def gate(self, suite: str, name: str) -> Gate | None:
        """Return a gate of a suite in the decision, or None if the decision does not contain it."""
        gates = self.suites[suite].gates if suite in self.suites else ()
        return next((gate for gate in gates if gate.name == name), None)

    def replay(
        self,
        which: str,
        step: Mapping[str, Any] | None,
        records: Sequence[Record] | None = None,
        *,
        reference: str = "before",
    ) -> Replay:
        """Return an observer that replays the records of a build, for the gate of a step.

        The references of gates belong to the build `reference`, unless the observed build is `reference` itself.
        """
        files = {str(step["build"]): _texts(step.get("programs")) for step in self.builds.values()}
        for one in (*self.steps.values(), *self.new_steps.values()):
            others = one.get("others")
            for name, other in others.items() if isinstance(others, Mapping) else ():
                files[str(name)] = _texts(other.get("programs") if isinstance(other, Mapping) else None)
        of = self.builds.get(reference)
        suite = str((step or {}).get("new_of") or (self.suite.name if self.suite is not None else ""))
        known = None
        if of is not None and which != reference:
            key = str(of["build"])
            known = Programs(directory=Path(key), platform="", key=key, name=str(of.get("shown", "")))
        return Replay(
            records=tuple(self.records.values()) if records is None else records,
            files=files.get(str(self.builds[which]["build"]), {}),
            builds=RecordedBuilds(root=self.places.get(suite, self.root), files=files),
            context=RunContext(kind="", reference=known, judge=known),
            borrows=(step or {}).get("judge") != OWN,
        )


def read_records(decision: Decision, kept: Evidence, found: Findings) -> dict[str, Record]:
    """Return the records that a decision names, by key.

    Damaged records and records with a different key are omitted and reported in `found`.
    """
    named = decision.evidence.get("records")
    records = {}
    for key, digest in sorted(named.items()) if isinstance(named, Mapping) else ():
        try:
            record = kept.read(str(digest))
        except BadRecord as error:
            found.wrong.append(f"record {str(digest)[:12]} {error.message}")
            continue
        if record.key != key:
            found.wrong.append(f"record {str(digest)[:12]} has the key {record.key[:12]}, not {str(key)[:12]}")
            continue
        records[str(key)] = record
    if records:
        found.derived.append(f"{len(records)} records with their outputs and keys")
    return records


@contextmanager
def material(decision: Decision, kept: Evidence, found: Findings) -> Iterator[Material | None]:
    """Yield the input of a decision's verdicts.

    Yield None if a suite is missing or damaged. Problems are added to `found`.
    """
    evidence = decision.evidence
    records = read_records(decision, kept, found)
    steps = [step for step in evidence.get("steps", ()) if isinstance(step, Mapping)]
    builds = {str(step["which"]): step for step in steps if "inputs" in step and "which" in step}
    gates = [step for step in steps if "gate" in step and "which" in step]
    asked, more = evidence.get("suite"), evidence.get("suites_of_new_gates")
    with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
        suites: dict[str, Suite] = {}
        places: dict[str, Path] = {}
        named = [one for one in (asked, *(more if isinstance(more, list) else ())) if isinstance(one, Mapping)]
        for number, one in enumerate(named):
            place = Path(directory) / str(number)
            suite = _carried(one, kept, place, found)
            if suite is None:
                yield None
                return
            suites[suite.name], places[suite.name] = suite, place
        yield Material(
            decision=decision,
            records=records,
            builds=builds,
            steps={(str(one["which"]), str(one["gate"])): one for one in gates if "new_of" not in one},
            new_steps={(str(one["which"]), f"{one['new_of']}/{one['gate']}"): one for one in gates if "new_of" in one},
            suite=suites.get(str(asked.get("name"))) if isinstance(asked, Mapping) else None,
            suites=suites,
            places=places,
            root=Path(directory),
        )


def _carried(named: Mapping[str, Any], kept: Evidence, place: Path, found: Findings) -> Suite | None:
    """Return a suite in the decision, with its files below `place`.

    If the suite is missing or damaged, add the problem to `found` and return None.
    """
    content = kept.outputs.read(str(named.get("sha256")), _size(named.get("size")))
    if content is None or carried_name(content) != named.get("name"):
        found.wrong.append(f"the suite {named.get('name')} is missing, or does not match its digest")
        return None
    place.mkdir()
    try:
        return unpack(content, kept.outputs.read, place)
    except PatchstackError as error:
        found.wrong.append("; ".join([error.message, *error.problems[:3]]))
        return None


def check_verdicts(given: Material, found: Findings) -> None:
    """Derive every verdict again, and compare the results with the steps of the decision."""
    _check_steps(given, found)
    if given.suite is None:
        found.asserted.append("no gate was required")
        return
    drawn = 0
    for which in PHASES:
        if which not in given.builds:
            continue
        for gate in given.known_gates:
            step = given.steps.get((which, gate.name))
            if step is None:
                if given.decision.outcome is Outcome.ACCEPTED:
                    found.wrong.append(f"gate {gate.name} ({which}) has no verdict, but the suite requires it")
                continue
            drawn += _check_gate(given, gate, which, step, found)
    known = {(which, gate.name) for gate in given.known_gates for which in PHASES}
    found.wrong += [
        f"gate {name} ({which}) is not in the suite" for which, name in given.steps if (which, name) not in known
    ]
    if drawn:
        found.derived.append(f"{drawn} verdicts of gates, drawn again")
        machines = sorted({str(record.ingredients.get("hardware", ""))[:80] for record in given.records.values()})
        found.asserted.append(f"that {'; '.join(machines)} really printed these outputs")


def draw(given: Material, gate: Gate, which: str, replay: Replay) -> Judgement:
    """Judge a gate again from the records, in the same way as `accept` judged it."""
    judgement = judge_gate(gate, replay)
    if which == "before" and judgement.details.get("kl") and "candidate" in given.builds and given.suite is not None:
        step = given.steps.get((which, gate.name))
        referring = given.replay(which, step, replay.records, reference="candidate")
        return of_the_next(given.suite.only([gate.name]), judgement, referring)
    return judgement


def _check_gate(given: Material, gate: Gate, which: str, step: Mapping[str, Any], found: Findings) -> bool:
    what = f"gate {gate.name} ({which})"
    try:
        judgement = draw(given, gate, which, given.replay(which, step))
    except PatchstackError as error:
        found.wrong.append(f"{what}: {error.message}")
        return False
    return check_step(given, gate, step, judgement, (str(judgement.verdict), judgement.reason), what, found)


def check_step(
    given: Material,
    gate: Gate,
    step: Mapping[str, Any],
    judgement: Judgement,
    drawn: tuple[str, str],
    what: str,
    found: Findings,
) -> bool:
    """Compare a gate's step in the decision with the judgement that follows from the records.

    `drawn` is the verdict and the reason that the step should contain. Return whether everything matches. Differences
    are added to `found`. A different wording of the reason is allowed for a decision of another patchstack version.
    """
    build = str(given.builds[str(step["which"])]["build"])
    verdict, reason = drawn
    wrong = []
    if verdict != step.get("verdict"):
        wrong.append(f"{what}: the outputs give {verdict}, not {step.get('verdict')}: {reason}")
    elif (judgement.actual, judgement.expected, gate.kind) != (
        step.get("actual"),
        step.get("expected"),
        step.get("kind"),
    ):
        wrong.append(f"{what}: the outputs give {judgement.actual}, but {step.get('actual')} is recorded")
    elif _LOST.sub("", reason) != (detail := _LOST.sub("", str(step.get("detail")))):
        if given.decision.evidence.get("patchstack") == __version__:
            wrong.append(f"{what}: the outputs give the reason {reason[:200]!r}, but {detail[:200]!r} is recorded")
        else:
            found.asserted.append(f"{what}: the wording of its reason, which is from a different version of patchstack")
    if _LOST.search(str(step.get("detail"))) is not None:
        found.asserted.append(f"{what}: that some tries could not be judged")
    if step.get("build") != build:
        wrong.append(f"{what}: it names a different build than {build[:12]}")
    used = {one.key for one in judgement.attempts if one.complaint is None}
    if not wrong and used != set(_list(step.get("observations"))):
        wrong.append(f"{what}: it names different observations than those of its verdict")
    found.wrong += wrong
    return not wrong


def _check_steps(given: Material, found: Findings) -> None:
    """Check that no step occurs twice, and that an acceptance contains all required steps.

    In an acceptance, each step must be PASS, and so must each proof of the builds.
    """
    decision, evidence = given.decision, given.decision.evidence
    steps = [step for step in evidence.get("steps", ()) if isinstance(step, Mapping)]
    names = [str(step.get("name")) for step in steps]
    if len(set(names)) != len(names):
        found.wrong.append("a step occurs twice")
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
