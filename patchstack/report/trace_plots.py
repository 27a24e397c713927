"""Plot the figures of a log.

The plots show the calls by shape and route, the tokens that a server admits in each step, and the number of reused
graphs over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from patchstack.causes import BadPath, InputUnreadable
from patchstack.files.atomic import replace_file
from patchstack.llama.traces.reading import Points, Trace
from patchstack.report.plots import require_plots, svg_of
from patchstack.trace.figures import by_shape, has_routes
from patchstack.trace.traced import Traced

Spec = dict[str, object]
_WIDTH = 380
_SHAPES = 16
_LINE = 54  # maximum length of a label


def prepare(directory: Path) -> None:
    """Check that plots can be written to a directory.

    Raises `MissingError` if the package that draws plots is not installed, and `UsageError` if `directory` is not a
    directory.
    """
    require_plots()
    if directory.exists() and not directory.is_dir():
        raise BadPath(f"{directory} is not a directory", hint="name a directory for the plots: --plots DIR")


def write_plots(traced: Traced, directory: Path) -> Iterator[Path]:
    """Write every plot for which the log contains figures, and yield the paths of the plots.

    Raises `UsageError` if the log contains no figures to plot.
    """
    specs = list(plot_specs(traced))
    if not specs:
        raise InputUnreadable(
            f"{traced.name} contains no figures to plot",
            hint="use a log with routes and shapes, server steps, or reused graphs",
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, title, spec in specs:
        path = directory / f"{name}.svg"
        replace_file(path, svg_of(spec, title=title).encode())
        yield path


def plot_specs(traced: Traced) -> Iterator[tuple[str, str, Spec]]:
    """Yield the file name, title and specification of each plot."""
    for trace in traced.reading.traces:
        invalid = ("INVALID: the records are contradictory",) if traced.contradicts(trace) else ()
        if has_routes(trace):
            title = f"{trace.name}: calls by shape"
            yield f"shapes-{_file_name(trace.name)}", title, shapes_spec(trace, title, invalid)
        if trace.points is not None and trace.points.values:
            title = f"{trace.name}: tokens admitted per step"
            yield f"steps-{_file_name(trace.name)}", title, steps_spec(trace.points, title, invalid)
    reused = traced.reading.log.reused
    if reused is not None and reused.values:
        title = "graphs reused so far, by line of the log"
        yield "graphs-reused", title, reused_spec(reused, title)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "-" for c in name)


def shapes_spec(trace: Trace, title: str, notes: Sequence[str] = ()) -> Spec:
    """Return a bar plot of the calls with the most frequent shapes, coloured by route.

    Each shape is written above its bar, because it would be too long to fit beside the bar on a narrow page. The part
    that all shapes have in common is written once, under the title.
    """
    rows = by_shape(trace)
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.about] = totals.get(row.about, 0) + row.calls
    shown = sorted(totals, key=lambda shape: (-totals[shape], shape))[:_SHAPES]
    common = set.intersection(*(set(shape.split()) for shape in shown)) if len(shown) > 1 else set()
    labels = {
        shape: wrap(f"{totals[shape]:,}: {' '.join(word for word in shape.split() if word not in common)}", _LINE)
        for shape in shown
    }
    bars = [{"shape": row.about, "route": row.route, "calls": row.calls} for row in rows if row.about in shown]
    left = sum(count for shape, count in totals.items() if shape not in shown)
    rest = f"{len(totals) - len(shown):,} other shapes have {left:,} calls" if left else "every shape"
    told = wrap(f"all: {' '.join(word for word in shown[0].split() if word in common)}", _LINE) if common else []
    lines = max(map(len, labels.values()))
    step = 18 + 13 * lines
    texts = [{"shape": shape, "text": [" "] * (lines - len(label)) + label} for shape, label in labels.items()]
    place = {"field": "shape", "type": "nominal", "axis": None, "sort": shown}
    return {
        "title": {"text": title, "subtitle": [*notes, rest, *told]},
        "width": _WIDTH,
        "height": {"step": step},
        "layer": [
            {
                "data": {"values": bars},
                "mark": {"type": "bar", "size": 9, "yOffset": step / 2 - 8},
                "encoding": {
                    "y": place,
                    "x": {"field": "calls", "type": "quantitative", "title": "calls", "axis": _NUMBERS},
                    "color": {"field": "route", "type": "nominal", "title": None},
                    "order": {"field": "route"},
                },
            },
            {
                "data": {"values": texts},
                "mark": {
                    "type": "text",
                    "align": "left",
                    "baseline": "top",
                    "lineHeight": 13,
                    "yOffset": 3 - step / 2,
                },
                "encoding": {"y": place, "x": {"value": 2}, "text": {"field": "text"}},
            },
        ],
    }


_NUMBERS = {
    "tickCount": 5,
    "labelExpr": "datum.value >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~f')",
}


def steps_spec(points: Points, title: str, notes: Sequence[str] = ()) -> Spec:
    """Return a plot of the decode and prompt tokens of each step, in order.

    If there are many steps, each bar is the mean of several steps.
    """
    values: list[dict[str, object]] = []
    step = 1
    for count, sums in zip(points.counts, points.values, strict=True):
        for column, total in zip(points.columns, sums, strict=True):
            values.append({"step": step, "to": step + count, "tokens": total / count, "what": column.replace("_", " ")})
        step += count
    width = points.counts[0]
    return {
        "title": {"text": title, "subtitle": [*notes, f"mean of {width} steps each" if width > 1 else "every step"]},
        "width": _WIDTH,
        "height": 180,
        "data": {"values": values},
        "mark": {"type": "bar", "binSpacing": 0},
        "encoding": {
            "x": {
                "field": "step",
                "bin": {"binned": True},
                "type": "quantitative",
                "title": "step",
                "axis": _NUMBERS,
                "scale": {"nice": False, "domain": [1, step]},
            },
            "x2": {"field": "to"},
            "y": {"field": "tokens", "type": "quantitative", "title": "tokens", "axis": _NUMBERS, "stack": "zero"},
            "color": {"field": "what", "type": "nominal", "title": None},
        },
    }


def reused_spec(points: Points, title: str) -> Spec:
    """Return a plot of the number of graphs that llama.cpp has reused so far.

    The horizontal axis counts the log lines that report this number.
    """
    values: list[dict[str, object]] = []
    line = 0
    for count, (total,) in zip(points.counts, points.values, strict=True):
        line += count
        values.append({"line": line, "graphs": total / count})
    return {
        "title": title,
        "width": _WIDTH,
        "height": 180,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "point": len(values) <= 60},
        "encoding": {
            "x": {
                "field": "line",
                "type": "quantitative",
                "title": "line of the report (one per request, for a server)",
                "axis": {**_NUMBERS, "tickMinStep": 1},
                "scale": {"nice": False},
            },
            "y": {"field": "graphs", "type": "quantitative", "title": "graphs reused", "axis": _NUMBERS},
        },
    }
