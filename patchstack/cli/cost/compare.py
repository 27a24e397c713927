"""`patchstack cost compare`: compare measured times with their floors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.cost.options import (
    BandwidthOption,
    HtmlOption,
    ImatrixOption,
    JsonOption,
    MachineOption,
    ModelArgument,
    chosen_machine,
    show,
)


def compare_command(
    model: ModelArgument,
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN...]", help="A file with measured rows.")] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part", metavar="GROUP=TIME@STREAMS", help="The time of one tensor group in a step: experts=43.5ms@128."
        ),
    ] = None,
    machine: MachineOption = None,
    bandwidth: BandwidthOption = None,
    imatrix: ImatrixOption = None,
    options: Annotated[
        str, typer.Option("--options", metavar="TEXT", help="The options of the measured run: '-ctk q8_0 -ub 1024'.")
    ] = "",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Compare measured times with their floors.

    The input can be rows of llama-batched-bench (--output-format jsonl), documents of 'patchstack bench ab' and 'bench
    serve' (--json), or times of single tensor groups. A row is INVALID if its time is below its floor (above 100%).
    Such a row names the wrong assumption and the bound that follows from the time, and the exit status is 4.
    """
    import shlex

    from patchstack.report.cost.answers import compare_answer
    from patchstack.workflow.cost import open_subject

    words = shlex.split(options)
    subject = open_subject(model, ["llama-batched-bench", *words], imatrix)
    answer, code = compare_answer(subject, chosen_machine(machine, bandwidth), runs or (), part or (), words)
    show(answer, json=json, html=html)
    raise typer.Exit(int(code))
