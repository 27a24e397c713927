"""`patchstack trace compare`: compare two logs of the same workload."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.failures import complain, talk
from patchstack.cli.trace.options import AllOption, standard_input
from patchstack.verdict import exit_code


def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A log, a directory of logs, or - for standard input.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The log of another build, or of a run with a switch on.")],
    everything: AllOption = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Compare even if the workloads differ.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.trace-comparison/1 document.")] = False,
) -> None:
    """Compare two logs of the same workload.

    Shows calls and work by route, type and shape, and the rows that were added or removed. Logs of different workloads
    are refused. Exits with 4 if the numbers in a log contradict each other.
    """
    from patchstack.report.documents.trace import comparison_document
    from patchstack.report.trace import contradiction_lines, print_comparison
    from patchstack.trace.compare import compare, require_same_workload
    from patchstack.trace.traced import overall, read_two

    one, other = read_two(first, second, standard_input())
    comparison = compare(one.reading, other.reading)
    if not anyway:
        require_same_workload(comparison, (one.name, other.name))
    verdicts = (*one.verdicts, *other.verdicts, comparison.workload_verdict)
    if json:
        print(comparison_document(comparison, one, other, overall(verdicts)).line)
    else:
        print_comparison(comparison, one, other, everything=everything)
    for name, side in (("A", one), ("B", other)):
        for line in contradiction_lines(side):
            (complain if line.startswith("warning") else talk)(f"{line} ({name})")
    raise typer.Exit(int(exit_code(verdicts)))
