"""Create an HTML page that shows a benchmark run against a server.

The page contains tables and plots. The plots show the load over time, the distributions of latencies, and a timeline of
the requests.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchstack.report.documents.serve import ServeDocument
from patchstack.report.page import Plot, render_page, require_pages
from patchstack.report.serve import TITLES, about_lines, latency_rows, outcome_lines, rate_rows
from patchstack.report.table import Table
from patchstack.stats.serving import Stream

_WITHOUT = "The package vl-convert-python is not installed: this page contains only tables."
_MOST_ROWS = 200
_MOST_POINTS = 400
_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A table of the page, with its title and the lines below it."""

    title: str
    table: Table
    lines: Sequence[str]


def require_page() -> None:
    """Raise `MissingError` if no page can be created. Call this before the run starts."""
    require_pages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The gaps in the streams of all answered requests, in ms.

    `tokens` contains the gaps between tokens (ITL), without the streams in which the number of tokens in a chunk is
    unknown. `chunks` contains the gaps between chunks with content (ICL).
    """

    tokens: Sequence[float]
    chunks: Sequence[float]


def page_of(document: ServeDocument, gaps: Gaps) -> str:
    """Return the page as HTML.

    If the package that draws plots is not installed, the page contains only tables and a note.
    """
    draws = importlib.util.find_spec("vl_convert") is not None
    rates = Table(titles=("rate", "", "from"), rows=list(rate_rows(document)), styles={})
    return render_page(
        title=f"{'valid' if document.valid else 'INVALID'}: {document.model or document.url}",
        about=[*outcome_lines(document), *about_lines(document), *([] if draws else [_WITHOUT])],
        sections=[
            _Section(
                title="Latencies",
                table=Table(titles=TITLES, rows=list(latency_rows(document)), styles={}),
                lines=["TTFT: start to first content. ICL: between chunks. ITL: between tokens. TPOT: per token."],
            ),
            _Section(title="Rates", table=rates, lines=[]),
            *_failures(document),
        ],
        plots=list(_plots(document, gaps)) if draws else [],
        notes=(
            "Token counts come from the server.",
            "In an open loop, latencies start at the planned time. Otherwise they start when the request is sent.",
        ),
    )


def gaps_of(streams: Sequence[Stream]) -> Gaps:
    """Return the gaps of the answered requests."""
    return Gaps(
        tokens=[gap / _MS for one in streams for gap in one.token_gaps or ()],
        chunks=[gap / _MS for one in streams for gap in one.gaps],
    )


def _failures(document: ServeDocument) -> Iterator[_Section]:
    if document.failures:
        rows = [[str(one.number), str(one.status), str(one.chunks), one.failure] for one in document.failures]
        titles = ("request", "status", "chunks", "failure")
        yield _Section(title="Failed requests", table=Table(titles=titles, rows=rows, styles={}), lines=[])


def _plots(document: ServeDocument, gaps: Gaps) -> Iterator[Plot]:
    if document.load:
        yield _load(document)
    if document.answers:
        firsts = [1000 * (one.first - one.start) for one in document.answers]
        yield _distribution("TTFT", "time to the first token, ms", {"": firsts})
    if gaps.tokens:
        both = {"between tokens (ITL)": gaps.tokens, "between chunks (ICL)": gaps.chunks}
        same = gaps.tokens == gaps.chunks
        yield _distribution("ITL", "gap, ms", {"": gaps.tokens} if same else both)
    elif gaps.chunks:
        yield _distribution("ICL", "gap between two chunks with content, ms", {"": gaps.chunks})
    if document.answers:
        yield _timeline(document)


def _load(document: ServeDocument) -> Plot:
    step = max(1, len(document.load) // _MOST_POINTS)
    values = [
        {"at": one.at, "streams": count, "state": state}
        for one in document.load[::step]
        for state, count in (("waits for its first token", one.waiting), ("decodes", one.decoding))
    ]
    spec: dict[str, object] = {
        "width": 520,
        "height": 150,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "title": "seconds"},
            "y": {"field": "streams", "type": "quantitative", "title": "streams"},
            "color": {"field": "state", "type": "nominal", "title": None},
        },
    }
    return Plot(title="Load", caption="The number of streams in flight over time.", spec=spec)


def _distribution(title: str, words: str, sets: Mapping[str, Sequence[float]]) -> Plot:
    """Return a plot of the cumulative distribution of each set of values.

    The axis of the values is logarithmic, so that the tails are visible.
    """
    points = [
        {"value": max(value, 0.01), "share": share, "of": name}
        for name, values in sets.items()
        for value, share in _shares(values)
    ]
    color = {"color": {"field": "of", "type": "nominal", "title": None}} if len(sets) > 1 else {}
    spec: dict[str, object] = {
        "width": 520,
        "height": 150,
        "data": {"values": points},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "value", "type": "quantitative", "title": words, "scale": {"type": "log"}},
            "y": {"field": "share", "type": "quantitative", "title": "% of all"},
            **color,
        },
    }
    counts = ", ".join(f"{len(values):,} {name}".rstrip() for name, values in sets.items())
    return Plot(title=title, caption=f"The cumulative distribution. Number of values: {counts}.", spec=spec)


def _shares(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield selected values in ascending order, each with the percentage of values that are not larger."""
    ordered = sorted(values)
    for at in sorted({round(step * (len(ordered) - 1) / _MOST_POINTS) for step in range(_MOST_POINTS + 1)}):
        yield ordered[at], 100 * (at + 1) / len(ordered)


def _timeline(document: ServeDocument) -> Plot:
    rows = document.answers[:_MOST_ROWS]
    values = [
        {"request": one.number, "from": begin, "to": end, "state": state}
        for one in rows
        for state, begin, end in (
            ("in the client's queue", one.start, one.sent),
            ("prefill", one.sent, one.first),
            ("decode", one.first, one.last),
        )
        if end > begin
    ]
    spec: dict[str, object] = {
        "width": 520,
        "height": {"step": max(3, 400 // len(rows))},
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "title": "seconds"},
            "x2": {"field": "to"},
            "y": {"field": "request", "type": "ordinal", "title": None, "axis": {"labelOverlap": True}},
            "color": {"field": "state", "type": "nominal", "title": None},
        },
    }
    shown = f"Only the first {len(rows)} of {len(document.answers)} requests are shown."
    more = f" {shown}" if len(rows) < len(document.answers) else ""
    return Plot(title="Timeline", caption=f"The phases of each request.{more}", spec=spec)
