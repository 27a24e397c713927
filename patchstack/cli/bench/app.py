"""Define the group `patchstack bench` and its commands."""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

COMMANDS = {
    "ab": Lazy("patchstack.cli.bench.ab:ab_command", "Compare two sides, and print a verdict."),
    "noise": Lazy(
        "patchstack.cli.bench.ab:noise_command", "Compare a side with itself to measure the noise of the machine."
    ),
    "difference": Lazy(
        "patchstack.cli.bench.difference:difference_command", "Compute a decode rate from runs of two lengths."
    ),
    "resume": Lazy("patchstack.cli.bench.kept:resume_command", "Continue a comparison that was stopped."),
    "show": Lazy("patchstack.cli.bench.kept:show_command", "Judge a comparison again from its runs."),
    "list": Lazy("patchstack.cli.bench.kept:list_command", "List the comparisons on this machine."),
    "serve": Lazy("patchstack.cli.bench.serve:serve_command", "Measure a server as its users see it."),
    "pack": Lazy("patchstack.cli.bench.kept:pack_command", "Write a comparison with its runs to one file."),
    "unpack": Lazy("patchstack.cli.bench.kept:unpack_command", "Add a comparison from another machine."),
    "machine": Lazy("patchstack.cli.bench.machine:machine_command", "Show since when a machine is slower."),
}
bench_app = typer.Typer(
    cls=group_of(COMMANDS), no_args_is_help=True, help="Measure whether a patch pays, by pairs of runs.", **STYLE
)


@bench_app.callback()
def root() -> None:
    """Compare the speed of two sides by pairs of new processes in random order."""
