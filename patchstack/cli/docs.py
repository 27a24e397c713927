"""`patchstack docs`: write Markdown tables of patches from the trailers of their commits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.causes import InputUnreadable, NotWritable, OptionConflict
from patchstack.cli.failures import talk
from patchstack.cli.options import SeriesArgument, WorkspaceOption, the_workspace
from patchstack.errors import Exit


def docs_command(
    series: SeriesArgument = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Update the tables in this document."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing. Exit with 1 if the document is not up to date.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print a Markdown table of the patches of each series.

    The columns are subject, group, switch, default, gates, upstream status, and replaced patches. The values come from
    the trailers of the commit messages. A series that was accepted through the ledger also has a column of decisions.
    In a document, the table of a series is between the lines <!-- patchstack: series NAME --> and <!-- /patchstack -->.
    """
    from patchstack.report.markdown import metadata_table, placed
    from patchstack.workflow.metadata import read_series_metadata

    if check and output is None:
        raise OptionConflict("--check needs --output", hint="add --output FILE")
    found = the_workspace(workspace)
    beside = output.resolve().parent if output is not None else Path.cwd()
    tables = {
        one.name: metadata_table(one.patches, *one.seen_from(beside))
        for one in read_series_metadata(found, found.select(series or ()))
    }
    if output is None:
        titled = [f"## {name}\n\n{table}" if len(tables) > 1 else table for name, table in tables.items()]
        print("\n\n".join(titled))
        return
    old = _read(output)
    new = placed(old, str(output), tables, chosen=bool(series))
    if new == old:
        print(f"{output}: up to date")
    elif check:
        print(f"{output}: not up to date")
        talk(f"next: patchstack docs {' '.join([*(series or ()), '-o', str(output)])}")
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))
    else:
        _write(output, new)


def _read(document: Path) -> str:
    try:
        return document.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        hint = "name an existing document"
        raise InputUnreadable(f"{document} cannot be read: {error.strerror}", hint=hint) from error


def _write(document: Path, text: str) -> None:
    from patchstack.files.atomic import replace_file

    try:
        replace_file(document, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise NotWritable(f"{document} cannot be written: {error.strerror}; nothing was changed") from error
    print(f"{document}: written")
