"""`patchstack apply`: apply a series to a directory of source files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadPath, OptionConflict
from patchstack.cli.complete import complete_number, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import PatchesOption, StripOption, WorkspaceOption, one_series, the_workspace
from patchstack.report.text import counted, patch_count

if TYPE_CHECKING:
    from patchstack.series.files.directory import Series
    from patchstack.series.mirror.apply_to_directory import Materialized


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
            help="Stop after the patch with this number or name (0: at the pin).",
        ),
    ] = None,
    strip: StripOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check whether the series applies; write nothing.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Finish the writes of an interrupted run.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.apply/1 document.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Apply a series strictly to a source directory or a work tree.

    Either all patches are applied or none. The git index does not change.
    """
    from patchstack.series.mirror.apply_to_directory import materialize

    *names, last = words
    directory = Path(last)
    if resume:
        if names or patches or check or at is not None or json or strip is not None:
            raise OptionConflict("--resume can only be combined with a directory", hint="patchstack apply --resume DIR")
        _finish(directory)
        return
    if len(names) > 1 or (names and patches):
        raise OptionConflict("give one series (or --patches DIR) and one directory")
    if patches is not None and workspace is not None:
        raise OptionConflict("give --patches or --workspace, not both")
    series = _series(names, patches, workspace)
    series = series if at is None else series.up_to(at)
    _show(series.name, directory, materialize(series, directory, check=check, strip=strip), check=check, json=json)


def _series(names: Sequence[str], patches: Path | None, workspace: Path | None) -> Series:
    from patchstack.series.files.directory import configured_series, load_series

    if patches is not None:
        return load_series(patches, patches.resolve().name)
    return configured_series(one_series(the_workspace(workspace), names))


def _finish(directory: Path) -> None:
    """Finish an interrupted write (`--resume`)."""
    from patchstack.files.journal import resume

    if not directory.is_dir():
        raise BadPath(f"{directory} is not a directory")
    count = resume(directory)
    print(f"finished: {count} paths" if count else f"nothing to finish in {directory}")


def _show(name: str, directory: Path, done: Materialized, *, check: bool, json: bool) -> None:
    if json:
        from patchstack.report.documents.apply import apply_document

        print(apply_document(name, directory, done, check=check).line)
    else:
        verb = "apply to" if check else "applied to"
        what = patch_count(done.patch_count)
        counts = (
            f"{counted(len(done.created), 'file')} created, {len(done.changed)} changed, {len(done.removed)} removed"
        )
        print(f"{name}: {what} {verb} {directory}: {counts}" + (" (nothing was written)" if check else ""))
    for warning in done.warnings:
        talk(f"warning: {warning}")
