"""Reject a candidate: write its diff, the reason and the recorded evidence to the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchstack.causes import DecisionRefused, ReasonMissing
from patchstack.evidence.ledger import Decision, Ledger, Outcome, time_of_decision
from patchstack.workflow.candidate.candidate import CandidateRange, described
from patchstack.workflow.candidate.pending import recall


def reject(way: CandidateRange, ledger: Ledger, *, why: str, tags: Sequence[str] = ()) -> tuple[Decision, Path]:
    """Write the rejection of the new commits, with the last evidence of `accept`.

    Return the decision and its file. The fork is not changed.

    Raises `UsageError` if there is no reason, or if any of the commits was accepted.
    """
    if not why.strip():
        raise ReasonMissing("a rejection needs a reason", hint='add --why "what you saw, and where"')
    ids = {commit.oid for commit in way.new}
    for known in ledger.read():
        if known.outcome is Outcome.ACCEPTED and ids & {one.commit for one in known.candidates}:
            raise DecisionRefused(
                f"{way.head.oid[:12]} cannot be rejected: decision {known.id[:12]} accepted it",
                hint="drop it from the fork",
            )
    decision = Decision(
        outcome=Outcome.REJECTED,
        series=way.config.name,
        made=time_of_decision(),
        why=why.strip(),
        candidates=described(way),
        tags=tuple(tags),
        evidence=recall(ledger.directory.parent, way),
    )
    return decision, ledger.write(decision)
