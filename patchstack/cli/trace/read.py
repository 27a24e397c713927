"""`patchstack trace read`: count the records of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.trace.options import AllOption, DecodeOption, JsonOption, LogsArgument, standard_input
from patchstack.verdict import exit_code


def read_command(
    logs: LogsArgument,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="An expectation for the counts, such as 'route=mmq type=nvfp4 >= 1000'. Repeatable."
        ),
    ] = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Write SVG plots into this directory.")] = None,
    everything: AllOption = False,
    decode_tokens: DecodeOption = 128,
    json: JsonOption = False,
) -> None:
    """Count the records of logs by route, type, shape and tensor, in calls and work.

    The logs are read in one pass. Exits with 4 if numbers contradict each other. With --expect, exits with 1 if an
    expectation does not hold, and with 4 if one cannot be judged.
    """
    from patchstack.llama.traces.expectations import read_expectation
    from patchstack.report.documents.trace import trace_document
    from patchstack.report.trace import contradiction_lines, print_traced
    from patchstack.report.trace_plots import prepare, write_plots
    from patchstack.trace.traced import read_traced

    wanted = [read_expectation(text) for text in expect or ()]
    if plots is not None:
        prepare(plots)
    traced = read_traced(logs, standard_input(), expectations=wanted, decode_tokens=decode_tokens)
    if json:
        print(trace_document(traced, traced.verdict).line)
    else:
        print_traced(traced, everything=everything)
    for line in contradiction_lines(traced):
        talk(line)
    for path in write_plots(traced, plots) if plots is not None else ():
        talk(f"wrote {path}")
    raise typer.Exit(int(exit_code(traced.verdicts)))
