"""Results of gates as an in-toto test result."""

from __future__ import annotations

from typing import Any

from patchstack.report.documents.gates import GatesDocument, gate_predicate
from tests.unit.report.documents.test_read import GATES, the_report


def predicate(document: dict[str, Any]) -> dict[str, Any]:
    """Return the predicate of a document after it was read."""
    found = the_report(document)
    assert isinstance(found, GatesDocument)
    return gate_predicate(found)


def test_only_all_passes_are_passed() -> None:
    assert predicate(GATES)["result"] == "WARNED"
    passing = [gate for gate in GATES["gates"] if gate["verdict"] == "PASS"]
    assert predicate({**GATES, "gates": passing})["result"] == "PASSED"
    failing = [*passing, {**passing[0], "verdict": "FAIL", "name": "ops"}]
    found = predicate({**GATES, "gates": failing})
    assert (found["result"], found["failedTests"], found["passedTests"]) == ("FAILED", ["quick/ops"], ["quick/greedy"])
    assert predicate({**GATES, "gates": []})["result"] == "FAILED", "without gates nothing passes"
