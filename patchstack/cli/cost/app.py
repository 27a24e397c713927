"""Define the group `patchstack cost` and its commands."""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

_WHERE = "patchstack.cli.cost"
COMMANDS = {
    "report": Lazy(f"{_WHERE}.report:report_command", "Print all results for a model and a server's command line."),
    "weights": Lazy(
        f"{_WHERE}.weights:weights_command", "Show the bytes of each tensor group, in the file and in a step."
    ),
    "decode": Lazy(f"{_WHERE}.floors:decode_command", "Show the minimum time of a decode step."),
    "prefill": Lazy(f"{_WHERE}.floors:prefill_command", "Show the minimum time of a prompt, ubatch by ubatch."),
    "memory": Lazy(f"{_WHERE}.memory:memory_command", "Show what a server allocates, and what fits."),
    "prefix": Lazy(
        f"{_WHERE}.prefix:prefix_command", "Show what an agent's steps reuse, and the cost of alternatives."
    ),
    "ssm": Lazy(f"{_WHERE}.ssm:ssm_command", "Show how long recurrent heads remember, and which need f32."),
    "compare": Lazy(f"{_WHERE}.compare:compare_command", "Compare measured times with their floors."),
    "shape": Lazy(f"{_WHERE}.shape:shape_command", "Write a copy of a model without its weights."),
    "machines": Lazy(f"{_WHERE}.machines:machines_command", "List the machines that patchstack includes."),
}

cost_app = typer.Typer(
    name="cost",
    cls=group_of(COMMANDS),
    help="Show the minimum cost of a model from its header: bytes, floors, memory and reuse.",
    no_args_is_help=True,
    **STYLE,
)


@cost_app.callback()
def cost() -> None:
    """Show the minimum cost of a model from its header: bytes, floors, memory and reuse.

    The weights are not read, and no GPU is needed.
    """
