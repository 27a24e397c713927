"""Logs on a screen: what was counted, what contradicts, what two logs have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.llama.traces.contradictions import Finding
from patchstack.llama.traces.reading import Trace
from patchstack.report.streams import VERDICTS
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable
from patchstack.trace.compare import Change, Comparison, Pair
from patchstack.trace.figures import Row, Spread, by_route, by_shape, by_tensor, has_routes, spread_of
from patchstack.trace.traced import Traced
from patchstack.trace.verdicts import verdict_of_answer, verdict_of_finding
from patchstack.verdict import Verdict, verdict_line

SHOWN = 10
_INVALID = Verdict.INVALID.value


def print_traced(traced: Traced, *, everything: bool = False) -> None:
    """Print what a log holds: a line for the log and each trace, then tables. Without `everything`, the rows with the
    most calls."""
    for line in log_lines(traced):
        print(printable(line))
    routed = [trace for trace in traced.reading.traces if has_routes(trace)]
    for title, rows_of in (("", by_route), ("shape", by_shape), ("tensors", by_tensor)):
        tables = [(trace, rows_of(trace, decode_tokens=traced.decode_tokens)) for trace in routed]
        _print_rows(traced, [(trace, rows) for trace, rows in tables if rows], title, everything=everything)
    if traced.facts:
        print()
        print_table(fact_table(traced))
    if traced.answers:
        print()
        print_table(answer_table(traced))
        print(verdict_line(traced.name, traced.verdicts))


def log_lines(traced: Traced) -> Iterator[str]:
    """The log, then each trace: how many records, of how many, and how much of the last graph."""
    reading = traced.reading
    yield f"{traced.name}: {counted(reading.lines, 'line')}, {reading.size:,} bytes"
    for source in traced.sources:
        if source.changed:
            yield f"  {source.name}: {source.changed}"
    if reading.overlong:
        yield f"  {counted(reading.overlong, 'line')} too long to keep: only the end was looked at"
    if reading.has_unended:
        what = f": it names a record of {reading.unended}" if reading.unended else ""
        yield f"  the last line has no end and is not counted{what}"
    for trace in reading.traces:
        yield f"  {trace.name}: {_extent(trace)}" + (f"; {_INVALID}: see below" if traced.contradicts(trace) else "")


def _extent(trace: Trace) -> str:
    parts = []
    if trace.records:
        parts.append(counted(trace.records, "record"))
    if trace.summaries:
        parts.append(counted(len(trace.summaries), "summary", "summaries"))
    if trace.unread:
        parts.append(f"{counted(trace.unread, 'line')} that cannot be read")
    if trace.dropped:
        parts.append(f"{trace.dropped:,} more dropped by the limit")
    if trace.cut:
        parts.append(f"{counted(trace.cut, 'record')} cut at 1,024 bytes")
    if trace.graphs is not None:
        parts.append(_graphs(trace))
    return ", ".join(part for part in parts if part)


def _graphs(trace: Trace) -> str:
    graphs = trace.graphs
    if graphs is None:
        return ""
    if not graphs.known:
        return "where graphs end cannot be told" if trace.bounded else ""
    text = f"{counted(graphs.whole, 'whole graph')}" + (f" of {counted(graphs.calls, 'call')}" if graphs.calls else "")
    if graphs.cut:
        text += f", {counted(graphs.cut, 'call')} of a graph that was cut are left out"
    return text


def _print_rows(traced: Traced, tables: Sequence[tuple[Trace, list[Row]]], title: str, *, everything: bool) -> None:
    shown = [(trace, row) for trace, rows in tables for row in (rows if everything else rows[:SHOWN])]
    if not shown:
        return
    print()
    print_table(row_table(traced, [(trace, row) for trace, row in shown], title))
    for trace, rows in tables:
        spread = spread_of(rows)
        left = len(rows) - SHOWN
        if spread is not None and (title or len(rows) > 1):
            more = f"; {left:,} more rows with --all" if left > 0 and not everything else ""
            print(printable(f"{trace.name}: {_spread_text(spread, title or 'route and type')}{more}"))


def _spread_text(spread: Spread, what: str) -> str:
    return (
        f"{spread.distinct:,} distinct by {what}, entropy {spread.entropy:.2f} bits, top share {spread.top_share:.1%}"
    )


def row_table(traced: Traced, rows: Sequence[tuple[Trace, Row]], title: str) -> Table:
    """Calls and work by route, or by route and `title`. Work of zero operations is data that was only moved."""
    titles = [
        "trace",
        "route",
        *([title] if title else []),
        "calls",
        "share",
        "decode-like",
        "prefill-like",
        "op",
        "bytes",
    ]
    cells = []
    for trace, row in rows:
        invalid = traced.contradicts(trace)
        cells.append(
            [
                row.trace,
                row.route,
                *([row.about] if title else []),
                f"{row.calls:,}" + (f" {_INVALID}" if invalid else ""),
                f"{row.share:.1%}",
                "-" if row.decode is None else f"{row.decode:,}",
                "-" if row.prefill is None else f"{row.prefill:,}",
                scaled(row.work.operations),
                scaled(row.work.bytes),
            ]
        )
    # Columns that say nothing of any row only take room.
    empty = [at for at, name in enumerate(titles) if name in _OPTIONAL and all(one[at] in ("-", "0") for one in cells)]
    return Table(
        titles=[name for at, name in enumerate(titles) if at not in empty],
        rows=[[cell for at, cell in enumerate(one) if at not in empty] for one in cells],
        styles={},
        gives={"shape": Give.WORDS, "tensors": Give.WORDS},
    )


_OPTIONAL = ("decode-like", "prefill-like", "op", "bytes")
_UNITS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def scaled(number: int | None) -> str:
    """A number in three digits: `12.3 G`; `-` if it is not known."""
    if number is None:
        return "-"
    for unit, letter in _UNITS:
        if number >= unit:
            return f"{number / unit:.3g} {letter}" if number / unit < 999.5 else f"{number / unit:,.0f} {letter}"
    return str(number)


def fact_table(traced: Traced) -> Table:
    """Single figures. A figure that may not be used says INVALID, and why."""
    rows = [
        (one.trace, one.name, one.value, f"{_INVALID}: {one.invalid}" if one.invalid else one.note)
        for one in traced.facts
    ]
    return Table(
        titles=("from", "figure", "value", "what to know"),
        rows=rows,
        styles={},
        gives={"figure": Give.WORDS, "value": Give.FOLD, "what to know": Give.FOLD},
    )


def answer_table(traced: Traced) -> Table:
    """What was expected, and what the log shows."""
    rows = [(one.expectation.text, verdict_of_answer(one).value, one.why) for one in traced.answers]
    gives = {"expected": Give.WORDS, "found": Give.FOLD}
    return Table(titles=("expected", "verdict", "found"), rows=rows, styles=VERDICTS, gives=gives)


def print_checks(traced: Traced, *, everything: bool = False) -> None:
    """Print what contradicts or is not shown (with `everything`, all checks), then one verdict."""
    found = [one for one in traced.findings if everything or one.holds is not True]
    for line in log_lines(traced):
        print(printable(line))
    if found:
        print()
        print_table(finding_table(found))
    print(verdict_line(traced.name, traced.checked))


def finding_table(found: Sequence[Finding]) -> Table:
    """Checks with both sides."""
    rows = [(one.trace, one.what, verdict_of_finding(one).value, one.said, one.found) for one in found]
    return Table(
        titles=("trace", "check", "verdict", "one side", "other side"),
        rows=rows,
        styles=VERDICTS,
        gives={"check": Give.FOLD, "one side": Give.FOLD, "other side": Give.FOLD},
    )


def contradiction_lines(traced: Traced) -> Iterator[str]:
    """A line for each contradiction, and for each thing that the log does not show."""
    for one in traced.findings:
        if one.holds is not True:
            word = "warning: contradiction" if one.holds is False else "note"
            yield f"{word}: {one.trace}: {one.what}: {', but '.join(text for text in (one.said, one.found) if text)}"


def print_comparison(comparison: Comparison, first: Traced, second: Traced, *, everything: bool = False) -> None:
    """Print the counts of two logs, what is new and gone, and in a sentence what that means."""
    print(printable(f"A: {first.name}"))
    print(printable(f"B: {second.name}"))
    print(printable(_workload(comparison)))
    for title, pairs in (("", comparison.routes), ("shape", comparison.shapes)):
        changed = [one for one in pairs if one.change is not Change.SAME]
        shown = pairs if everything or not title else changed[:SHOWN]
        if shown:
            print()
            print_table(pair_table(shown, title))
            left = len(changed) - SHOWN
            if title and left > 0 and not everything:
                print(f"{left:,} more changed rows with --all")
    print()
    for line in comparison_lines(comparison):
        print(printable(line))


def _workload(comparison: Comparison) -> str:
    if not comparison.evidence:
        return "workload: nothing in the logs says whether it is the same"
    if comparison.differing:
        told = "; ".join(f"{one.what}: {one.first} and {one.second}" for one in comparison.differing)
        return f"workload: not the same: {told}"
    return f"workload: the same by {', '.join(one.what for one in comparison.evidence)}"


def pair_table(pairs: Sequence[Pair], title: str) -> Table:
    """Calls of both logs by route, or by route and `title`."""
    titles = ["trace", "route", *([title] if title else []), "A", "B", "B - A", "change", "op A", "op B"]
    rows = [
        [
            one.trace,
            one.route,
            *([one.about] if title else []),
            f"{one.first:,}",
            f"{one.second:,}",
            f"{one.second - one.first:+,}" if one.first != one.second else "0",
            one.change.value,
            scaled(one.first_work.operations),
            scaled(one.second_work.operations),
        ]
        for one in pairs
    ]
    empty = [at for at, name in enumerate(titles) if name.startswith("op ") and all(row[at] in "-0" for row in rows)]
    return Table(
        titles=[name for at, name in enumerate(titles) if at not in empty],
        rows=[[cell for at, cell in enumerate(row) if at not in empty] for row in rows],
        styles={Change.NEW.value: "green", Change.GONE.value: "bold red"},
        gives={"shape": Give.WORDS},
    )


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """What the comparison means, in sentences."""
    for names, which in ((comparison.only_first, "A"), (comparison.only_second, "B")):
        if names:
            yield f"only {which} has records of {', '.join(names)}"
    if comparison.bounded:
        yield f"not all records were kept of {', '.join(comparison.bounded)}: counts are of the first ones"
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
