"""`patchstack reject` and `patchstack ledger`: what was decided, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.canonical import one_line
from patchstack.cli.complete import complete_decision, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import OfflineOption, WorkspaceOption, one_series, open_cache, the_workspace
from patchstack.errors import UsageError
from patchstack.report.streams import terminal

if TYPE_CHECKING:
    from patchstack.evidence.ledger import Decision

RefArgument = Annotated[str, typer.Argument(metavar="REF", help="A commit of the fork, or a range A..B.")]
SeriesOption = Annotated[
    str | None,
    typer.Option(
        "--series", metavar="NAME", autocompletion=complete_series, help="The series [default: the only one]."
    ),
]


def reject_command(
    ref: RefArgument,
    why: Annotated[str, typer.Option(metavar="TEXT", help="What was seen that speaks against it.")],
    tag: Annotated[list[str] | None, typer.Option(metavar="WORD", help="A word to find it by. Repeatable.")] = None,
    series: SeriesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the decision.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Reject a candidate: diff and reason go into the ledger. The fork is not touched."""
    from patchstack.evidence.ledger import Ledger
    from patchstack.report.ledger import decision_document
    from patchstack.workflow.candidate.candidate import ledger_directory, open_candidates
    from patchstack.workflow.candidate.reject import reject

    found = the_workspace(workspace)
    way = open_candidates(one_series(found, [series] if series else ()), open_cache(offline=offline), ref)
    decision, path = reject(way, Ledger(ledger_directory(found.root)), why=why, tags=tuple(tag or ()))
    if json:
        print(one_line(decision_document(decision)))
    else:
        print(f"rejected {', '.join(one.commit[:12] for one in decision.candidates)}: {path}")
    talk(f"next: drop it from the fork, and commit {path}")


def ledger_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Words that must all occur.")] = None,
    show: Annotated[
        str | None, typer.Option(metavar="ID", autocompletion=complete_decision, help="All of one decision.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="With --show: its diff as well.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print decisions, one document a line.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """What was accepted and rejected, and why; with words, those that are about them."""
    from patchstack.evidence.ledger import Ledger
    from patchstack.report.ledger import decision_document, print_decisions
    from patchstack.workflow.candidate.candidate import ledger_directory

    ledger = Ledger(ledger_directory(the_workspace(workspace).root))
    if show is not None:
        if words:
            raise UsageError("--show is one decision: leave out the words")
        _show(ledger.named(show), diff=diff, json=json)
        return
    if diff:
        raise UsageError("--diff without --show", hint="--show ID names the decision")
    found = [one for one in ledger.read() if one.says(words or ())]
    if json:
        for one in found:
            print(one_line(decision_document(one)))
    elif found:
        print_decisions(found)
        if terminal(sys.stdout):
            talk("hint: 'patchstack ledger --show ID' prints the whole reason of a decision")
    else:
        talk("no decisions yet" if not words else f"no decision is about {' '.join(words)}")


def _show(decision: Decision, *, diff: bool, json: bool) -> None:
    """All of one decision."""
    from patchstack.report.ledger import decision_document, decision_lines

    if json:
        print(one_line(decision_document(decision)))
        return
    for line in decision_lines(decision, diff=diff):
        print(line)
