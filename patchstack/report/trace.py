"""Print the counts and contradictions of a log, and the comparison of two logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.llama.traces.contradictions import LogCheck
from patchstack.llama.traces.reading import Trace
from patchstack.report.streams import VERDICTS
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import printable
from patchstack.trace.compare import Change, Comparison, Pair
from patchstack.trace.figures import Row, Spread, by_route, by_shape, by_tensor, has_routes, spread_of
from patchstack.trace.traced import Traced, verdict_of_answer, verdict_of_finding
from patchstack.verdict import Verdict, verdict_line

SHOWN = 5
_INVALID = Verdict.INVALID.value


def print_traced(traced: Traced, *, everything: bool = False) -> None:
    """Print the contents of a log: lines that describe the log and its traces, then tables.

    If `everything` is false, a table by shape or tensors contains only the rows with the most calls.
    """
    for line in log_lines(traced):
        print(printable(line))
    routed = [
        (trace, by_route(trace, decode_tokens=traced.decode_tokens))
        for trace in traced.reading.traces
        if has_routes(trace)
    ]
    if routed:
        print()
        print_table(route_table(traced, [row for _, rows in routed for row in rows]))
    for trace, _ in routed:
        for about, rows_of in (("shape", by_shape), ("tensors", by_tensor)):
            _print_about(traced, rows_of(trace, decode_tokens=traced.decode_tokens), about, everything=everything)
    if traced.facts:
        print()
        print_table(fact_table(traced))
    if traced.answers:
        print()
        print_table(answer_table(traced))
        print(verdict_line(traced.name, traced.verdicts))


def log_lines(traced: Traced) -> Iterator[str]:
    """Yield lines that describe a log, then a line for each trace.

    The line of a trace shows the numbers of its records, summaries, damaged or dropped records, and graphs.
    """
    reading = traced.reading
    yield f"{traced.name}: {_many(reading.lines, 'line')}, {reading.size:,} bytes"
    for source in traced.sources:
        if source.changed:
            yield f"  {source.name}: {source.changed}"
    if reading.overlong:
        yield f"  {_many(reading.overlong, 'line')} too long: only the end was read"
    if reading.has_unended:
        what = f" (a record of {reading.unended})" if reading.unended else ""
        yield f"  the last line is incomplete and is not counted{what}"
    for trace in reading.traces:
        yield f"  {trace.name}: {_extent(trace)}" + (f"; {_INVALID}: see below" if traced.contradicts(trace) else "")


def _many(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _extent(trace: Trace) -> str:
    parts = []
    if trace.records:
        parts.append(_many(trace.records, "record"))
    if trace.summaries:
        parts.append(_many(len(trace.summaries), "summary", "summaries"))
    if trace.unread:
        parts.append(f"{_many(trace.unread, 'line')} that cannot be read")
    if trace.dropped:
        parts.append(f"{trace.dropped:,} more dropped by the limit")
    if trace.cut:
        parts.append(f"{_many(trace.cut, 'record')} cut at 1,024 bytes")
    if trace.graphs is not None:
        parts.append(_graphs(trace))
    return ", ".join(part for part in parts if part)


def _graphs(trace: Trace) -> str:
    graphs = trace.graphs
    if graphs is None:
        return ""
    if not graphs.known:
        return "the ends of graphs are unknown" if trace.bounded else ""
    text = f"{_many(graphs.whole, 'whole graph')}" + (f" of {_many(graphs.calls, 'call')}" if graphs.calls else "")
    if graphs.cut:
        text += f", {_many(graphs.cut, 'call')} of a graph that was cut are left out"
    return text


def _print_about(traced: Traced, rows: Sequence[Row], about: str, *, everything: bool) -> None:
    spread = spread_of(rows)
    if spread is None:
        return
    left = 0 if everything else max(len(rows) - SHOWN, 0)
    print()
    print(printable(f"{rows[0].trace} by {about}: {_spread_text(spread)}"))
    print_table(about_table(traced, rows[: len(rows) - left], about))
    if left:
        print(f"{_many(left, 'more row')} with --all")


def _spread_text(spread: Spread) -> str:
    return f"{spread.distinct:,} distinct, entropy {spread.entropy:.2f} bits, top share {spread.top_share:.1%}"


def route_table(traced: Traced, rows: Sequence[Row]) -> Table:
    """Return a table of calls and work, with a row for each route (with its types) of each trace."""
    return _filled(["trace", "route", *_FIGURES], [[row.trace, row.route, *_figures(traced, row)] for row in rows])


def about_table(traced: Traced, rows: Sequence[Row], about: str) -> Table:
    """Return a table of the calls and work of one trace, with a row for each route and shape, or route and tensors."""
    return _filled(["route", about, *_FIGURES], [[row.route, row.about, *_figures(traced, row)] for row in rows])


def _figures(traced: Traced, row: Row) -> list[str]:
    invalid = any(one.name == row.trace and traced.contradicts(one) for one in traced.reading.traces)
    return [
        f"{row.calls:,}" + (f" {_INVALID}" if invalid else ""),
        f"{row.share:.1%}",
        "-" if row.decode is None else f"{row.decode:,}",
        "-" if row.prefill is None else f"{row.prefill:,}",
        scaled(row.work.operations),
        scaled(row.work.bytes),
    ]


def _filled(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of these rows, without the optional columns that are empty."""
    empty = [at for at, name in enumerate(titles) if name in _OPTIONAL and all(row[at] in ("-", "0") for row in rows)]
    return Table(
        titles=[name for at, name in enumerate(titles) if at not in empty],
        rows=[[cell for at, cell in enumerate(row) if at not in empty] for row in rows],
        styles={Change.NEW.value: "green", Change.GONE.value: "bold red"},
        gives={"shape": Give.WORDS, "tensors": Give.WORDS, "route": Give.WORDS},
    )


