"""`patchstack cost report`: print all results in one report."""

from __future__ import annotations

from patchstack.cli.cost.options import (
    BandwidthOption,
    BuildOption,
    ContextsOption,
    HtmlOption,
    ImatrixOption,
    JsonOption,
    MachineOption,
    MemoryOption,
    ModelArgument,
    ServerArgument,
    StreamsOption,
    VaryOption,
    chosen_machine,
    show,
)


def report_command(
    model: ModelArgument,
    server: ServerArgument = None,
    machine: MachineOption = None,
    bandwidth: BandwidthOption = None,
    memory: MemoryOption = None,
    streams: StreamsOption = "1,8,32,128",
    contexts: ContextsOption = "4096",
    imatrix: ImatrixOption = None,
    build: BuildOption = None,
    vary: VaryOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Print all results in one report, for the options of a server's command line.

    Unknown options are listed. Without a bandwidth, the report has no floors. If the memory layout is unknown, it has
    only the weights.
    """
    from patchstack.report.cost.answers import report_answer
    from patchstack.workflow.cost import ask_fit_params, numbers, open_subject

    subject = open_subject(model, server or (), imatrix)
    fitted = ask_fit_params(build, subject) if build is not None else ()
    chosen = chosen_machine(machine, bandwidth, memory)
    many, lengths = numbers(streams, "--streams"), numbers(contexts, "--contexts")
    answer = report_answer(subject, chosen, many, lengths, fitted, vary)
    show(answer, json=json, html=html)
