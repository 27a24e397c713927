"""`patchstack.gate/1` and `patchstack.gates/1`: the results of one gate and of a suite.

This module also creates the predicate of an attestation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from patchstack.causes import NotReadable, SuiteDamaged
from patchstack.document import Document, Part
from patchstack.evidence.origin import Origin, Source
from patchstack.gates.judgement import Judgement
from patchstack.observe.protocol import Attempt
from patchstack.report.gate import Checked, source_counts
from patchstack.verdict import Verdict


class AttemptEntry(Part, frozen=True, kw_only=True):
    """One run of a program.

    `what` is the purpose of the run. `key` is the key of its observation. `code` is the exit code, and `seconds` is the
    wall time. `source` is the origin of the observation: `observed` now, `recalled` from this machine's cache, or
    `recorded` in evidence/. `made` is the time of the observation; it is empty for a new observation. `decision` is the
    decision that names the observation. `complaint` is the reason why the run could not be judged, or null if it was
    judged.
    """

    what: str
    key: str
    code: int
    seconds: float
    complaint: str | None
    recalled: bool = False
    source: Origin = Origin.OBSERVED
    made: str = ""
    decision: str = ""


class GateEntry(Part, frozen=True, kw_only=True):
    """The judgement of one gate of a suite."""

    suite: str
    name: str
    schema: str
    kind: str
    verdict: Verdict
    reason: str
    actual: str
    expected: str
    details: dict[str, Any]
    attempts: tuple[AttemptEntry, ...]


class GateDocument(Document, frozen=True, kw_only=True, tag="patchstack.gate/1"):
    """The judgement of one gate. `details` contains figures that depend on the kind of the gate."""

    kind: str
    verdict: Verdict
    reason: str
    actual: str
    expected: str
    details: dict[str, Any]
    attempts: tuple[AttemptEntry, ...]


class GatesDocument(Document, frozen=True, kw_only=True, tag="patchstack.gates/1"):
    """The judgements of a suite.

    `verdicts` is the number of gates with each verdict. `sources` is the number of gates for each origin of
    observations. `build` is the key of the build, or null if the programs belong to no series.
    """

    suite: str
    programs: str
    verdicts: dict[str, int]
    gates: tuple[GateEntry, ...]
    sources: dict[str, int] = msgspec.field(default_factory=dict)
    build: str | None = None


def gate_document(kind: str, judgement: Judgement) -> GateDocument:
    """Convert the judgement of a gate to its JSON document."""
    return GateDocument(
        kind=kind,
        verdict=judgement.verdict,
        reason=judgement.reason,
        actual=judgement.actual,
        expected=judgement.expected,
        details=dict(judgement.details),
        attempts=tuple(map(_attempt, judgement.attempts)),
    )


def gates_document(checks: Sequence[Checked], *, suite: str, programs: str, build: str | None = None) -> GatesDocument:
    """Convert the results of a suite to their JSON document.

    The document contains the name and the document of every gate.
    """
    return GatesDocument(
        suite=suite,
        programs=programs,
        verdicts={str(verdict): sum(one.judgement.verdict is verdict for one in checks) for verdict in Verdict},
        gates=tuple(map(_entry, checks)),
        sources={str(origin): count for origin, count in source_counts(checks).items()},
        build=build,
    )


def read_gates_document(path: Path) -> GatesDocument:
    """Read a `patchstack.gates/1` document from a file.

    Raises `ConfigError` if the file is not such a document, and `MissingError` if the file cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=GatesDocument)
    except OSError as error:
        raise NotReadable(
            f"{path} cannot be read: {error.strerror}", hint="run 'patchstack gate run --report DIR' to write it"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SuiteDamaged(f"{path} is damaged: {error}") from error


def checks_of(document: GatesDocument) -> tuple[Checked, ...]:
    """Return the gates of a document with their judgements."""
    return tuple(
        Checked(
            phase=one.suite,
            check=one.name,
            kind=one.kind,
            judgement=Judgement(
                verdict=one.verdict,
                reason=one.reason,
                actual=one.actual,
                expected=one.expected,
                details=one.details,
                attempts=tuple(map(_tried, one.attempts)),
            ),
        )
        for one in document.gates
    )


def _attempt(one: Attempt) -> AttemptEntry:
    return AttemptEntry(
        what=one.what,
        key=one.key,
        code=one.code,
        seconds=round(one.seconds, 3),
        complaint=one.complaint,
        recalled=one.recalled,
        source=one.source.origin,
        made=one.source.made,
        decision=one.source.decision,
    )


def _tried(one: AttemptEntry) -> Attempt:
    # Documents of older versions have `recalled` but no `source`.
    origin = Origin.RECALLED if one.recalled and one.source is Origin.OBSERVED else one.source
    return Attempt(
        what=one.what,
        key=one.key,
        code=one.code,
        seconds=one.seconds,
        complaint=one.complaint,
        source=Source(origin=origin, made=one.made, decision=one.decision),
    )


def _entry(one: Checked) -> GateEntry:
    document = gate_document(one.kind, one.judgement)
    return GateEntry(suite=one.phase, name=one.check, schema=GateDocument.schema(), **msgspec.structs.asdict(document))


PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"


def gate_predicate(document: GatesDocument) -> dict[str, Any]:
    """Return the attestation predicate for a `patchstack.gates/1` document.

    `result` is PASSED if all gates are PASS. It is FAILED if a gate is FAIL, or if there are no gates. Otherwise it is
    WARNED. Gates that are INVALID are listed as warnings.
    """
    names: dict[str, list[str]] = {"PASS": [], "INVALID": [], "FAIL": []}
    for gate in document.gates:
        names[gate.verdict].append(f"{gate.suite}/{gate.name}")
    passed = names["PASS"] and not names["FAIL"] and not names["INVALID"]
    return {
        "result": "PASSED" if passed else "FAILED" if names["FAIL"] or not document.gates else "WARNED",
        "configuration": [{"name": document.suite, "annotations": {"programs": document.programs}}],
        "passedTests": names["PASS"],
        "warnedTests": names["INVALID"],
        "failedTests": names["FAIL"],
    }
