"""`patchstack.accept/1`: the result of accepting candidates."""

from __future__ import annotations

from typing import Any

from patchstack.document import Document, Part
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.acceptance import Accepted


class StepEntry(Part, frozen=True, kw_only=True):
    """A requirement and its result. `evidence` is the basis of the result."""

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any]


class AcceptDocument(Document, frozen=True, kw_only=True, tag="patchstack.accept/1"):
    """The result of accepting candidates.

    `commits` contains full commit ids. `decision` is the id of the decision, or null if the candidates were not
    accepted.
    """

    series: str
    commits: tuple[str, ...]
    accepted: bool
    decision: str | None
    steps: tuple[StepEntry, ...]


def accept_document(done: Accepted) -> AcceptDocument:
    """Convert an acceptance to its JSON document."""
    return AcceptDocument(
        series=done.series,
        commits=done.commits,
        accepted=done.decision is not None,
        decision=done.decision.id if done.decision is not None else None,
        steps=tuple(
            StepEntry(name=one.name, verdict=one.verdict, detail=one.detail, evidence=one.evidence)
            for one in done.steps
        ),
    )
