"""Define the documents of a log (`patchstack.trace/1`) and of a comparison (`patchstack.trace-comparison/1`)."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.llama.traces.contradictions import LogCheck
from patchstack.llama.traces.reading import Points, Trace
from patchstack.llama.traces.recount import summed
from patchstack.trace.compare import Comparison, Pair
from patchstack.trace.figures import Spread, by_route, by_shape, cell_work, has_routes, spread_of
from patchstack.trace.traced import Traced, verdict_of_answer, verdict_of_finding
from patchstack.verdict import Verdict


class TraceSource(Part, frozen=True, kw_only=True):
    """A log that was read.

    `name` is `-` for standard input. `bytes` is the number of bytes that were read. `changed` describes how the log
    changed while it was read; it is empty if the log did not change.
    """

    name: str
    bytes: int
    changed: str


class TraceGraphs(Part, frozen=True, kw_only=True):
    """The graphs in the records.

    `whole` is the number of complete graphs. `calls` is the number of calls in each complete graph, or null if the
    graphs have different numbers. `cut` is the number of calls in a graph that is incomplete because of the record
    limit. `known` is false if the records do not show where graphs end.
    """

    known: bool
    whole: int
    calls: int | None
    cut: int


class TraceBucket(Part, frozen=True, kw_only=True):
    """A bucket of a histogram.

    `count` is the number of values from `low` to `high`. `high` is null if there is no upper limit.
    """

    low: int
    high: int | None
    count: int


class TraceCell(Part, frozen=True, kw_only=True):
    """A group of equal records.

    `values` maps keys to values, with `N` in place of layer numbers. `calls` is the number of calls in complete graphs.
    `left_out` is the number of calls in a graph that is incomplete because of the record limit. `operations` and
    `bytes` are totals over all `calls`, or null if they cannot be computed from the shapes.
    """

    values: dict[str, int | str]
    calls: int
    left_out: int
    operations: int | None
    bytes: int | None


class TraceSpread(Part, frozen=True, kw_only=True):
    """The distribution of calls over values.

    `distinct` is the number of distinct values, and `entropy` is in bits. `top` is the most frequent value, and
    `top_share` is its share (0 to 1).
    """

    distinct: int
    entropy: float
    top: str
    top_share: float


class TracePoints(Part, frozen=True, kw_only=True):
    """Values over time.

    Each point is a sum over several samples. For each point, `counts` contains the number of samples, and `values`
    contains a sum for each column.
    """

    columns: tuple[str, ...]
    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


class TraceRecords(Part, frozen=True, kw_only=True):
    """All records of one kind.

    `bounded` is true if there may have been more records than were written. `invalid` is true if the records contradict
    the summary or each other; then the counts must not be used. `counters` and `histograms` are totals over the
    summaries of all processes, and `largest` contains their maximum values. `decode_like` is the number of calls with
    at most `decode_tokens` tokens, and `prefill_like` is the number of all other calls. Both are null for records
    without a token count.
    """

    name: str
    records: int
    unreadable: int
    cut_records: int
    summaries: int
    lines: int | None
    dropped: int | None
    bounded: bool
    invalid: bool
    shapes_not_kept: int
    graphs: TraceGraphs | None
    keys: tuple[str, ...]
    cells: tuple[TraceCell, ...]
    decode_tokens: int
    decode_like: int | None
    prefill_like: int | None
    routes_spread: TraceSpread | None
    shapes_spread: TraceSpread | None
    counters: dict[str, int]
    largest: dict[str, int]
    histograms: dict[str, tuple[TraceBucket, ...]]
    points: TracePoints | None


class TraceCheck(Part, frozen=True, kw_only=True):
    """A check of a log.

    `what` is the condition, and `said` and `found` are its two sides as text. The verdict is PASS, FAIL, or INVALID if
    the log does not show the result. After a FAIL, the figures that `spoils` names must not be used. `spoils` contains
    `records`, or keys of a summary.
    """

    trace: str
    what: str
    said: str
    found: str
    verdict: str
    spoils: tuple[str, ...]


class TraceFact(Part, frozen=True, kw_only=True):
    """A single figure, as text.

    `invalid` is the reason why the figure must not be used; it is empty if the figure may be used.
    """

    trace: str
    name: str
    value: str
    note: str
    invalid: str


class TraceExpected(Part, frozen=True, kw_only=True):
    """An expectation and its result: PASS, FAIL, or INVALID if the log does not show the result."""

    text: str
    verdict: str
    count: int | None
    why: str


class TraceDocument(Document, frozen=True, kw_only=True, tag="patchstack.trace/1"):
    """One log, or several logs that were read as one.

    `overlong_lines` is the number of lines that were too long, so that only their end was read. `unended` is true if
    the last line of a log has no newline, so this line may be incomplete.
    """

    sources: tuple[TraceSource, ...]
    lines: int
    bytes: int
    overlong_lines: int
    unended: bool
    traces: tuple[TraceRecords, ...]
    figures: tuple[TraceFact, ...]
    reused_graphs: TracePoints | None
    checks: tuple[TraceCheck, ...]
    expected: tuple[TraceExpected, ...]
    verdict: str


class TraceEvidence(Part, frozen=True, kw_only=True):
    """A property of the workload that both logs show."""

    what: str
    first: str
    second: str
    same: bool


class TracePair(Part, frozen=True, kw_only=True):
    """The calls of one route (with types) and shape in both logs, and their total work.

    `about` is the shape. It is empty if the entry is for all calls of the route. `change` is `same`, `more`, `less`,
    `new`, `gone`, or `not seen`. `not seen` means that one log has no record of the calls, but that its records are
    incomplete.
    """

    trace: str
    route: str
    about: str
    first: int
    second: int
    first_operations: int | None
    second_operations: int | None
    first_bytes: int | None
    second_bytes: int | None
    change: str


class TraceComparisonDocument(Document, frozen=True, kw_only=True, tag="patchstack.trace-comparison/1"):
    """A comparison of two logs of one workload.

    `same` is true if every route and shape occurs equally often in both logs. `same_kinds` is true if the same routes
    and shapes occur in both. `bounded` lists traces with incomplete records. `replayed` contains how often CUDA graphs
    were replayed in each log, or is null if unknown. The calls of a replayed graph are not recorded.
    """

    first: tuple[TraceSource, ...]
    second: tuple[TraceSource, ...]
    workload: tuple[TraceEvidence, ...]
    routes: tuple[TracePair, ...]
    shapes: tuple[TracePair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    bounded: tuple[str, ...]
    replayed: tuple[int, int] | None
    same: bool
    same_kinds: bool
    contradictions: tuple[TraceCheck, ...]
    verdict: str


def trace_document(traced: Traced, verdict: Verdict) -> TraceDocument:
    """Convert a log to its JSON document."""
    reading = traced.reading
    return TraceDocument(
        sources=_sources(traced),
        lines=reading.lines,
        bytes=reading.size,
        overlong_lines=reading.overlong,
        unended=reading.has_unended,
        traces=tuple(_records(traced, trace) for trace in reading.traces),
        figures=tuple(
            TraceFact(trace=one.trace, name=one.name, value=one.value, note=one.note, invalid=one.invalid)
            for one in traced.facts
        ),
        reused_graphs=_points(reading.log.reused),
        checks=tuple(_check(one) for one in traced.findings),
        expected=tuple(
            TraceExpected(text=one.expectation.text, verdict=verdict_of_answer(one).value, count=one.count, why=one.why)
            for one in traced.answers
        ),
        verdict=verdict.value,
    )


def comparison_document(
    comparison: Comparison, first: Traced, second: Traced, verdict: Verdict
) -> TraceComparisonDocument:
    """Convert a comparison to its JSON document."""
    return TraceComparisonDocument(
        first=_sources(first),
        second=_sources(second),
        workload=tuple(
            TraceEvidence(what=one.what, first=one.first, second=one.second, same=one.same)
            for one in comparison.evidence
        ),
        routes=tuple(_pair(one) for one in comparison.routes),
        shapes=tuple(_pair(one) for one in comparison.shapes),
        only_first=comparison.only_first,
        only_second=comparison.only_second,
        bounded=comparison.bounded,
        replayed=comparison.replayed,
        same=comparison.same,
        same_kinds=comparison.same_kinds,
        contradictions=tuple(_check(one) for side in (first, second) for one in side.findings if one.holds is False),
        verdict=verdict.value,
    )


def _sources(traced: Traced) -> tuple[TraceSource, ...]:
    return tuple(TraceSource(name=one.name, bytes=one.size, changed=one.changed) for one in traced.sources)


def _check(finding: LogCheck) -> TraceCheck:
    return TraceCheck(
        trace=finding.trace,
        what=finding.what,
        said=finding.said,
        found=finding.found,
        verdict=verdict_of_finding(finding).value,
        spoils=finding.spoils,
    )


def _records(traced: Traced, trace: Trace) -> TraceRecords:
    figures = summed(trace.summaries)
    routed = has_routes(trace)
    rows = by_route(trace, decode_tokens=traced.decode_tokens) if routed else []
    decode = [row.decode for row in rows if row.decode is not None]
    known = bool(rows) and len(decode) == len(rows)
    return TraceRecords(
        name=trace.name,
        records=trace.records,
        unreadable=trace.unread,
        cut_records=trace.cut,
        summaries=len(trace.summaries),
        lines=figures.counters.get("lines"),
        dropped=figures.counters.get("dropped"),
        bounded=trace.bounded,
        invalid=traced.contradicts(trace),
        shapes_not_kept=trace.overflowed,
        graphs=None
        if trace.graphs is None
        else TraceGraphs(
            known=trace.graphs.known, whole=trace.graphs.whole, calls=trace.graphs.calls, cut=trace.graphs.cut
        ),
        keys=trace.keys,
        cells=_cells(trace),
        decode_tokens=traced.decode_tokens,
        decode_like=sum(decode) if known else None,
        prefill_like=sum(row.calls for row in rows) - sum(decode) if known else None,
        routes_spread=_spread(spread_of(rows)),
        shapes_spread=_spread(spread_of(by_shape(trace)) if routed else None),
        counters={key: value for key, value in figures.counters.items() if key not in ("lines", "dropped")},
        largest=figures.largest,
        histograms={
            key: tuple(TraceBucket(low=bucket.low, high=bucket.high, count=count) for bucket, count in one.buckets)
            for key, one in figures.histograms.items()
        },
        points=_points(trace.points),
    )


def _cells(trace: Trace) -> tuple[TraceCell, ...]:
    cells = []
    for cell in trace.cells:
        work = cell_work(trace, cell).times(cell.calls)
        cells.append(
            TraceCell(
                values=dict(zip(trace.keys, cell.values, strict=True)),
                calls=cell.calls,
                left_out=cell.left_out,
                operations=work.operations,
                bytes=work.bytes,
            )
        )
    return tuple(cells)


def _spread(one: Spread | None) -> TraceSpread | None:
    if one is None:
        return None
    return TraceSpread(distinct=one.distinct, entropy=one.entropy, top=one.top, top_share=one.top_share)


def _points(points: Points | None) -> TracePoints | None:
    return None if points is None else TracePoints(columns=points.columns, counts=points.counts, values=points.values)


def _pair(pair: Pair) -> TracePair:
    return TracePair(
        trace=pair.trace,
        route=pair.route,
        about=pair.about,
        first=pair.first,
        second=pair.second,
        first_operations=pair.first_work.operations,
        second_operations=pair.second_work.operations,
        first_bytes=pair.first_work.bytes,
        second_bytes=pair.second_work.bytes,
        change=pair.change.value,
    )
