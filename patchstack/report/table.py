"""Tables: plain aligned text, or coloured where stdout is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchstack.report.escape import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Column titles and rows of text. `styles` maps a cell's text to a colour; colour never carries meaning alone."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Mapping[str, str]


def print_table(table: Table) -> None:
    """Print to stdout: for a terminal fitted to its width, else every cell in full."""
    table = replace(table, rows=[[printable(cell).replace("\n", " ") for cell in row] for row in table.rows])
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_rich(table)
    else:
        print("\n".join(plain_lines(table)))


def plain_lines(table: Table) -> list[str]:
    """Columns padded to their widest cell, two blanks apart."""
    rows = [list(table.titles), *(list(row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.titles))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _print_rich(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    grid = RichTable(box=None, pad_edge=False, header_style="bold")
    for title in table.titles:
        # Only the subject gives way on a narrow terminal: an id cut short is of no use.
        grid.add_column(Text(title, no_wrap=True), no_wrap=title != "subject")
    for row in table.rows:
        grid.add_row(*(Text(cell, style=table.styles.get(cell, ""), no_wrap=True, overflow="ellipsis") for cell in row))
    console.print(grid)
