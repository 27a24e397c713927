"""`patchstack bench`: does a patch pay?"""

from __future__ import annotations

import typer

from patchstack.cli.lazy import STYLE, Lazy, group_of

COMMANDS = {
    "ab": Lazy("patchstack.cli.bench.ab:ab_command", "Compare two sides, with a verdict that holds."),
    "noise": Lazy("patchstack.cli.bench.ab:noise_command", "Compare a side with itself: the noise of the machine."),
    "difference": Lazy(
        "patchstack.cli.bench.difference:difference_command", "A decode rate from two lengths of a run."
    ),
    "resume": Lazy("patchstack.cli.bench.kept:resume_command", "Go on with a comparison that was ended."),
    "show": Lazy("patchstack.cli.bench.kept:show_command", "A comparison, drawn anew from its runs."),
    "list": Lazy("patchstack.cli.bench.kept:list_command", "The comparisons that are here."),
    "serve": Lazy("patchstack.cli.bench.serve:serve_command", "Measure a server as its users see it."),
    "pack": Lazy("patchstack.cli.bench.kept:pack_command", "A comparison with its runs as one file."),
    "unpack": Lazy("patchstack.cli.bench.kept:unpack_command", "Take in a comparison of another machine."),
    "machine": Lazy("patchstack.cli.bench.machine:machine_command", "The machine's history: since when is it slow?"),
}
bench_app = typer.Typer(
    cls=group_of(COMMANDS), no_args_is_help=True, help="Does a patch pay? Pairs of runs, judged at any time.", **STYLE
)


@bench_app.callback()
def root() -> None:
    """Compare the speed of two sides by pairs of fresh processes, in an order given by coins."""
