"""Print the result of a check or an audit of the ledger."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from patchstack.report.streams import paint_words
from patchstack.report.text import counted, printable
from patchstack.workflow.ledger.audit import Agreement, Audited
from patchstack.workflow.ledger.check import CheckedDecision, LedgerCheck


def print_check(check: LedgerCheck, *, details: bool) -> None:
    """Print every decision with its findings.

    If `details` is false, print the numbers of derived and asserted statements instead of the statements. The asserted
    statements of a decision of format 1 are always printed.
    """
    for one in check.decisions:
        for line in _lines(one, details=details):
            print(paint_words(printable(line), sys.stdout))
    for line in _rest(check):
        print(paint_words(printable(line), sys.stdout))


def closing_line(check: LedgerCheck) -> str:
    """Return the last line, which states whether the ledger holds, and the numbers of decisions and statements."""
    found = [one.findings for one in check.decisions]
    derived, asserted = (sum(len(getattr(one, name)) for one in found) for name in ("derived", "asserted"))
    wrong = sum(len(one.wrong) for one in found) + len(check.problems)
    told = f"{derived} re-derived, {asserted} only asserted, {wrong} wrong"
    counting = sum(one.counts for one in check.decisions)
    what = f"ledger: {counted(len(check.decisions), 'decision')}, {counting} of patches"
    return f"{'FAIL' if not check.holds else 'PASS'}  {what}: {told}; {check.bytes / 1e6:.1f} MB"


def _lines(one: CheckedDecision, *, details: bool) -> Iterator[str]:
    decision, found = one.decision, one.findings
    subject = decision.candidates[-1].subject if decision.candidates else ""
    verdict = "FAIL" if found.wrong else "PASS" if decision.format > 1 else "-"
    yield f"{verdict:<4}  {decision.id[:12]}  {decision.outcome}  {subject}"
    if one.superseded_by is not None:
        yield f"      superseded by {one.superseded_by[:12]}"
    for text in found.wrong:
        yield f"      wrong       {text}"
    if details:
        for text in found.derived:
            yield f"      re-derived  {text}"
    elif decision.format > 1:
        yield f"      re-derived  {counted(len(found.derived), 'fact')}"
    for text in found.asserted if details or decision.format == 1 else ():
        yield f"      asserted    {text}"
    if not details and decision.format > 1 and found.asserted:
        yield f"      asserted    {counted(len(found.asserted), 'fact')}"
    for signature in one.signatures:
        state = f"signed by {signature.by}" if signature.counts else f"{signature.path.name}: {signature.problem}"
        yield f"      signature   {state}"


def _rest(check: LedgerCheck) -> Iterator[str]:
    for text in check.problems:
        yield f"FAIL  {text}"
    if check.unnamed:
        first = ", ".join(digest[:12] for digest in check.unnamed[:5])
        more = ", …" if len(check.unnamed) > 5 else ""
        yield f"note: {counted(len(check.unnamed), 'record')} that no decision names: {first}{more}"
    if check.old_records:
        yield f"note: {counted(check.old_records, 'record')} of format 1: outputs not kept, not re-derivable"
    for name in check.undecided:
        yield f"note: patch {name} has no decision that accepts it"
    for text in check.notes:
        yield f"note: {text}"
    yield closing_line(check)


def audit_line(one: Audited) -> str:
    """Return the line that compares a record with its repeated observation."""
    return printable(f"{one.agreement:<8}  {one.decision[:12]}  gate {one.gate} ({one.which}): {one.why}")


def audit_summary(found: Sequence[Audited]) -> str:
    """Return the last line of an audit."""
    counts = ", ".join(f"{sum(one.agreement is kind for one in found)} {kind}" for kind in Agreement)
    return f"audit: {counted(len(found), 'record')}: {counts}"
