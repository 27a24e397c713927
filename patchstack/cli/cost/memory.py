"""`patchstack cost memory`: show what a server allocates, and what fits."""

from __future__ import annotations

from patchstack.cli.cost.options import (
    BuildOption,
    HtmlOption,
    JsonOption,
    MachineOption,
    MemoryOption,
    ModelArgument,
    ServerArgument,
    VaryOption,
    chosen_machine,
    show,
)


def memory_command(
    model: ModelArgument,
    server: ServerArgument = None,
    machine: MachineOption = None,
    memory: MemoryOption = None,
    build: BuildOption = None,
    vary: VaryOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """List a server's allocations by kind, as in llama.cpp at the pin.

    The kinds are weights, KV, recurrent state, output and checkpoints. If the device's memory is given, the largest
    context and the maximum number of slots that fit are also shown. Exits with 3 for an architecture with an unknown
    memory layout.
    """
    from patchstack.report.cost.answers import memory_answer
    from patchstack.workflow.cost import ask_fit_params, open_subject

    subject = open_subject(model, server or ())
    fitted = ask_fit_params(build, subject) if build is not None else ()
    show(memory_answer(subject, chosen_machine(machine, memory=memory), fitted, vary), json=json, html=html)
