"""`patchstack cost decode` and `patchstack cost prefill`: show the minimum times of steps."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.cost.options import (
    BandwidthOption,
    ContextsOption,
    HtmlOption,
    ImatrixOption,
    JsonOption,
    MachineOption,
    ModelArgument,
    ServerArgument,
    StreamsOption,
    VaryOption,
    chosen_machine,
    show,
)


def decode_command(
    model: ModelArgument,
    server: ServerArgument = None,
    machine: MachineOption = None,
    bandwidth: BandwidthOption = None,
    streams: StreamsOption = "1,8,32,128",
    contexts: ContextsOption = "0,4096",
    vary: VaryOption = None,
    imatrix: ImatrixOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show the floor of a decode step: the bytes that must be read and written, divided by the bandwidth.

    With --vary, also show how much the floor depends on each input, for the first value of --streams and of --contexts.
    """
    from patchstack.report.cost.answers import decode_answer
    from patchstack.workflow.cost import numbers, open_subject

    subject = open_subject(model, server or (), imatrix)
    chosen = chosen_machine(machine, bandwidth)
    answer = decode_answer(subject, chosen, numbers(streams, "--streams"), numbers(contexts, "--contexts"), vary)
    show(answer, json=json, html=html)


def prefill_command(
    model: ModelArgument,
    server: ServerArgument = None,
    machine: MachineOption = None,
    bandwidth: BandwidthOption = None,
    prompt: Annotated[
        int, typer.Option("--prompt", min=1, max=1 << 24, metavar="N", help="The number of tokens in the prompt.")
    ] = 2048,
    before: Annotated[
        int,
        typer.Option(
            "--before", min=0, max=1 << 24, metavar="N", help="The number of cached tokens before the prompt."
        ),
    ] = 0,
    vary: VaryOption = None,
    imatrix: ImatrixOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show the floor of each ubatch of a prompt: the larger of bytes / bandwidth and operations / peak.

    The floor is unknown if the machine has no peak for a type of weights.
    """
    from patchstack.report.cost.answers import prefill_answer
    from patchstack.workflow.cost import open_subject

    subject = open_subject(model, server or (), imatrix)
    answer = prefill_answer(subject, chosen_machine(machine, bandwidth), prompt, before, vary)
    show(answer, json=json, html=html)
