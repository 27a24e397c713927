"""`patchstack cost memory`."""

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
    """List a server's allocations by kind, as in llama.cpp at the pin: weights, KV, recurrent state, output,
    checkpoints.

    With the device's memory, also the largest context and the most slots that fit. Exits with 3 for an architecture
    with an unknown memory layout.
    """
    from patchstack.report.cost.answers import memory_answer
    from patchstack.workflow.cost import ask_fit_params, open_subject

    subject = open_subject(model, server or ())
    fitted = ask_fit_params(build, subject) if build is not None else ()
    show(memory_answer(subject, chosen_machine(machine, memory=memory), fitted, vary), json=json, html=html)
