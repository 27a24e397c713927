"""Observe some records again on this machine, and compare the verdicts.

Only stable values are compared: the verdict of the record's gate, and the value from which the verdict follows. Other
outputs are not compared, because times in them differ in every run.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchstack.builds.record.store import Store, Stored
from patchstack.causes import DecisionRefused, ModelMissing, NoSuchBuild, NotRecorded
from patchstack.errors import MissingError
from patchstack.evidence.ledger import Decision
from patchstack.evidence.store import Evidence, Record
from patchstack.gates.suite import Gate
from patchstack.llama.asking import with_requests
from patchstack.observe.protocol import Invocation, Model, Observation, Request
from patchstack.observe.runner import Runner
from patchstack.tasks import task
from patchstack.workflow.candidate.new_gates import judge_new_gate
from patchstack.workflow.ledger.finding import Findings
from patchstack.workflow.ledger.verdicts import Material, draw, material

OpenRunner = Callable[[Stored], AbstractContextManager[Runner]]
"""Opens a runner for a build, on a suitable machine."""


class Agreement(StrEnum):
    """The result of auditing a record."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_HERE = "not here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A record that was observed again, or the reason why this was impossible."""

    decision: str
    gate: str
    which: str
    key: str
    agreement: Agreement
    why: str


def audit(
    decisions: tuple[Decision, ...],
    kept: Evidence,
    store: Store,
    models: Mapping[str, Path],
    open_runner: OpenRunner,
    count: int,
    chance: random.Random,
) -> Iterator[Audited]:
    """Observe some records again, and yield each result.

    At most `count` records are chosen at random from the records of all decisions. `models` are the models of this
    machine, by SHA-256.

    Raises `UsageError` if no decision names a record.
    """
    places = [
        (decision, step, str(key))
        for decision in decisions
        if decision.format > 1
        for step in decision.evidence.get("steps", ())
        if isinstance(step, Mapping) and "gate" in step
        for key in step.get("observations", ())
    ]
    if not places:
        raise DecisionRefused("no record can be observed again", hint="only decisions of format 2 name their records")
    for decision, step, key in chance.sample(places, min(count, len(places))):
        which, name = str(step["which"]), str(step["gate"])
        with task(f"gate {name} ({which}) of {decision.id[:12]}"):
            try:
                agreement, why = _again(decision, step, key, kept, store, models, open_runner)
            except MissingError as error:
                agreement, why = Agreement.NOT_HERE, error.message
        yield Audited(decision=decision.id, gate=name, which=which, key=key, agreement=agreement, why=why)


def _again(
    decision: Decision,
    step: Mapping[str, Any],
    key: str,
    kept: Evidence,
    store: Store,
    models: Mapping[str, Path],
    open_runner: OpenRunner,
) -> tuple[Agreement, str]:
    findings = Findings()
    with material(decision, kept, findings) as given:
        which, name = str(step["which"]), str(step["gate"])
        asked = step.get("new_of") or (given.suite.name if given is not None and given.suite is not None else "")
        gate = given.gate(str(asked), name) if given is not None else None
        if given is None or gate is None or key not in given.records or which not in given.builds:
            return Agreement.DIFFERS, "; ".join(findings.wrong) or "the decision lacks what the gate needs"
        record = given.records[key]
        stored = store.find(str(given.builds[which]["build"]))
        if stored is None or not stored.record.built:
            raise NoSuchBuild(f"build {str(given.builds[which]['build'])[:12]} is not on this machine")
        invocation = _invocation(record, given, models)
        with open_runner(stored) as runner:
            context = replace(runner.context, kind=str(record.ingredients["kind"]), gpu=gate.gpu)
            there = runner.within(context)
            if missing := [kept_file for kept_file in _kept_files(record) if not there.has(kept_file)]:
                raise NotRecorded(f"the kept file {missing[0]} is missing here: only a full run of the gate writes it")
            seen = there.look(invocation)
        return _compared(given, gate, step, record, seen)


def _compared(
    given: Material, gate: Gate, step: Mapping[str, Any], record: Record, seen: Observation
) -> tuple[Agreement, str]:
    """Derive the gate's verdict from the new observation, and compare it with the verdict from the record."""
    new = replace(record, facts={**record.facts, **_facts(seen)}, blobs=_blobs(seen))
    records = [new if one.key == record.key else one for one in given.records.values()]
    which = str(step["which"])
    before, after = (
        judge_new_gate(gate, replay, which) if "new_of" in step else draw(given, gate, which, replay)
        for replay in (given.replay(which, step), given.replay(which, step, records))
    )
    if (before.verdict, before.actual) == (after.verdict, after.actual):
        return Agreement.AGREES, f"{after.verdict}, {after.actual}"
    return (
        Agreement.DIFFERS,
        f"{after.verdict}, {after.actual or after.reason}; recorded: {before.verdict}, {before.actual}",
    )


def _invocation(record: Record, given: Material, models: Mapping[str, Path]) -> Invocation:
    """Return the invocation of a record. Raises `MissingError` for a model or input that is missing here."""
    parts = record.ingredients
    contents = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in given.root.rglob("*") if path.is_file()}
    inputs, there = {}, []
    for name, digest in parts["inputs"].items():
        if digest not in contents:
            raise NotRecorded(f"the input {name} is not among the files of the suite")
        inputs[name] = contents[digest].read_bytes()
    for name, digest in parts["models"].items():
        if digest not in models:
            raise ModelMissing(f"model {name} with sha256 {digest[:12]} is not on this machine")
        there.append(Model(name=name, path=str(models[digest]), sha256=digest))
    requests: list[Any] = [json.loads(text) for text in parts["requests"]]
    invocation = Invocation(
        what=str(record.facts.get("what", "again")),
        program=parts["program"],
        args=tuple(parts["args"]),
        env=parts["env"],
        models=tuple(there),
        inputs=inputs,
        keeps=tuple(parts["keeps"]),
        brings=tuple(parts["brings"]),
        seconds=3600.0,
    )
    return with_requests(invocation, [Request(path=path, body=body) for path, body in requests])


def _kept_files(record: Record) -> list[str]:
    """Return the kept files that a run reads.

    These are the files that its arguments name, except those that the run itself writes.
    """
    named = [text[len("{kept:") : -1] for text in record.ingredients["args"] if text.startswith("{kept:")]
    return [name for name in named if name not in record.ingredients["keeps"]]


def _facts(seen: Observation) -> dict[str, Any]:
    return {
        "ending": str(seen.ending),
        "code": seen.code,
        "seconds": seen.seconds,
        "overflowed": seen.overflowed,
        "replies": [reply.status for reply in seen.replies],
    }


def _blobs(seen: Observation) -> dict[str, bytes]:
    replies = {f"reply-{number}": reply.body for number, reply in enumerate(seen.replies)}
    files = {f"file:{name}": content for name, content in seen.files.items()}
    return {"stdout": seen.stdout, "stderr": seen.stderr, **replies, **files}


def models_here(workspace_models: Mapping[str, Model]) -> dict[str, Path]:
    """Return the models of a workspace that exist on this machine, by the SHA-256 of their content."""
    found = {}
    for model in workspace_models.values():
        path = Path(model.path)
        try:
            with path.open("rb") as file, task(f"hashing model {model.name}"):
                found[hashlib.file_digest(file, "sha256").hexdigest()] = path
        except OSError:
            continue
    return found
