"""`patchstack checkout`: recreate the fork branch from pin, series and lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import OptionConflict
from patchstack.cli.complete import complete_number, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import OfflineOption, WorkspaceOption, one_series, open_cache, the_workspace

if TYPE_CHECKING:
    from patchstack.series.mirror.checkout import CheckedOut
    from patchstack.workspace import SeriesConfig


def checkout_command(
    series: Annotated[
        str, typer.Argument(metavar="SERIES", autocompletion=complete_series, help="A series of the workspace.")
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="N",
            autocompletion=complete_number,
            help="Stop after the patch with this number or name (0: at the pin).",
        ),
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            "--patch",
            metavar="N",
            autocompletion=complete_number,
            help="Apply only the patch with this number or name to the pin, with a three-way merge.",
        ),
    ] = None,
    worktree_of: Annotated[
        Path | None,
        typer.Option(
            "--worktree-of",
            metavar="REPO",
            help="Create the branch in this clone, and check it out in a new work tree.",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="The name of the branch [default: the fork's branch]."),
    ] = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="Create the branch, but write no files.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Recreate the fork branch from pin + series + lock, with the same commit ids.

    The branch is created in a new repository, or in a new work tree of an existing repository that has the pin. A
    series without a lock gives the commits that git am would create from its patches, but each author is also the
    committer.
    """
    from patchstack.workflow.checkout import CheckoutOrder, check_out_series

    if patch is not None and (at is not None or no_files):
        raise OptionConflict("--patch cannot be combined with --at or --no-files")
    config = one_series(the_workspace(workspace), [series])
    order = CheckoutOrder(directory=directory, at=at, patch=patch, files=not no_files, clone=worktree_of, branch=branch)
    made = check_out_series(config, order, open_cache(offline=offline), talk)
    _print(made.branch, config, made.pin, worktree_of)
    if not made.locked:
        _without_lock(made.branch, config, whole=patch is None and at is None)


def _print(made: CheckedOut, config: SeriesConfig, pin: str, clone: Path | None) -> None:
    """Print the result, a warning about missing contents, and a note about objects in other repositories."""
    from patchstack.workspace import is_url

    commits = "1 commit" if made.count == 1 else f"{made.count} commits"
    where = str(made.directory) if clone is None else f"{made.directory}, a work tree of {clone},"
    print(f"{config.name}: {where} has branch {made.branch} at {made.head}, {commits} above {pin}")
    if made.left_out:
        files = ", ".join(made.left_out[:3]) + (f" and {len(made.left_out) - 3} more" if len(made.left_out) > 3 else "")
        talk(f"warning: the contents of {files} are not available, so the work tree does not contain these files")
    if clone is None:
        place = "the cache" if is_url(config.upstream) else config.upstream
        talk(f"note: it uses the objects of {place}; do not remove them before git -C {made.directory} repack -a -d")


def _without_lock(made: CheckedOut, config: SeriesConfig, *, whole: bool) -> None:
    """Print notes about the commits of a series without a lock."""
    from patchstack.workspace import FILE_NAME

    talk(
        "note: there is no series.lock, so author, date and message come from the patches, each author is also the "
        "committer, and the ids differ from the ids of the original commits"
    )
    if whole and config.fork is None:
        talk(
            f"next: set fork: {made.directory} and fork_ref: {made.branch} in {FILE_NAME}, "
            f"then run patchstack export {config.name}"
        )
