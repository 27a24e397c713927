"""`patchstack trace check`: check that the numbers in a log add up."""

from __future__ import annotations

import typer

from patchstack.cli.trace.options import AllOption, JsonOption, LogsArgument, standard_input
from patchstack.verdict import exit_code


def check_command(logs: LogsArgument, everything: AllOption = False, json: JsonOption = False) -> None:
    """Check that the numbers in a log agree.

    Compares sums with totals, counters with histograms, and lines with the summary. Prints both sides of each
    contradiction. Exits with 0 if all numbers agree, 1 for a contradiction, and 4 if the log is not sufficient.
    """
    from patchstack.report.documents.trace import trace_document
    from patchstack.report.trace import print_checks
    from patchstack.trace.traced import read_traced

    traced = read_traced(logs, standard_input())
    if json:
        print(trace_document(traced, traced.checks_verdict).line)
    else:
        print_checks(traced, everything=everything)
    raise typer.Exit(int(exit_code(traced.checked)))
