"""`patchstack refresh`: copy a series, and refresh the context of patches that need fuzz."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import OptionConflict
from patchstack.cli.complete import complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    OfflineOption,
    PatchesOption,
    PinOption,
    StripOption,
    UpstreamOption,
    WorkspaceOption,
    chosen_series,
    open_cache,
)

if TYPE_CHECKING:
    from patchstack.series.mirror.refresh import Refreshed


def refresh_command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SERIES] DIR",
            autocompletion=complete_series,
            help="A series of the workspace, and a new directory for the copies.",
        ),
    ],
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    strip: StripOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.refresh/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write refreshed copies of a series into a new directory.

    As with quilt refresh, a patch that applies only with fuzz gets the current context of its files. The originals do
    not change.
    """
    from patchstack.git.overlay import TreeOverlay
    from patchstack.series.files.directory import configured_series
    from patchstack.series.mirror.refresh import refresh
    from patchstack.series.sources import open_sources

    *names, last = words
    configs = chosen_series(names, workspace, patches=patches, upstream=upstream, pin=pin)
    if len(configs) > 1:
        raise OptionConflict("refresh needs one series", hint=f"name one of {', '.join(one.name for one in configs)}")
    [config] = configs
    series = configured_series(config)
    sources = open_sources(open_cache(offline=offline), upstream=config.upstream, pin=config.pin, series=series)
    series = series.at_depth(TreeOverlay(sources.objects, sources.base.tree), strip)
    for warning in series.warnings:
        talk(f"warning: {warning}")
    done = refresh(sources.objects, series, sources.base, Path(last))
    if json:
        from patchstack.report.documents.refresh import refresh_document

        print(refresh_document(config.name, done).line)
    else:
        _print(config.name, done)
    if done.changed:
        talk("note: review the refreshed patches, because fuzz may place a hunk at a wrong line")


def _print(name: str, done: Refreshed) -> None:
    from patchstack.report.text import patch_count, printable

    for one in done.files:
        for hunk in one.hunks:
            where = f"hunk {hunk.hunk} applied with fuzz {hunk.fuzz} at line {hunk.line}"
            print(printable(f"{one.original}: {hunk.path}: {where}"))
    copied = len(done.files) - done.changed
    counts = f"{done.changed} refreshed, {copied} copied"
    print(
        f"{name}: {patch_count(len(done.files))} in {done.directory}: {counts}; without fuzz they give tree {done.tree}"
    )
