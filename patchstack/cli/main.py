"""Define the `patchstack` command, which collects all commands and handles every failure."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack import __version__
from patchstack.cli.failures import guarded
from patchstack.cli.lazy import STYLE, Lazy, group_of
from patchstack.cli.manner import name_programs
from patchstack.report.streams import When, choose
from patchstack.tasks import watch

if TYPE_CHECKING:
    from patchstack.tasks import Watcher

_FIRST, _MORE = "The first hour", "More"
COMMANDS = {
    "demo": Lazy("patchstack.cli.demo:demo_command", "Create a fork and its series, verify it, break it.", _FIRST),
    "init": Lazy("patchstack.cli.init:init_command", "Write patchstack.yaml from a fork or from patches.", _FIRST),
    "status": Lazy(
        "patchstack.cli.status:status_command", "Show the state of each series, and what to do next.", _FIRST
    ),
    "verify": Lazy("patchstack.cli.verify:verify_command", "Prove that pin + series = fork.", _FIRST),
    "export": Lazy("patchstack.cli.export:export_command", "Write the series and its lock from the fork.", _FIRST),
    "canary": Lazy("patchstack.cli.canary:canary_command", "Check the series on a newer upstream.", _FIRST),
    "doctor": Lazy(
        "patchstack.cli.doctor:doctor_command", "Check that everything for verify and build is installed.", _FIRST
    ),
    "build": Lazy("patchstack.cli.build:build_command", "Build pin + series, and prove the binaries.", _FIRST),
    "gate": Lazy("patchstack.cli.gate:gate_app", "Run the checks that a build must pass.", _FIRST),
    "accept": Lazy("patchstack.cli.accept:accept_command", "Verify, build, gate and export a candidate.", _FIRST),
    "bench": Lazy("patchstack.cli.bench.app:bench_app", "Compare the speed of two builds, with a verdict.", _MORE),
    "reject": Lazy(
        "patchstack.cli.ledger:reject_command", "Record a candidate's diff, and why it was rejected.", _MORE
    ),
    "ledger": Lazy("patchstack.cli.ledger:ledger_command", "List the decisions and their reasons.", _MORE),
    "show": Lazy("patchstack.cli.show:show_command", "Show one patch, with metadata and context.", _MORE),
    "lint": Lazy("patchstack.cli.lint:lint_command", "Check a series against rules, each with a reason.", _MORE),
    "docs": Lazy("patchstack.cli.docs:docs_command", "Write tables of patches from the commits' trailers.", _MORE),
    "checkout": Lazy(
        "patchstack.cli.checkout:checkout_command", "Recreate the fork branch from pin, series and lock.", _MORE
    ),
    "sync": Lazy("patchstack.cli.sync:sync_command", "Bring the fork onto a newer upstream commit.", _MORE),
    "park": Lazy("patchstack.cli.park:park_command", "Remove a patch from the series temporarily.", _MORE),
    "unpark": Lazy("patchstack.cli.park:unpark_command", "Restore a parked patch at its old position.", _MORE),
    "bisect": Lazy(
        "patchstack.cli.bisect:bisect_command", "Find the patch or upstream commit that makes a command fail.", _MORE
    ),
    "refresh": Lazy(
        "patchstack.cli.refresh:refresh_command", "Rewrite patches that need fuzz so that they apply without it.", _MORE
    ),
    "apply": Lazy("patchstack.cli.apply:apply_command", "Apply a series to a source directory.", _MORE),
    "trace": Lazy("patchstack.cli.trace.app:trace_app", "Count the traces in a log of llama.cpp.", _MORE),
    "gpu": Lazy("patchstack.cli.gpu:gpu_app", "Check and lock the GPU.", _MORE),
    "cost": Lazy("patchstack.cli.cost.app:cost_app", "Show the minimum cost of a model from its header.", _MORE),
    "hook": Lazy("patchstack.cli.hook:hook_app", "Check each commit of the fork, as a git hook.", _MORE),
    "ci": Lazy("patchstack.cli.ci.app:ci_app", "Commands for continuous integration.", _MORE),
}

app = typer.Typer(
    name="patchstack",
    cls=group_of(COMMANDS),
    help="Prove that pin + patches = your fork, byte for byte.",
    no_args_is_help=True,
    **STYLE,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"patchstack {__version__}")
        raise typer.Exit


def _install_completion(ctx: typer.Context, param: typer.CallbackParam, asked: bool) -> None:
    from typer.completion import install_callback

    install_callback(ctx, param, asked)


def _show_completion(ctx: typer.Context, param: typer.CallbackParam, asked: bool) -> None:
    from typer.completion import show_callback

    show_callback(ctx, param, asked)


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    # Every command also accepts the next options after its name (see manner.py).
    color: Annotated[
        When | None,
        typer.Option(help="When to use colours [default: auto]. Also after COMMAND.", show_default=False),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only. Also after COMMAND.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Print the programs that are run, and the codes of errors. Also after COMMAND.",
        ),
    ] = False,
    # Replaces Typer's own options, which would import their modules at each start.
    install_completion: Annotated[
        bool, typer.Option("--install-completion", callback=_install_completion, help="Install shell completion.")
    ] = False,
    show_completion: Annotated[
        bool, typer.Option("--show-completion", callback=_show_completion, help="Print the completion script.")
    ] = False,
) -> None:
    """Prove that pin + patches = your fork, byte for byte."""
    choose(color=color, quiet=quiet, coded=verbose)
    if verbose:
        name_programs(context)
    context.call_on_close(watch(_task_screen))


def _task_screen() -> Watcher:
    from patchstack.files.places import cache_places
    from patchstack.report.tasks import TaskScreen

    return TaskScreen(lambda: cache_places().durations)


def main() -> None:
    """Run the `patchstack` script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # The process is short and creates few reference cycles, so the garbage collector can run rarely.
    gc.set_threshold(100_000, 50, 50)
    # Handle SIGTERM and SIGHUP like Ctrl-C, so that programs are ended and temporary files are removed.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    code = guarded(app)
    gc.freeze()  # otherwise Python would search all objects for cycles several times at exit
    sys.exit(code)
