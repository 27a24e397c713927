"""`patchstack checkout`: the fork branch, recreated from pin, series and lock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.options import OfflineOption, WorkspaceOption, one_series, open_cache, the_workspace
from patchstack.errors import MissingError, UsageError


def checkout_command(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="A series of the workspace.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for the repository.")],
    at: Annotated[int | None, typer.Option("--at", metavar="N", help="Stop behind the patch with this number.")] = None,
    patch: Annotated[
        int | None, typer.Option("--patch", metavar="N", help="Put this patch alone on the pin, three-way.")
    ] = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="Make the branch, but write no work tree.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Recreate the fork branch, with the same commit ids, from pin + series + lock alone, in a new repository."""
    from patchstack.series.checkout import check_out, pick_alone
    from patchstack.series.lock import read_lock
    from patchstack.series.model import load_series
    from patchstack.series.sources import open_sources

    if patch is not None and (at is not None or no_files):
        raise UsageError("--patch goes neither with --at nor with --no-files")
    config = one_series(the_workspace(workspace), [series])
    loaded = load_series(config.patches, config.name)
    lock = read_lock(config.patches)
    if lock is None:
        raise MissingError(f"{config.patches} has no series.lock", hint=f"patchstack export {config.name} writes it")
    sources = open_sources(open_cache(offline=offline), upstream=config.upstream, pin=config.pin, series=loaded)
    made = check_out(
        sources.objects,
        loaded,
        lock,
        sources.base,
        directory,
        upstream=config.upstream,
        at=at if patch is None else patch,
        files=not no_files,
    )
    if patch is not None:
        made = pick_alone(made, sources.base, patch)
    commits = "1 commit" if made.count == 1 else f"{made.count} commits"
    print(
        f"{config.name}: {made.directory} has branch {made.branch} at {made.head}, {commits} above {sources.base.oid}"
    )
    talk(f"note: it borrows the objects of {config.upstream}; keep that, or run git -C {directory} repack -a -d")
