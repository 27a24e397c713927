"""`patchstack ci matrix`: print the jobs to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from patchstack.causes import NoRunner
from patchstack.cli.options import PolicyOption, WorkspaceOption, nearest_workspace


def matrix_command(
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[@OS/ARCH]",
            help="A variant, on its own or a given platform, or `none`. [default: cpu, and the series' variants]",
        ),
    ] = None,
    suite: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A suite of the workspace, or `all`. Repeatable.")
    ] = None,
    runner: Annotated[
        list[str] | None,
        typer.Option(metavar="OS/ARCH=LABEL", help="The label of the runner for a platform. Repeatable."),
    ] = None,
    output: Annotated[
        bool, typer.Option("--output", help="Write `matrix` and `jobs` (the number of jobs) to GITHUB_OUTPUT instead.")
    ] = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Print the combinations of variants and suites as a matrix of jobs.

    The form is `{"include": [{variant, arch, platform, runner, suite, args}, …]}`.
    """
    from json import dumps

    from patchstack.report.github import write_values
    from patchstack.workflow.matrix import runners_of, workspace_matrix

    jobs = workspace_matrix(
        nearest_workspace(workspace),
        variants=_words(variant),
        suites=_words(suite),
        runners=runners_of(runner or ()),
    )
    text = dumps({"include": jobs})
    if not output:
        print(text)
        return
    path = os.environ.get("GITHUB_OUTPUT")
    if not path:
        raise NoRunner("GITHUB_OUTPUT is not set: this is not a GitHub runner", hint="omit --output")
    write_values(Path(path), {"matrix": text, "jobs": str(len(jobs))})


def _words(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the words of an option. One use of the option may contain several words, separated by spaces or commas."""
    return tuple(word for one in given or () for word in one.replace(",", " ").split())
