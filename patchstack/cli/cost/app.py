"""The group `patchstack cost`."""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

_WHERE = "patchstack.cli.cost"
COMMANDS = {
    "report": Lazy(f"{_WHERE}.report:report_command", "All of it for a model and a server's command line."),
    "weights": Lazy(f"{_WHERE}.weights:weights_command", "Bytes by group of tensors, in the file and in a step."),
    "decode": Lazy(f"{_WHERE}.floors:decode_command", "The least time of a decode step."),
    "prefill": Lazy(f"{_WHERE}.floors:prefill_command", "The least time of a prompt, ubatch by ubatch."),
    "memory": Lazy(f"{_WHERE}.memory:memory_command", "What a server allocates, and what fits."),
    "prefix": Lazy(f"{_WHERE}.prefix:prefix_command", "What an agent's steps reuse, and the cost of alternatives."),
    "ssm": Lazy(f"{_WHERE}.ssm:ssm_command", "How long recurrent heads remember, and which need f32."),
    "compare": Lazy(f"{_WHERE}.compare:compare_command", "Compare measured times with their floors."),
    "shape": Lazy(f"{_WHERE}.shape:shape_command", "A model's header with a hole for the weights."),
    "machines": Lazy(f"{_WHERE}.machines:machines_command", "The machines that patchstack knows."),
}

cost_app = typer.Typer(
    name="cost",
    cls=group_of(COMMANDS),
    help="The least cost of a model, from its header: bytes, floors, memory and reuse.",
    no_args_is_help=True,
    **STYLE,
)


@cost_app.callback()
def cost() -> None:
    """Show the least cost of a model, from its header: bytes, floors, memory and reuse. Reads no weights, needs no
    GPU."""
