"""`patchstack init`: write patchstack.yaml from a fork, or from a directory of patches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.options import PatchesOption, open_cache
from patchstack.errors import UsageError


def init_command(
    fork: Annotated[str | None, typer.Option(metavar="REPO", help="The fork's clone.")] = None,
    fork_ref: Annotated[str | None, typer.Option(metavar="REF", help="The fork's branch.")] = None,
    upstream: Annotated[
        str | None, typer.Option(metavar="REPO", help="The upstream's repository: a path or URL.")
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(metavar="SHA", help="The upstream commit the fork starts from [default: the merge base]."),
    ] = None,
    patches: PatchesOption = None,
    name: Annotated[str | None, typer.Option(help="The series' name [default: the branch's or directory's].")] = None,
) -> None:
    """Write patchstack.yaml here, or add a series to it: from a fork's branch, or from a directory of patches."""
    from patchstack.series.mirror.discover import from_fork, from_patches
    from patchstack.workspace import FILE_NAME, add_series

    cache = open_cache(offline=False)
    if fork is not None:
        if fork_ref is None:
            raise UsageError("--fork needs --fork-ref", hint="--fork REPO --fork-ref BRANCH")
        found = from_fork(cache, fork=fork, fork_ref=fork_ref, upstream=upstream, pin=pin, name=name, patches=patches)
        counted, next_step = "commits above it", f"patchstack export {found.config.name}"
    elif patches is not None:
        if upstream is None or pin is None:
            raise UsageError("--patches needs --upstream and --pin", hint="--patches DIR --upstream REPO --pin SHA")
        found = from_patches(cache, patches=patches, upstream=upstream, pin=pin, name=name)
        counted, next_step = "patches", f"patchstack verify {found.config.name} --apply-only"
    else:
        raise UsageError("from what?", hint="--fork REPO --fork-ref BRANCH, or --patches DIR --upstream REPO --pin SHA")
    path = Path(FILE_NAME)
    there = path.exists()
    add_series(path, found.config)
    verb = "added to" if there else "written to"
    print(f"{found.config.name}: {verb} {path}")
    print(f"pin {found.pin.oid} ({found.pin.subject}), from {found.pin_from}; {found.count} {counted}")
    talk(f"next: {next_step}")
