"""Print tables.

On a terminal, tables are fitted to its width. Otherwise, every cell is printed in full.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from patchstack.report.streams import coloured, paint, terminal
from patchstack.report.text import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement


class Give(Enum):
    """How a column shrinks on a narrow terminal. A column without such a value is never wrapped or cut.

    FOLD is for prose. It is wrapped, and a word that is too long for a line is broken. WORDS is for figures and short
    phrases, which are wrapped only at spaces. MIDDLE is for paths. Their middle is omitted, and more of the end than of
    the start is shown. SPARE is for a column that is shown only if there is room. Its cells are cut at the end.
    """

    FOLD = auto()
    WORDS = auto()
    MIDDLE = auto()
    SPARE = auto()


_GAP = 2  # spaces between columns
_PROSE = 16  # minimum width at which prose is readable
_PATH = 24  # minimum width at which a shortened path is useful
_SPARE = 24  # minimum width of a spare column


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The column titles and rows of a table, as text.

    `styles` maps the text of a cell to a colour. The text must be clear without the colour. `gives` maps the titles of
    columns to how they shrink on a narrow terminal. Other columns, such as ids, verdicts, numbers and names, are never
    cut.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Mapping[str, str]
    gives: Mapping[str, Give] = field(default_factory=dict)


def print_table(table: Table) -> None:
    """Print a table to stdout.

    On a terminal, the table is fitted to its width. Otherwise, every cell is printed in full.
    """
    table = replace(table, rows=[[printable(cell).replace("\n", " ") for cell in row] for row in table.rows])
    if terminal(sys.stdout):
        from rich.console import Console

        colours: Literal["standard"] | None = "standard" if coloured(sys.stdout) else None
        print_fitted(table, Console(highlight=False, force_terminal=True, color_system=colours))
    else:
        print("\n".join(_painted(table) if coloured(sys.stdout) else plain_lines(table)))


def plain_lines(table: Table) -> list[str]:
    """Return the table as lines. Columns are padded to their widest cell and separated by two spaces."""
    return ["  ".join(cells).rstrip() for cells in _padded(table)]


def _padded(table: Table) -> list[list[str]]:
    rows = [list(table.titles), *(list(row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.titles))]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]


def _painted(table: Table) -> list[str]:
    def cell(padded: str) -> str:
        text = padded.rstrip()
        return paint(text, table.styles.get(text, ""), sys.stdout) + padded[len(text) :]

    head, *rows = _padded(table)
    return ["  ".join(head).rstrip(), *("  ".join(map(cell, row)).rstrip() for row in rows)]


def print_fitted(table: Table, console: Console) -> None:
    """Print a table that fits the width of a rich console.

    If the columns do not fit, each row is printed as a block of lines.
    """
    from rich.cells import cell_len
    from rich.table import Table as Grid
    from rich.text import Text

    table = _without_spare(table, console.width)
    widths = _fitted(table, console.width)
    if widths is None:
        _print_blocks(table, console)
        return
    grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title, width in zip(table.titles, widths, strict=True):
        grid.add_column(Text(title, no_wrap=True), width=width)
    for row in table.rows:
        cells: list[RenderableType] = []
        for title, cell, width in zip(table.titles, row, widths, strict=True):
            give = table.gives.get(title)
            if give is Give.MIDDLE and cell_len(cell) > width:
                cells.append(_Middle(cell))
            else:
                whole = give in (None, Give.SPARE)
                text = Text(cell, table.styles.get(cell, ""), no_wrap=whole, overflow="ellipsis" if whole else "fold")
                cells.append(text)
        grid.add_row(*cells)
    console.print(grid)


def _without_spare(table: Table, width: int) -> Table:
    """Remove the spare columns of a table if they would make other columns shrink."""
    spare = [title for title in table.titles if table.gives.get(title) is Give.SPARE]
    if not spare:
        return table
    kept = [number for number, title in enumerate(table.titles) if title not in spare]
    narrow = replace(
        table,
        titles=[table.titles[number] for number in kept],
        rows=[[row[number] for number in kept] for row in table.rows],
    )
    return table if sum(_whole(narrow)) + (_SPARE + _GAP) * len(spare) + _GAP * len(kept) <= width else narrow


def _whole(table: Table) -> list[int]:
    """Return the width of each column at which no cell has to shrink."""
    from rich.cells import cell_len

    rows = [table.titles, *table.rows]
    return [max(cell_len(row[column]) for row in rows) for column in range(len(table.titles))]


def _fitted(table: Table, width: int) -> list[int] | None:
    """Return the widths of the columns at which the table fits into `width`, or None if it cannot fit.

    Spare columns shrink first, then prose and paths, then figures. In each step, the widest of these columns becomes
    narrower by 1. The steps end when the table fits.
    """
    from rich.cells import cell_len

    widths = _whole(table)
    least = list(widths)
    for column, title in enumerate(table.titles):
        match table.gives.get(title):
            case Give.FOLD:
                least[column] = min(widths[column], max(_PROSE, len(title)))
            case Give.MIDDLE:
                least[column] = min(widths[column], max(_PATH, len(title)))
            case Give.SPARE:
                least[column] = min(widths[column], max(_SPARE, len(title)))
            case Give.WORDS:
                words = (word for row in table.rows for word in row[column].split())
                least[column] = max([len(title), *map(cell_len, words)])
            case None:
                pass
    # Shrink prose before figures, because figures are hard to read on several lines.
    for giving in ({Give.SPARE}, {Give.FOLD, Give.MIDDLE}, {Give.WORDS}):
        columns = [column for column, title in enumerate(table.titles) if table.gives.get(title) in giving]
        while sum(widths) + _GAP * (len(widths) - 1) > width:
            able = [column for column in columns if widths[column] > least[column]]
            if not able:
                break
            widths[max(able, key=lambda column: widths[column])] -= 1
    return widths if sum(widths) + _GAP * (len(widths) - 1) <= width else None


def _print_blocks(table: Table, console: Console) -> None:
    """Print every row as a block of lines, each with a column title and a cell.

    This form is for terminals that are too narrow for columns. No cell is cut.
    """
    from rich.table import Table as Grid
    from rich.text import Text

    for number, row in enumerate(table.rows):
        grid = Grid.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        grid.add_column(no_wrap=True, style="bold", min_width=max(map(len, table.titles)))
        grid.add_column(overflow="fold")
        for title, cell in zip(table.titles, row, strict=True):
            if cell:
                grid.add_row(title, Text(cell, table.styles.get(cell, ""), overflow="fold"))
        if number:
            console.print()
        console.print(grid)
    if not table.rows:
        console.print(Text("  ".join(table.titles), "bold"))


@dataclass(frozen=True, slots=True)
class _Middle:
    """Text whose middle is omitted if the text does not fit."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        return Measurement(1, cell_len(self.text)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text(middle_out(self.text, options.max_width), no_wrap=True, overflow="crop")


def middle_out(text: str, width: int) -> str:
    """Shorten a text to `width` columns of a terminal by omitting its middle.

    The result is the start of the text, in a third of the width, then `…`, then the end of the text.
    """
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    head = set_cell_size(text, (width - 1) // 3).rstrip()
    tail = text
    while cell_len(tail) > width - 1 - cell_len(head):
        tail = tail[1:]
    return f"{head}…{tail}"
