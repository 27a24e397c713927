"""`patchstack apply`: put a series onto a directory of source files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.complete import complete_number, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import PatchesOption, StripOption, WorkspaceOption, one_series, the_workspace
from patchstack.errors import UsageError
from patchstack.report.text import counted, patch_count


def apply_command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SERIES] DIR",
            autocompletion=complete_series,
            help="A series of the workspace, and the directory to patch.",
        ),
    ],
    patches: PatchesOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="N",
            autocompletion=complete_number,
            help="Stop after the patch with this number, or this name (0: at the pin).",
        ),
    ] = None,
    strip: StripOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only see whether it applies; write nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Finish what a killed run began to write.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.apply/1 document.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Put a series onto a source directory or a work tree: strictly, all patches or none. No index is touched."""
    from patchstack.files.journal import resume as finish
    from patchstack.series.files.directory import configured_series, load_series
    from patchstack.series.mirror.apply_to_directory import materialize

    *names, last = words
    directory = Path(last)
    if resume:
        if names or patches or check or at is not None or json or strip is not None:
            raise UsageError("--resume takes a directory and nothing else", hint="patchstack apply --resume DIR")
        if not directory.is_dir():
            raise UsageError(f"{directory} is not a directory")
        count = finish(directory)
        print(f"finished: {count} paths" if count else f"nothing to finish in {directory}")
        return
    if len(names) > 1 or (names and patches):
        raise UsageError("give one series (or --patches DIR) and one directory")
    if patches is not None and workspace is not None:
        raise UsageError("give --patches or --workspace, not both")
    if patches is not None:
        series = load_series(patches, patches.resolve().name)
    else:
        config = one_series(the_workspace(workspace), names)
        series = configured_series(config)
    if at is not None:
        series = series.up_to(at)
    done = materialize(series, directory, check=check, strip=strip)
    if json:
        from json import dumps

        document = {
            "schema": "patchstack.apply/1",
            "series": series.name,
            "directory": str(directory),
            "check": check,
            "patch_count": done.patch_count,
            "created": list(done.created),
            "changed": list(done.changed),
            "removed": list(done.removed),
            "warnings": list(done.warnings),
        }
        print(dumps(document))
    else:
        verb = "apply to" if check else "applied to"
        what = patch_count(done.patch_count)
        counts = f"{counted(len(done.created), 'file')} made, {len(done.changed)} changed, {len(done.removed)} removed"
        print(f"{series.name}: {what} {verb} {directory}: {counts}" + (" (nothing was written)" if check else ""))
    for warning in done.warnings:
        talk(f"warning: {warning}")
