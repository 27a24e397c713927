"""Create an HTML page that shows a comparison.

The page contains tables and plots. The plots show the effects with their intervals, the ratio of each pair over time,
and the reference runs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.report.bench import TITLES, about_lines, outcome_lines, row_cells
from patchstack.report.documents.bench import BenchDocument
from patchstack.report.page import Plot, render_page, require_pages
from patchstack.report.table import Table

_WITHOUT = "The package vl-convert-python is not installed: this page contains only tables."
_SECOND = {"A": "A ran second", "B": "B ran second"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A table of the page, with its title and the lines below it."""

    title: str
    table: Table
    lines: Sequence[str]


def require_page() -> None:
    """Raise `MissingError` if no page can be created. Call this before the comparison runs."""
    require_pages()


def page_of(document: BenchDocument) -> str:
    """Return the page as HTML.

    If the package that draws plots is not installed, the page contains only tables and a note.
    """
    draws = importlib.util.find_spec("vl_convert") is not None
    return render_page(
        title=f"{document.outcome}: {document.workload}",
        about=[*outcome_lines(document), *about_lines(document), *([] if draws else [_WITHOUT])],
        sections=[_rows(document), _pairs(document)],
        plots=list(_plots(document)) if draws else [],
        notes=(
            "The machine does not know the result of the coin: only the order of the runs depends on it.",
            "The run of one side does not affect the run of the other side, for example by heating the machine.",
        ),
    )


def _rows(document: BenchDocument) -> _Section:
    rows = [row_cells(row) for row in document.rows]
    lines = ["B/A is positive if B is better. The interval contains every effect that no pair has excluded."]
    return _Section(title="Rows", table=Table(titles=TITLES, rows=rows, styles={}), lines=lines)


def _pairs(document: BenchDocument) -> _Section:
    names = [row.name for row in document.rows]
    rows = [
        [
            str(pair.number),
            pair.began[:19].replace("T", " "),
            pair.second,
            *(f"{100 * (pair.ratios[name] - 1):+.2f}%" for name in names),
            pair.thrown or "counts",
        ]
        for pair in document.pairs
    ]
    titles = ("pair", "began, UTC", "second", *names, "")
    return _Section(title="Pairs", table=Table(titles=titles, rows=rows, styles={}), lines=[])


def _plots(document: BenchDocument) -> Iterator[Plot]:
    if any(row.estimate is not None for row in document.rows):
        yield _forest(document)
    if document.pairs:
        yield _over_time(document)
    if any(pair.references for pair in document.pairs):
        yield _reference(document)


def _forest(document: BenchDocument) -> Plot:
    known = [100 * value for row in document.rows for value in (row.low, row.high, row.estimate) if value is not None]
    margins = [100 * (row.margin if row.primary else row.guard_margin) for row in document.rows]
    widest = 1.2 * max(map(abs, [*known, *margins]))
    values = [
        {
            "row": row.name,
            "low": -widest if row.low is None else 100 * row.low,
            "high": widest if row.high is None else 100 * row.high,
            "estimate": 100 * row.estimate,
            "margin": 100 * row.margin if row.primary else -100 * row.guard_margin,
        }
        for row in document.rows
        if row.estimate is not None
    ]
    y = {"field": "row", "type": "nominal", "title": None, "sort": [row.name for row in document.rows]}
    x = {"type": "quantitative", "title": "B over A, %", "scale": {"domain": [-widest, widest], "clamp": True}}
    spec: dict[str, object] = {
        "width": 520,
        "height": {"step": 28},
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [3, 3]}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {"x": {"field": "estimate", **x}, "y": y},
            },
            {
                "mark": {"type": "tick", "thickness": 2, "size": 18, "color": "#c96a0a"},
                "encoding": {"x": {"field": "margin", **x}, "y": y},
            },
        ],
    }
    caption = "The estimate and interval of each row. The tick is the row's margin: a gain, or a loss for a guard."
    return Plot(title="Effect", caption=caption, spec=spec)


def _over_time(document: BenchDocument) -> Plot:
    values = [
        {
            "pair": pair.number,
            "ratio": 100 * (ratio - 1),
            "row": name,
            "coin": "thrown away" if pair.thrown else _SECOND[pair.second],
        }
        for pair in document.pairs
        for name, ratio in pair.ratios.items()
    ]
    several = len(document.rows) > 1
    inner: dict[str, object] = {
        "width": 520,
        "height": 150,
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [3, 3]}, "encoding": {"y": {"datum": 0}}},
            {
                "mark": {"type": "point", "filled": True, "size": 45},
                "encoding": {
                    "x": {"field": "pair", "type": "quantitative", "title": "pair", "axis": {"tickMinStep": 1}},
                    "y": {"field": "ratio", "type": "quantitative", "title": "B over A, %"},
                    "shape": {"field": "coin", "type": "nominal", "title": None},
                    "color": {"field": "coin", "type": "nominal", "title": None},
                },
            },
        ],
    }
    data = {"values": values}
    facet = {"row": {"field": "row", "type": "nominal", "title": None}}
    spec = {"data": data, "facet": facet, "spec": inner} if several else {"data": data, **inner}
    return Plot(title="Pairs over time", caption="The ratio of each pair, and the side that ran second.", spec=spec)


def _reference(document: BenchDocument) -> Plot:
    values = [
        {"run": pair.number + at / 2, "speed": one.speed, "kind": "thrown away" if pair.thrown else "counts"}
        for pair in document.pairs
        for at, one in enumerate(pair.references)
    ]
    spec: dict[str, object] = {
        "width": 520,
        "height": 150,
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 35},
        "encoding": {
            "x": {"field": "run", "type": "quantitative", "title": "pair", "axis": {"tickMinStep": 1}},
            "y": {"field": "speed", "type": "quantitative", "title": "speed", "scale": {"zero": False}},
            "color": {"field": "kind", "type": "nominal", "title": None},
            "shape": {"field": "kind", "type": "nominal", "title": None},
        },
    }
    caption = "The speed of the reference runs, which shows changes of the machine."
    return Plot(title="Reference over time", caption=caption, spec=spec)
