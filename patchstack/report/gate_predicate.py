"""What gates said, as the predicate of an attestation: in-toto test result."""

from __future__ import annotations

from typing import Any

from patchstack.report.documents.gates import GatesDocument

PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"


def gate_predicate(document: GatesDocument) -> dict[str, Any]:
    """The predicate of a `patchstack.gates/1` document. `result` is PASSED only where every gate is PASS and there is
    one: a gate that is INVALID was not passed, and is listed as a warning."""
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
