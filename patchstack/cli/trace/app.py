"""`patchstack trace`: count the traces in a log of llama.cpp."""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

COMMANDS = {
    "read": Lazy("patchstack.cli.trace.read:read_command", "Count the records of a log."),
    "check": Lazy("patchstack.cli.trace.check:check_command", "Check that the numbers in a log add up."),
    "compare": Lazy("patchstack.cli.trace.compare:compare_command", "Compare two logs of the same workload."),
}
trace_app = typer.Typer(
    cls=group_of(COMMANDS), no_args_is_help=True, help="Count the traces in a log of llama.cpp.", **STYLE
)


@trace_app.callback()
def root() -> None:
    """Count, check and compare the traces in logs of llama.cpp."""