_FIGURES = ("calls", "share", "decode-like", "prefill-like", "op", "bytes")
_OPTIONAL = (*_FIGURES[2:], "op A", "op B")
_UNITS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def scaled(number: int | None) -> str:
    """Return a number with three digits and a unit prefix, for example `12.3 G`. An unknown number becomes `-`."""
    if number is None:
        return "-"
    for unit, letter in _UNITS:
        if number >= unit:
            return f"{number / unit:.3g} {letter}" if number / unit < 999.5 else f"{number / unit:,.0f} {letter}"
    return str(number)


def fact_table(traced: Traced) -> Table:
    """Return a table of single figures.

    A figure that must not be used is shown as INVALID, with the reason.
    """
    rows = [
        (one.trace, one.name, one.value, f"{_INVALID}: {one.invalid}" if one.invalid else one.note)
        for one in traced.facts
    ]
    return Table(
        titles=("from", "figure", "value", "note"),
        rows=rows,
        styles={},
        gives={"figure": Give.WORDS, "value": Give.WORDS, "note": Give.WORDS},
    )


def answer_table(traced: Traced) -> Table:
    """Return a table of expectations, with their verdicts and what the log shows."""
    rows = [(one.expectation.text, verdict_of_answer(one).value, one.why) for one in traced.answers]
    gives = {"expected": Give.WORDS, "found": Give.WORDS}
    return Table(titles=("expected", "verdict", "found"), rows=rows, styles=VERDICTS, gives=gives)


def print_checks(traced: Traced, *, everything: bool = False) -> None:
    """Describe the log, then print the checks that fail or cannot be judged, and the combined verdict.

    If `everything` is true, print all checks.
    """
    found = [one for one in traced.findings if everything or one.holds is not True]
    for line in log_lines(traced):
        print(printable(line))
    if found:
        print()
        print_table(finding_table(found))
    print(verdict_line(traced.name, traced.checked))


