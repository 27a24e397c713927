"""`patchstack show`: show one patch, with its metadata and its diff in context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, OptionConflict
from patchstack.cli.complete import complete_series_or_number
from patchstack.cli.failures import talk
from patchstack.cli.options import OfflineOption, WorkspaceOption, one_series, open_cache, the_workspace
from patchstack.errors import MissingError

if TYPE_CHECKING:
    from patchstack.report.show import ShownPatch
    from patchstack.series.files.directory import PatchFile
    from patchstack.series.status.status import Examined
    from patchstack.workspace import SeriesConfig


def show_command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[SERIES] N",
            autocompletion=complete_series_or_number,
            help="The number or name of the patch. If there are several series, name the series first.",
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.show/1 document.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print no colours, even on a terminal.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show the patch with number N: its commit, tree, trailers and files, and its diff in context. Writes nothing."""
    from patchstack.git.objects import NotARepository
    from patchstack.report.documents.show import show_document
    from patchstack.report.show import print_shown
    from patchstack.series.status.status import examine

    if len(what) > 2:
        raise OptionConflict(
            f"show needs a series and one number, not {' '.join(what)}", hint="patchstack show SERIES N"
        )
    config = one_series(the_workspace(workspace), what[:-1])
    patch = _patch(config, what[-1])
    found = None
    try:
        found = examine(config, open_cache(offline=offline), keep_going=True)
        if found.fork_error is not None:
            talk(f"warning: the fork is not used: {found.fork_error.message}")
    except (MissingError, NotARepository) as error:
        talk(f"warning: the patch is shown from its file: {error.message}")
    shown = _shown(config, patch, found)
    if json:
        print(show_document(shown).line)
    else:
        print_shown(shown, plain=plain)


def _patch(config: SeriesConfig, which: str) -> PatchFile:
    """Return the patch with this number or name. Raises `UsageError` for 0, which is the pin."""
    from patchstack.series.files.directory import configured_series

    found = configured_series(config).up_to(which).patches
    if not found:
        raise BadValue(
            f"{config.name}: no patch has number 0", hint="0 is the pin; patchstack status --patches lists the patches"
        )
    return found[-1]


def _shown(config: SeriesConfig, patch: PatchFile, found: Examined | None) -> ShownPatch:
    from patchstack.git.objects import Objects
    from patchstack.git.patch.trailers import read_message
    from patchstack.report.show import ShownPatch
    from patchstack.series.status.surface import readable_diff

    row = before = None
    objects = Objects()
    if found is not None and found.verification is not None:
        objects, before = found.sources.objects, found.verification.base_tree
        for candidate in found.verification.rows:
            if candidate.file == patch.file:
                row = candidate
                break
            before = candidate.tree or before
    after = row.tree if row else None
    commit, commit_from = _commit(patch, found, row.fork_commit if row else None)
    return ShownPatch(
        series=config.name,
        patch=patch,
        message=read_message(patch.data or b""),
        text=readable_diff(objects, patch.data or b"", (before, after) if before and after else None),
        fork_commit=commit,
        commit_from=commit_from,
        tree=after,
        tree_before=before,
        state=row.state.value if row else None,
        detail=row.detail if row else "",
    )


def _commit(patch: PatchFile, found: Examined | None, mirrored: str | None) -> tuple[str | None, str | None]:
    """Return the fork commit of a patch, and the place where its id was found.

    The id comes from the comparison, the lock, or the header of the patch. Both results are None if the id is unknown.
    """
    if mirrored and found is not None:
        return mirrored, found.config.expect
    for entry in found.lock.patches if found is not None and found.lock is not None else ():
        if entry.file == patch.file:
            return entry.commit, "lock"
    return patch.commit, "its From line" if patch.commit else None
