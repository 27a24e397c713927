"""`patchstack trace`: what a log of llama.cpp says, counted."""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

COMMANDS = {
    "read": Lazy("patchstack.cli.trace.read:read_command", "Count what a log holds."),
    "check": Lazy("patchstack.cli.trace.check:check_command", "Do the figures of a log add up?"),
    "compare": Lazy("patchstack.cli.trace.compare:compare_command", "Two logs of the same workload, side by side."),
}
trace_app = typer.Typer(
    cls=group_of(COMMANDS), no_args_is_help=True, help="What a log of llama.cpp says, counted.", **STYLE
)


@trace_app.callback()
def root() -> None:
    """Read the traces and figures in logs of llama.cpp: count them, check them, compare them."""
