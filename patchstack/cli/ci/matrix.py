"""`patchstack ci matrix`: which jobs are to be run?"""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.options import WorkspaceOption, nearest_workspace
from patchstack.errors import UsageError


def matrix_command(
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[@OS/ARCH]",
            help="A variant, on its platform or another. Repeatable. [default: cpu, and what the series are built as]",
        ),
    ] = None,
    suite: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A suite of the workspace, `all` for all. Repeatable.")
    ] = None,
    runner: Annotated[
        list[str] | None,
        typer.Option(metavar="OS/ARCH=LABEL", help="The runner's label for a platform. Repeatable."),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Variants × suites as a matrix for jobs: `{"include": [{variant, arch, platform, runner, suite}, …]}`."""
    from json import dumps

    from patchstack.build.variant import load_variants
    from patchstack.gates.suite import read_suites
    from patchstack.workflow.matrix import RUNNERS, matrix

    found = nearest_workspace(workspace)
    runners = dict(RUNNERS)
    for given in runner or ():
        platform, equals, label = given.partition("=")
        if not equals or not label or platform not in RUNNERS:
            raise UsageError(f"--runner {given} is not OS/ARCH=LABEL", hint=f"OS/ARCH is {' or '.join(RUNNERS)}")
        runners[platform] = label
    jobs = matrix(
        load_variants(found.variants if found else ()),
        [name for name in (one.variant for one in (found.series if found else ())) if name is not None],
        [one.name for one in read_suites(found.path)] if found is not None and suite else [],
        variants=tuple(variant or ()),
        suites=tuple(suite or ()),
        runners=runners,
    )
    print(dumps({"include": jobs}))
