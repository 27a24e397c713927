"""`patchstack.decision/2`: a decision of the ledger, as `reject` and `ledger` print it.

This module also defines the document of format 1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from patchstack.document import Document, Part
from patchstack.evidence.decided import DecidedBrings, decided_brings
from patchstack.evidence.ledger import Candidate, Decision


class CandidateEntry(Part, frozen=True, kw_only=True):
    """A fork commit of a decision.

    `patch_id` is its patch-id. `files` lists the files that it changes. `diff` is its diff without context.
    """

    commit: str
    tree: str
    subject: str
    patch_id: str
    files: tuple[str, ...]
    symbols: tuple[str, ...]
    diff: str


class OldDecisionDocument(Document, frozen=True, kw_only=True, tag="patchstack.decision/1"):
    """A decision of format 1. The ledger does not contain the outputs of its observations."""

    id: str
    outcome: str
    series: str
    made: str
    why: str
    candidates: tuple[CandidateEntry, ...]
    tags: tuple[str, ...]
    evidence: dict[str, Any]


class UnprovenSwitchEntry(Part, frozen=True, kw_only=True):
    """Switches of a commit that were accepted without a gate, and the reason."""

    commit: str
    switches: tuple[str, ...]
    reason: str


class DecisionDocument(OldDecisionDocument, frozen=True, kw_only=True, tag="patchstack.decision/2"):
    """A decision.

    `evidence` is the basis of its verdicts. `supersedes` contains the ids of earlier decisions on the same commits,
    which this decision replaces. `switches_unproven` lists the switches that were accepted without a gate.
    """

    supersedes: tuple[str, ...]
    switches_unproven: tuple[UnprovenSwitchEntry, ...] = ()


def decision_document(decision: Decision) -> DecisionDocument | OldDecisionDocument:
    """Convert a decision to its JSON document, in the format of the decision."""
    old = OldDecisionDocument(
        id=decision.id,
        outcome=str(decision.outcome),
        series=decision.series,
        made=decision.made,
        why=decision.why,
        candidates=tuple(map(_candidate, decision.candidates)),
        tags=decision.tags,
        evidence=dict(decision.evidence),
    )
    if decision.format == 1:
        return old
    brings = decided_brings(decision.evidence) or DecidedBrings()
    return DecisionDocument(
        supersedes=decision.supersedes,
        switches_unproven=tuple(
            UnprovenSwitchEntry(commit=one.commit, switches=one.switches, reason=brings.reason)
            for one in brings.unproven
        ),
        **msgspec.structs.asdict(old),
    )


def _candidate(one: Candidate) -> CandidateEntry:
    return CandidateEntry(
        commit=one.commit,
        tree=one.tree,
        subject=one.subject,
        patch_id=one.patch_id,
        files=tuple(one.files),
        symbols=tuple(one.symbols),
        diff=one.diff,
    )
