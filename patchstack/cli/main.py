"""The `patchstack` command: gathers the commands, and turns every failure into words and an exit code."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Annotated

import typer

from patchstack import __version__
from patchstack.cli.accept import accept_command
from patchstack.cli.apply import apply_command
from patchstack.cli.bisect import bisect_command
from patchstack.cli.build import build_command
from patchstack.cli.canary import canary_command
from patchstack.cli.checkout import checkout_command
from patchstack.cli.ci.app import ci_app
from patchstack.cli.demo import demo_command
from patchstack.cli.docs import docs_command
from patchstack.cli.doctor import doctor_command
from patchstack.cli.export import export_command
from patchstack.cli.failures import guarded
from patchstack.cli.gate import gate_app
from patchstack.cli.gpu import gpu_app
from patchstack.cli.init import init_command
from patchstack.cli.ledger import ledger_command, reject_command
from patchstack.cli.lint import lint_command
from patchstack.cli.show import show_command
from patchstack.cli.status import status_command
from patchstack.cli.sync import sync_command
from patchstack.cli.verify import verify_command

app = typer.Typer(
    name="patchstack",
    help="Prove that pin + patches = your fork, byte for byte.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"patchstack {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Prove that pin + patches = your fork, byte for byte."""


app.command("demo", short_help="Make a fork and its series, verify it, break it.")(demo_command)
app.command("init", short_help="Write patchstack.yaml from a fork or from patches.")(init_command)
app.command("status", short_help="Where each series stands, and what to do next.")(status_command)
app.command("verify", short_help="Prove that pin + series = fork.")(verify_command)
app.command("canary", short_help="Does the series apply to a newer upstream?")(canary_command)
app.command("doctor", short_help="Is all here that verify and build need?")(doctor_command)
app.command("build", short_help="Build pin + series, and prove the binaries.")(build_command)
app.add_typer(gpu_app, name="gpu", short_help="The machine that has the GPU.")
app.command("accept", short_help="Verify, build, gate and export a candidate.")(accept_command)
app.command("reject", short_help="Keep a candidate's diff, and why it was rejected.")(reject_command)
app.command("ledger", short_help="What was decided, and why.")(ledger_command)
app.add_typer(ci_app, name="ci", short_help="What continuous integration asks of patchstack.")
app.add_typer(gate_app, name="gate", short_help="The checks that a build must pass.")
app.command("show", short_help="One patch, with metadata and context.")(show_command)
app.command("lint", short_help="Hold a series against rules, each with a reason.")(lint_command)
app.command("docs", short_help="Tables of patches from the commits' trailers.")(docs_command)
app.command("export", short_help="Write the series and its lock from the fork.")(export_command)
app.command("checkout", short_help="Recreate the fork branch from pin, series and lock.")(checkout_command)
app.command("sync", short_help="Bring the fork onto a newer upstream commit.")(sync_command)
app.command("bisect", short_help="The patch or upstream commit that makes a command fail.")(bisect_command)
app.command("apply", short_help="Put a series onto a source directory.")(apply_command)


def main() -> None:
    """Entry point of the `patchstack` script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # We live for a fraction of a second and make few cycles: let the collector come seldom.
    gc.set_threshold(100_000, 50, 50)
    # A kill ends us as Ctrl-C does: programs we started go first, temporary files after them.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    sys.exit(guarded(app))
