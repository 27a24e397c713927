"""`patchstack cost ssm`: show how long recurrent heads remember, and which need f32."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.cost.options import (
    BandwidthOption,
    HtmlOption,
    JsonOption,
    MachineOption,
    ModelArgument,
    VaryOption,
    chosen_machine,
    show,
)


def ssm_command(
    model: ModelArgument,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", metavar="T", help="Keep f32 for heads with τ above T tokens. 0 keeps f32 for all heads."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option("--share", metavar="F", help="Keep f32 for at least this share of the heads, from 0 to 1."),
    ] = None,
    all_f32: Annotated[bool, typer.Option("--all-f32", help="The same as --threshold 0.")] = False,
    all_bf16: Annotated[bool, typer.Option("--all-bf16", help="The same as --threshold inf.")] = False,
    streams: Annotated[
        int, typer.Option("--streams", min=1, metavar="N", help="The number of concurrent sequences.")
    ] = 1,
    machine: MachineOption = None,
    bandwidth: BandwidthOption = None,
    vary: VaryOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show how many tokens each recurrent head remembers, and what bf16 saves for heads with short memory.

    τ is the memory length in tokens. It is computed for α = 0, without the part of the gate that depends on the input.
    The result is a proposal. Check the proposal by the KL divergence of the model's output.
    """
    from patchstack.report.cost.answers import state_answer
    from patchstack.workflow.cost import one_threshold, open_subject

    wanted = one_threshold(threshold, share, all_f32=all_f32, all_bf16=all_bf16)
    answer = state_answer(open_subject(model), chosen_machine(machine, bandwidth), wanted, streams, vary)
    show(answer, json=json, html=html)
