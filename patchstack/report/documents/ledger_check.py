"""`patchstack.ledger-check/1`: the check of the ledger: what the repository proves about its decisions, and what is
wrong."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.workflow.ledger.check import CheckedDecision, LedgerCheck


class SignatureEntry(Part, frozen=True, kw_only=True):
    """A signature file: whether an allowed signer made it, the signer, and why it does not count (null if it does)."""

    file: str
    counts: bool
    by: str
    problem: str | None


class DecisionEntry(Part, frozen=True, kw_only=True):
    """A decision. `format` is 1 or 2; `counts` is whether it is the effective decision for a patch; `superseded_by` is
    an id. `derived` statements follow from the repository, `asserted` ones cannot be checked with it, `wrong` ones
    contradict it."""

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
    """A check of the whole ledger. `problems` are those of no single decision; `unnamed` are the digests of records
    that no decision names, `old_records` counts those of format 1, `undecided` are patches without a decision that
    accepts them. `signers` is the list of allowed signers that was used; `bytes` is the size of ledger and evidence."""

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
    """Return the document of a check."""
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
