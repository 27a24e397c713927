"""Show decisions on a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchstack.evidence.decided import DecidedStep, decided_brings, decided_steps
from patchstack.evidence.ledger import Decision
from patchstack.evidence.origin import Origin
from patchstack.evidence.resemblance import Likeness
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import printable

_STYLES = {"accepted": "green", "rejected": "red"}


def print_decisions(decisions: Iterable[Decision]) -> None:
    """Print a table with a row for each decision.

    The row also shows whether switches were accepted without a gate.
    """
    rows = [
        [
            one.id[:12],
            one.made[:10],
            f"{one.outcome}, switch unproven" if any(_switches(one)) else str(one.outcome),
            one.series,
            one.candidates[-1].subject if one.candidates else "",
            one.why.splitlines()[0] if one.why else "",
        ]
        for one in decisions
    ]
    titles = ("id", "made", "decision", "series", "subject", "why")
    gives = {"subject": Give.FOLD, "why": Give.SPARE}
    print_table(Table(titles=titles, rows=rows, styles=_STYLES, gives=gives))


def decision_lines(decision: Decision, *, diff: bool) -> Iterator[str]:
    """Yield the lines that show one decision. If `diff` is true, the diffs of its commits come last."""
    yield f"{decision.outcome} {decision.id}"
    yield f"  series  {decision.series}"
    yield f"  made    {decision.made}"
    if decision.format == 1:
        yield "  format  1: outputs not kept, not re-derivable"
    if decision.supersedes:
        yield f"  instead of {', '.join(one[:12] for one in decision.supersedes)}"
    if decision.tags:
        yield f"  tags    {', '.join(decision.tags)}"
    for line in printable(decision.why).splitlines():
        yield f"  why     {line}"
    for one in decision.candidates:
        yield printable(f"  commit  {one.commit[:12]} {one.subject}")
        yield printable(f"          {', '.join(one.files)}")
    yield from map(printable, _switches(decision))
    for step in decided_steps(decision.evidence):
        yield printable(f"  {step.verdict:<7} {step.name}: {step.detail}{_source(step)}")
    if diff:
        for one in decision.candidates:
            yield ""
            yield from printable(one.diff).splitlines()


def _source(step: DecidedStep) -> str:
    """Return where the observations of a step came from when the decision was made."""
    if step.source is None:
        return ""
    return f"; {step.source.words}" if step.source.origin is not Origin.OBSERVED else "; observed for this decision"


def _switches(decision: Decision) -> Iterator[str]:
    """Yield the switches that were accepted without a gate, each with its reason."""
    brings = decided_brings(decision.evidence)
    for one in brings.unproven if brings is not None else ():
        reason = " ".join(brings.reason.split()) if brings is not None else ""
        yield f"  switch  {', '.join(one.switches)} of {one.commit[:12]} is unproven, no gate shows it: {reason}"


def likeness_line(likeness: Likeness) -> str:
    """Return a warning that a candidate resembles a candidate that was rejected earlier."""
    decision = likeness.decision
    subject = decision.candidates[-1].subject if decision.candidates else ""
    return (
        f"warning: {100 * likeness.share:.0f}% like {decision.id[:12]}, rejected on {decision.made[:10]}"
        f" ({subject}): {decision.why.splitlines()[0]}; {likeness.why}"
    )
