"""`patchstack trace check`: check that the figures of a log add up."""

from __future__ import annotations

import typer

from patchstack.cli.trace.options import AllOption, JsonOption, LogsArgument, standard_input
from patchstack.verdict import exit_code


def check_command(logs: LogsArgument, everything: AllOption = False, json: JsonOption = False) -> None:
    """Compare sums with totals, counters against histograms, and lines against the summary. Contradictions are printed
    with both sides. Exits with 0 if all agree, 1 for a contradiction, 4 if the log is not sufficient."""
    from patchstack.report.documents.trace import trace_document
    from patchstack.report.trace import print_checks
    from patchstack.trace.traced import read_traced

    traced = read_traced(logs, standard_input())
    if json:
        print(trace_document(traced, traced.checks_verdict).line)
    else:
        print_checks(traced, everything=everything)
    raise typer.Exit(int(exit_code(traced.checked)))