def finding_table(found: Sequence[LogCheck]) -> Table:
    """Return a table of checks, with both sides of each check."""
    rows = [(one.trace, one.what, verdict_of_finding(one).value, one.said, one.found) for one in found]
    return Table(
        titles=("trace", "check", "verdict", "one side", "other side"),
        rows=rows,
        styles=VERDICTS,
        gives={"check": Give.WORDS, "one side": Give.WORDS, "other side": Give.WORDS},
    )


def contradiction_lines(traced: Traced) -> Iterator[str]:
    """Yield a line for each contradiction, and for each check that cannot be judged from the log."""
    for one in traced.findings:
        if one.holds is not True:
            word = "warning: contradiction" if one.holds is False else "note"
            yield f"{word}: {one.trace}: {one.what}: {', but '.join(text for text in (one.said, one.found) if text)}"


def print_comparison(comparison: Comparison, first: Traced, second: Traced, *, everything: bool = False) -> None:
    """Print the counts of two logs, their differences, and a summary.

    If `everything` is false, a table by shape contains only the first rows that differ.
    """
    print(printable(f"A: {first.name}"))
    print(printable(f"B: {second.name}"))
    print(printable(_workload(comparison)))
    print()
    print_table(pair_table(comparison.routes, "trace"))
    for name in dict.fromkeys(one.trace for one in comparison.shapes):
        pairs = [one for one in comparison.shapes if one.trace == name]
        changed = pairs if everything else [one for one in pairs if one.change is not Change.SAME]
        left = 0 if everything else max(len(changed) - SHOWN, 0)
        if changed:
            print()
            print(f"{name} by shape")
            print_table(pair_table(changed[: len(changed) - left], "shape"))
        if left:
            print(f"{_many(left, 'more changed row')} with --all")
    print()
    for line in comparison_lines(comparison):
        print(printable(line))


def _workload(comparison: Comparison) -> str:
    if not comparison.evidence:
        return "workload: the logs do not show whether it is the same"
    if comparison.differing:
        told = "; ".join(f"{one.what}: {one.first} and {one.second}" for one in comparison.differing)
        return f"workload: not the same: {told}"
    return f"workload: the same by {', '.join(one.what for one in comparison.evidence)}"


def pair_table(pairs: Sequence[Pair], by: str) -> Table:
    """Return a table of the calls in both logs, with a row for each route and trace, or route and shape.

    `by` is `trace` or `shape`.
    """
    rows = [
        [
            *([one.trace, one.route] if by == "trace" else [one.route, one.about]),
            f"{one.first:,}",
            f"{one.second:,}",
            f"{one.second - one.first:+,}" if one.first != one.second else "0",
            one.change.value,
            scaled(one.first_work.operations),
            scaled(one.second_work.operations),
        ]
        for one in pairs
    ]
    names = ["trace", "route"] if by == "trace" else ["route", "shape"]
    return _filled([*names, "A", "B", "B - A", "change", "op A", "op B"], rows)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the conclusions of a comparison."""
    for names, which in ((comparison.only_first, "A"), (comparison.only_second, "B")):
        if names:
            yield f"only {which} has records of {', '.join(names)}"
    if comparison.bounded:
        yield f"the records of {', '.join(comparison.bounded)} are incomplete: only the first records are counted"
    if comparison.replayed is not None:
        first, second = comparison.replayed
        yield f"CUDA graphs were replayed {first:,} times in A, {second:,} in B: a replayed graph leaves no records"
    if comparison.same:
        yield (
            "the same routes, the same shapes, equally often: a difference in speed between the two is not a difference"
            " in routes"
        )
    elif comparison.same_kinds:
        yield "the same routes, the same shapes; how often differs"
    else:
        changes = [one.change for one in comparison.shapes]
        parts = [f"{changes.count(change):,} {change.value}" for change in Change if change in changes]
        yield f"routes and shapes differ: {', '.join(parts)}"
