"""`patchstack hook`: install and run the git hook that checks each commit of the fork."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from patchstack.causes import InputUnreadable, PromiseBroken
from patchstack.cli.failures import talk
from patchstack.cli.lazy import STYLE
from patchstack.cli.ledger import SeriesOption
from patchstack.cli.options import WorkspaceOption, one_series, the_workspace

hook_app = typer.Typer(name="hook", no_args_is_help=True, help="Check each commit of the fork.", **STYLE)


@hook_app.command("install", short_help="Write the hook into the fork's clone.")
def install_command(series: SeriesOption = None, workspace: WorkspaceOption = None) -> None:
    """Write a commit-msg hook into the fork's clone.

    The hook refuses a commit that leaves its scope, or breaks a check of the series. The hook is quick and works
    offline.
    """
    from patchstack.workflow.hook import install

    found = the_workspace(workspace)
    config = one_series(found, [series] if series else ())
    path = install(config, found.path, (sys.executable, "-I", "-m", "patchstack"))
    print(f"{config.name}: wrote {path}")


@hook_app.command("run", short_help="Check a commit (the hook runs this command).")
def run_command(
    message: Annotated[Path, typer.Argument(metavar="FILE", help="The file with the commit message.")],
    series: SeriesOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Check the commit that git is about to create in the current repository. git runs this command."""
    from patchstack.git.objects import Repository
    from patchstack.workflow.hook import complaints

    config = one_series(the_workspace(workspace), [series] if series else ())
    git_dir = Repository.open(".", Path(os.environ.get("GIT_DIR") or ".")).git_dir
    index = Path(os.environ.get("GIT_INDEX_FILE") or git_dir / "index").absolute()
    try:
        text = message.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputUnreadable(f"{message} cannot be read: {error.strerror}") from error
    found = list(complaints(config, git_dir, index, text))
    for one in found:
        if not one.refuses:
            talk(f"warning: {one.text}")
    if problems := [one.text for one in found if one.refuses]:
        raise PromiseBroken(
            f"this commit breaks the checks or the scope of {config.name}",
            problems=problems,
            hint="fix the commit; or, if the patch need not change for a new site, run "
            "patchstack verify --record NAME --why TEXT; "
            "git commit --no-verify skips the check",
        )
