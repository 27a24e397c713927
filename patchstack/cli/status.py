"""`patchstack status`: one screen a series."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from patchstack.cli.failures import complain, talk
from patchstack.cli.options import OfflineOption, SeriesArgument, WorkspaceOption, open_cache, the_workspace
from patchstack.errors import Exit, PatchstackError


def status_command(
    series: SeriesArgument = None,
    surface: Annotated[bool, typer.Option("--surface", help="Show every file the series touches or adds.")] = False,
    patches: Annotated[
        bool, typer.Option("--patches", help="Show every patch with the metadata of its commit's trailers.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.status/1 document, one line a series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show where each series stands: pin, fork, mirror, lock, numbers, surface, and what to do next. Writes nothing."""
    from patchstack.report.documents.status import status_document
    from patchstack.report.status import next_line, patches_table, status_lines, surface_table
    from patchstack.report.table import print_table
    from patchstack.report.text import printable
    from patchstack.series.status.status import read_status

    configs = the_workspace(workspace).select(series or ())
    cache = open_cache(offline=offline)
    code = Exit.HOLDS
    for position, config in enumerate(configs):
        try:
            status = read_status(config, cache, now=datetime.now(UTC), patches=patches)
        except PatchstackError as error:
            if len(configs) == 1:
                raise
            complain(error.render(config.name))
            code = max(code, error.exit_code)
            continue
        code = max(code, status.exit_code)
        if json:
            print(status_document(status).line, flush=True)
            continue
        print(printable("\n".join([*[""] * (position > 0), *status_lines(status)])))
        if patches:
            print()
            print_table(patches_table(status))
            print()
        if surface:
            print()
            print_table(surface_table(status.surface))
            print()
        print(printable(next_line(status)), flush=True)
        for warning in status.warnings:
            talk(f"warning: {warning}")
    raise typer.Exit(int(code))
