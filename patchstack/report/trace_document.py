"""Logs and comparisons of logs as documents."""

from __future__ import annotations

from patchstack.llama.traces.contradictions import Finding
from patchstack.llama.traces.reading import Points, Trace
from patchstack.llama.traces.recount import summed
from patchstack.report.documents.trace import (
    TraceBucket,
    TraceCell,
    TraceCheck,
    TraceComparisonDocument,
    TraceDocument,
    TraceEvidence,
    TraceExpected,
    TraceFact,
    TraceGraphs,
    TracePair,
    TracePoints,
    TraceRecords,
    TraceSource,
    TraceSpread,
)
from patchstack.trace.compare import Comparison, Pair
from patchstack.trace.figures import Spread, by_route, by_shape, cell_work, has_routes, spread_of
from patchstack.trace.traced import Traced
from patchstack.trace.verdicts import verdict_of_answer, verdict_of_finding
from patchstack.verdict import Verdict


def trace_document(traced: Traced, verdict: Verdict) -> TraceDocument:
    """A log as `patchstack.trace/1`."""
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
    """A comparison as `patchstack.trace-comparison/1`."""
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


def _check(finding: Finding) -> TraceCheck:
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
