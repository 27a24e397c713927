"""`patchstack status`: show the state of each series on one screen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.checks import engine_of
from patchstack.cli.each_series import each_series
from patchstack.cli.failures import talk
from patchstack.cli.options import OfflineOption, SeriesArgument, WorkspaceOption, open_cache, the_workspace
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.series.status.status import SeriesStatus
    from patchstack.workspace import SeriesConfig


def status_command(
    series: SeriesArgument = None,
    surface: Annotated[
        bool, typer.Option("--surface", help="Show every file that the series changes or adds.")
    ] = False,
    patches: Annotated[
        bool, typer.Option("--patches", help="Show every patch with the metadata from its trailers.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.status/1 document, one line per series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show the state of each series: pin, fork, mirror, lock, numbers, surface, and what to do next. Writes nothing."""
    from patchstack.workflow.status import whole_status

    configs = the_workspace(workspace).select(series or ())
    cache, opened = open_cache(offline=offline), engine_of(None, workspace)

    def look(config: SeriesConfig) -> Exit:
        status = whole_status(config, cache, opened, now=datetime.now(UTC), patches=patches)
        if json:
            from patchstack.report.documents.status import status_document

            print(status_document(status).line, flush=True)
        else:
            _show(status, first=config is configs[0], patches=patches, surface=surface)
        return status.exit_code

    raise typer.Exit(int(each_series(configs, look)))


def _show(status: SeriesStatus, *, first: bool, patches: bool, surface: bool) -> None:
    """Print one series. Print an empty line before it, unless it is the first."""
    from patchstack.report.status import next_line, patches_table, status_lines, surface_table
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    print(printable("\n".join([*([] if first else [""]), *status_lines(status)])))
    tables = [*([patches_table(status)] if patches else []), *([surface_table(status.surface)] if surface else [])]
    for table in tables:
        print()
        print_table(table)
        print()
    print(printable(next_line(status)), flush=True)
    for warning in status.warnings:
        talk(f"warning: {warning}")
