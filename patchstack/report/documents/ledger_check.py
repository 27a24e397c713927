"""`patchstack.ledger-check/1`: which decisions of the ledger the repository proves, and the problems found."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.workflow.ledger.check import CheckedDecision, LedgerCheck


class SignatureEntry(Part, frozen=True, kw_only=True):
    """A signature file.

    `counts` is true if an allowed signer made the signature, and `by` is the signer. `problem` is the reason why the
    signature does not count, or null if it counts.
    """

    file: str
    counts: bool
    by: str
    problem: str | None


class DecisionEntry(Part, frozen=True, kw_only=True):
    """A decision.

    `format` is 1 or 2. `counts` is true if the decision is in effect for a patch. `superseded_by` is the id of the
    decision that replaces this decision, or null. `derived` statements follow from the repository. `asserted`
    statements cannot be checked with the repository. `wrong` statements contradict the repository.
    """

    id: str
    outcome: str
    series: str
    format: int
    counts: bool
    superseded_by: str | None
    derived: tuple[str, ...]
    asserted: tuple[str, ...]
    wrong: tuple[str, ...]
    signatures: tuple[SignatureEntry, ...]


class LedgerCheckDocument(Document, frozen=True, kw_only=True, tag="patchstack.ledger-check/1"):
    """A check of the whole ledger.

    `problems` lists problems that do not belong to a single decision. `unnamed` lists the digests of records that no
    decision names. `old_records` is the number of records of format 1. `undecided` lists the patches that no decision
    accepts. `signers` describes the source of the allowed signers. `bytes` is the size of the ledger and the evidence.
    """

    holds: bool
    decisions: tuple[DecisionEntry, ...]
    problems: tuple[str, ...]
    unnamed: tuple[str, ...]
    old_records: int
    undecided: tuple[str, ...]
    signers: str | None
    bytes: int
    notes: tuple[str, ...]


def ledger_check_document(check: LedgerCheck) -> LedgerCheckDocument:
    """Convert a ledger check to its JSON document."""
    return LedgerCheckDocument(
        holds=check.holds,
        decisions=tuple(map(_entry, check.decisions)),
        problems=check.problems,
        unnamed=check.unnamed,
        old_records=check.old_records,
        undecided=check.undecided,
        signers=check.signers,
        bytes=check.bytes,
        notes=check.notes,
    )


def _entry(one: CheckedDecision) -> DecisionEntry:
    return DecisionEntry(
        id=one.decision.id,
        outcome=str(one.decision.outcome),
        series=one.decision.series,
        format=one.decision.format,
        counts=one.counts,
        superseded_by=one.superseded_by,
        derived=tuple(one.findings.derived),
        asserted=tuple(one.findings.asserted),
        wrong=tuple(one.findings.wrong),
        signatures=tuple(
            SignatureEntry(file=sig.path.name, counts=sig.counts, by=sig.by, problem=sig.problem)
            for sig in one.signatures
        ),
    )
