"""`patchstack docs`: tables of patches from the commits' trailers, in Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.options import SeriesArgument, WorkspaceOption, the_workspace
from patchstack.errors import Exit, MissingError, UsageError


def docs_command(
    series: SeriesArgument = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the tables to their places in this document."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 where the document is not up to date.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print a Markdown table of each series: subject, group, switch, default, gates, upstream status, what it replaces.

    All of it comes from the trailers of the commit messages; a series that was accepted through the ledger has its
    decisions beside it. In a document the table of a series stands between the
    lines <!-- patchstack: series NAME --> and <!-- /patchstack -->.
    """
    from patchstack.evidence.ledger import accepted_patches
    from patchstack.files.atomic import replace_file
    from patchstack.report.markdown import metadata_table, placed
    from patchstack.series.files.directory import configured_series
    from patchstack.series.status.metadata import read_metadata

    if check and output is None:
        raise UsageError("--check needs a document", hint="--output FILE")
    found = the_workspace(workspace)
    configs = found.select(series or ())
    beside = output.resolve().parent if output is not None else Path.cwd()
    tables = {}
    for config in configs:
        patches = read_metadata(configured_series(config))
        decisions = {
            file: (id_, os.path.relpath(path.resolve(), beside))
            for file, (id_, path) in accepted_patches(found.root / "ledger", config.patches).items()
        }
        tables[config.name] = metadata_table(patches, os.path.relpath(config.patches.resolve(), beside), decisions)
    if output is None:
        titled = [f"## {name}\n\n{table}" if len(tables) > 1 else table for name, table in tables.items()]
        print("\n\n".join(titled))
        return
    try:
        old = output.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{output} cannot be read: {error.strerror}", hint="name a document that is there") from error
    new = placed(old, str(output), tables, chosen=bool(series))
    if new == old:
        print(f"{output}: up to date")
    elif check:
        print(f"{output}: not up to date")
        talk(f"next: patchstack docs {' '.join([*(series or ()), '-o', str(output)])}")
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))
    else:
        try:
            replace_file(output, new.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise MissingError(f"{output} cannot be written: {error.strerror}; nothing was changed") from error
        print(f"{output}: written")
