"""Check that the figures of a log are consistent.

A summary counts all calls. Records describe the same calls, but their number may be limited. Therefore sums must equal
totals, counters must match histograms, and the reported number of lines must equal the number of lines in the log.

A contradiction is reported with both values and with the figures that must not be used. If records are lost or
duplicated, no count of records may be used. If a counter contradicts a histogram, neither may be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchstack.llama.traces.formats import (
    ADMISSION,
    CUBLAS_ROUTE,
    CUDA_GRAPH,
    GTRACE,
    KV_PAGED,
    LAYOUT,
    MMID_ROUTE,
    MMQ_SHAPE,
    MUL_MAT_ROUTE,
    NOTEBOOK_MMQ_SHAPE,
    NOTEBOOK_SPEC_SHAPE,
    SERVING,
    SPEC_SHAPE,
)
from patchstack.llama.traces.reading import Reading, Trace
from patchstack.llama.traces.records import Histogram, Summary
from patchstack.llama.traces.recount import Figures, recounted, summed

RECORDS = "records"
"""The entry of `spoils` for a contradiction that affects all counts of records. Other entries are keys of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """A check of a trace.

    `said` and `found` are the two compared values as text. `holds` is None if the log does not show the result. If the
    check fails, `spoils` contains the figures that must not be used: `RECORDS`, or keys of the summary.
    """

    trace: str
    what: str
    said: str
    found: str
    holds: bool | None
    spoils: tuple[str, ...] = ()


def findings(reading: Reading) -> tuple[LogCheck, ...]:
    """Return the results of all checks of a log, in the order of the traces. Successful checks are included."""
    return tuple(_findings(reading))


def _findings(reading: Reading) -> Iterator[LogCheck]:
    speculation = bool(reading.log.requests or reading.log.runs or reading.trace(SPEC_SHAPE.name))
    for trace in reading.traces:
        yield from _readable(trace)
        if trace.format.counted:
            yield from _lines(trace)
            yield from _records_against_summary(trace)
            for summary in trace.summaries:
                yield from _within_summary(summary)
                if trace.name == SERVING.name:
                    yield from _decode_only(summary, speculation=speculation)
        if trace.name == SERVING.name:
            yield from _steps(trace)
        elif trace.name == KV_PAGED.name:
            yield from _paged(trace)
        elif trace.name == GTRACE.name:
            for summary in trace.summaries:
                yield _sum(summary, "calls", [key for key in summary.counters if key not in ("calls", "distinct_keys")])
        elif trace.name == ADMISSION.name:
            for summary in trace.summaries:
                yield from _admission(summary, speculation=speculation)
        yield from _within_records(trace)
    for problem in reading.log.disagreeing:
        yield LogCheck(
            trace="llama.cpp", what="figures of a line", said=problem, found="", holds=False, spoils=("acceptance",)
        )
    if reading.torn or reading.other_names:
        yield LogCheck(
            trace="log",
            what="records that can be read",
            said=f"names of records in lines too long to keep: {reading.torn:,}",
            found=f"records of further names: {reading.other_names:,}",
            holds=False,
            spoils=(RECORDS,),
        )
    if reading.unended is not None:
        yield LogCheck(
            trace=reading.unended,
            what="a last line with its end",
            said="the last line is a record",
            found="it has no end: it may be cut, and is not counted",
            holds=None,
        )


def _finding(
    trace: str, what: str, said: tuple[str, int], found: tuple[str, int], *, spoils: tuple[str, ...], most: bool = False
) -> LogCheck:
    holds = said[1] >= found[1] if most else said[1] == found[1]
    return LogCheck(
        trace=trace,
        what=what,
        said=f"{said[0]} {said[1]:,}",
        found=f"{found[0]} {found[1]:,}",
        holds=holds,
        spoils=() if holds else spoils,
    )


def _many(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def _readable(trace: Trace) -> Iterator[LogCheck]:
    for problem in trace.unreadable:
        yield LogCheck(
            trace=trace.name,
            what="records that can be read",
            said=f"lines that name one: {problem.count:,}, the first is line {problem.line:,}",
            found=problem.why,
            holds=False,
            spoils=(RECORDS,),
        )
    if trace.odd:
        yield LogCheck(
            trace=trace.name,
            what="graphs hold each tensor once",
            said=f"graphs with a tensor twice, or with a cut name that no other graph has: {trace.odd:,}",
            found="lines may be duplicated, and others lost",
            holds=None,
        )
    if trace.overflowed:
        yield LogCheck(
            trace=trace.name,
            what="shapes that fit the table",
            said=_many(trace.records),
            found=f"{trace.overflowed:,} came after it was full: routes and types are counted, shapes are not",
            holds=None,
        )


def _lines(trace: Trace) -> Iterator[LogCheck]:
    if not trace.summaries:
        yield LogCheck(
            trace=trace.name,
            what="lines against the summary",
            said="no summary",
            found=f"{_many(trace.records)}: killed, or cut short; it is not known whether there were more",
            holds=None,
        )
        return
    said = sum(summary.lines or 0 for summary in trace.summaries)
    of = f"{len(trace.summaries)} summaries: lines" if len(trace.summaries) > 1 else "lines"
    yield _finding(
        trace.name,
        "lines against the summary",
        (of, said),
        ("records", trace.records + trace.unread),
        spoils=(RECORDS,),
    )


def _records_against_summary(trace: Trace) -> Iterator[LogCheck]:
    counted = recounted(trace) if trace.summaries and trace.records else None
    if counted is None or trace.overflowed:
        return
    said = summed(trace.summaries)
    complete = trace.dropped == 0 and len(trace.summaries) > 0
    yield from _counters_against(trace.name, said, counted, complete=complete)
    for key, histogram in counted.histograms.items():
        told = said.histograms.get(key, Histogram(()))
        holds = told == histogram if complete else _within(histogram, told)
        yield LogCheck(
            trace=trace.name,
            what=f"{key} of the records",
            said=f"the summary says {str(told) or 'none'}",
            found=f"the records give {str(histogram) or 'none'}",
            holds=holds,
            spoils=() if holds else (RECORDS, key),
        )


def _counters_against(name: str, said: Figures, counted: Figures, *, complete: bool) -> Iterator[LogCheck]:
    keys = [*counted.counters, *(key for key in said.counters if complete and _is_count(name, key, counted))]
    for key in dict.fromkeys(keys):
        yield _finding(
            name,
            f"{key} of the records",
            ("the summary says", said.counters.get(key, 0)),
            ("the records give", counted.counters.get(key, 0)),
            spoils=(RECORDS, key),
            most=not complete,
        )
    for key, value in counted.largest.items():
        yield _finding(
            name,
            f"{key} of the records",
            ("the summary says", said.largest.get(key, 0)),
            ("the records give", value),
            spoils=(RECORDS, key),
            most=not complete,
        )


def _is_count(name: str, key: str, counted: Figures) -> bool:
    """Return whether a counter of a summary counts records that the log does not contain."""
    if key in ("lines", "dropped", "other") or key in counted.counters:
        return False
    return name in (
        MUL_MAT_ROUTE.name,
        MMID_ROUTE.name,
        CUBLAS_ROUTE.name,
        LAYOUT.name,
        SPEC_SHAPE.name,
        MMQ_SHAPE.name,
    )


def _within(part: Histogram, whole: Histogram) -> bool:
    has = dict(whole.buckets)
    return all(count <= has.get(bucket, 0) for bucket, count in part.buckets)


def _within_summary(summary: Summary) -> Iterator[LogCheck]:
    """Yield the checks of the figures in one summary."""
    name, counters = summary.format.name, summary.counters
    if "other" in counters:
        return  # `other` combines parts that are not listed, so their sum cannot be checked
    total = counters["lines"] + counters["dropped"]
    routes = summary.format.routes
    if routes and name != CUDA_GRAPH.name:
        parts = [key for key in routes if key in counters]
        known = sum(counters[key] for key in parts)
        yield _finding(
            name,
            "calls against lines and dropped",
            ("lines + dropped are", total),
            (f"{' + '.join(parts) or 'no counter'}:", known),
            spoils=(*parts, RECORDS),
        )
    if name == MMQ_SHAPE.name:
        yield _finding(
            name,
            "calls against lines and dropped",
            ("lines + dropped are", total),
            ("calls", counters.get("calls", 0)),
            spoils=("calls", RECORDS),
        )
        yield _sum(summary, "calls", [key for key in counters if key.startswith("mmq_x.")])
    if name == CUDA_GRAPH.name:
        yield _sum(summary, "calls", list(routes))
    if name == MUL_MAT_ROUTE.name:
        types = [key for key in counters if key.startswith("type.")]
        yield _finding(
            name,
            "types against calls",
            ("lines + dropped are", total),
            ("types together", sum(counters[key] for key in types)),
            spoils=tuple(types),
        )
    if name == SPEC_SHAPE.name:
        drafts = {key: counters[key] for key in counters if key.startswith("draft.")}
        yield _finding(
            name,
            "drafts against verify steps",
            ("verify", counters.get("verify", 0)),
            ("drafts together", sum(drafts.values())),
            spoils=("verify", *drafts),
        )
        rows = total + sum(int(key.removeprefix("draft.")) * n for key, n in drafts.items() if key[6:].isdigit())
        yield _finding(
            name, "rows against drafts", ("rows", counters.get("rows", 0)), ("1 + draft each", rows), spoils=("rows",)
        )
    yield from _histograms(summary)


def _histograms(summary: Summary) -> Iterator[LogCheck]:
    """Yield up to two checks for each histogram.

    The number of its values must equal the number of calls. The total of the values must be possible for its buckets.
    """
    name, counters = summary.format.name, summary.counters
    for key, histogram in summary.histograms.items():
        route, _, field = key.rpartition(".")
        of = route or {"density_hist": "calls", "ncols_max_hist": "calls"}.get(field, "steps")
        if of in counters:
            yield _finding(name, f"{key} against {of}", (of, counters[of]), (key, histogram.total), spoils=(key, of))
    for key, total in _TOTALS.get(name, ()):
        if key in summary.histograms and total in counters:
            yield _total(name, key, summary.histograms[key], total, counters[total])


_TOTALS = {
    SERVING.name: (("decode_hist", "decode_tokens"), ("prompt_hist", "prompt_tokens"), ("waiting_hist", "waiting")),
    ADMISSION.name: (
        ("decode_hist", "decode_tokens"),
        ("prompt_hist", "prompt_tokens"),
        ("waiting_hist", "waiting_prompt_slots"),
    ),
}


def _total(name: str, key: str, histogram: Histogram, total: str, value: int) -> LogCheck:
    most = histogram.most
    holds = histogram.least <= value and (most is None or value <= most)
    return LogCheck(
        trace=name,
        what=f"{total} within {key}",
        said=f"{total} {value:,}",
        found=f"{key} gives {histogram.least:,} to {'any number' if most is None else f'{most:,}'}",
        holds=holds,
        spoils=() if holds else (total, key),
    )


def _sum(summary: Summary, whole: str, parts: list[str]) -> LogCheck:
    there = [key for key in parts if key in summary.counters]
    return _finding(
        summary.format.name,
        f"{whole} against its parts",
        (whole, summary.counters.get(whole, 0)),
        (f"{' + '.join(there) or 'no part'}:", sum(summary.counters[key] for key in there)),
        spoils=(whole, *there),
    )


def decode_only(counters: Mapping[str, int], histograms: Mapping[str, Histogram], *, speculation: bool) -> range | None:
    """Return the possible numbers of decode-only steps, computed from the histograms of a summary.

    The summary's own counter is not used. Return None if the summary does not have the histograms.

    A step with decode tokens and without prompt tokens is decode-only. A step is also decode-only if its number of
    decode tokens is at least the number of prompts that were ever started, because then all prompts have been read.
    This is not true with speculation, because a slot can then have several decode tokens in one step.
    """
    prompt, decode = histograms.get("prompt_hist"), histograms.get("decode_hist")
    if prompt is None or decode is None:
        return None
    least = max(prompt.zeros - decode.zeros, 0)
    started = counters.get("started_prompt_slots", counters.get("started", 0))
    if started and not speculation:
        least = max(least, decode.at_least(started))
    return range(least, min(prompt.zeros, decode.total - decode.zeros) + 1)


def _decode_only(summary: Summary, *, speculation: bool) -> Iterator[LogCheck]:
    """Yield a check that compares the counter of decode-only steps with the histograms."""
    name, counters = summary.format.name, summary.counters
    said = counters.get("decode_only_steps")
    possible = decode_only(counters, summary.histograms, speculation=speculation)
    if said is not None and possible is not None:
        low, high = possible.start, possible.stop - 1
        steps = counters.get("steps", 0)
        told = f"exactly {low:,}" if low == high else f"at least {low:,} and at most {high:,}"
        holds = said in possible
        yield LogCheck(
            trace=name,
            what="decode_only_steps against the histograms",
            said=f"decode_only_steps {said:,}",
            found=f"the histograms say {told} of {steps:,}",
            holds=holds,
            spoils=() if holds else ("decode_only_steps",),
        )


def _admission(summary: Summary, *, speculation: bool) -> Iterator[LogCheck]:
    """Yield the checks of a summary in the notebook's trace of a server's steps."""
    counters = summary.counters
    yield from _histograms(summary)
    yield from _decode_only(summary, speculation=speculation)
    if "waiting_prompt_slots" in counters:
        yield _sum(summary, "waiting_prompt_slots", ["started_prompt_slots", "continued_prompt_slots"])


def _steps(trace: Trace) -> Iterator[LogCheck]:
    """Yield the check that the steps of each process are numbered from 1 without gaps."""
    steps = trace.steps
    if steps is None:
        return
    if trace.summaries:
        lengths = [summary.lines or 0 for summary in trace.summaries]
        known = sum(lengths) == steps.count
    else:
        lengths, known = [steps.count], True
    if not known:
        return  # the comparison of the lines with the summary has reported the difference
    total = sum(n * (n + 1) // 2 for n in lengths)
    squares = sum(n * (n + 1) * (2 * n + 1) // 6 for n in lengths)
    holds = (total, squares) == (steps.total, steps.squares)
    yield LogCheck(
        trace=trace.name,
        what="steps are numbered without a gap",
        said=_many(steps.count),
        found=f"numbers to {steps.largest:,}"
        + (
            "" if holds else ": some are missing, or occur twice" + ("" if trace.summaries else ", or of two processes")
        ),
        holds=holds,
        spoils=() if holds else (RECORDS,),
    )


def _paged(trace: Trace) -> Iterator[LogCheck]:
    if not trace.summaries:
        return
    said = summed(trace.summaries)
    lines = said.counters.get("lines", 0)
    yield _finding(
        trace.name,
        "lines against the summary",
        ("lines", lines),
        ("records", trace.records + trace.unread),
        spoils=(RECORDS,),
    )
    events = trace.by("event")
    if "cells" in said.counters:
        complete = events.get(("place",), 0) == said.counters.get("place", 0)
        yield _finding(
            trace.name,
            "cells of the records",
            ("the summary says", said.counters["cells"]),
            ("the records give", trace.sums.get("place", 0)),
            spoils=(RECORDS, "cells"),
            most=not complete,
        )
    # `place` is not compared, because it counts ubatches, and an ubatch has one record per stream.
    for event in ("defrag", "fallback", "full", "desync"):
        if event in said.counters:
            yield _finding(
                trace.name,
                f"{event} of the records",
                ("the summary says", said.counters[event]),
                ("the records give", events.get((event,), 0)),
                spoils=(RECORDS, event),
                most=True,
            )


def _within_records(trace: Trace) -> Iterator[LogCheck]:
    """Yield the checks of values that can be computed from other values of the same record."""
    rules = _RULES.get(trace.name)
    if rules is None:
        return
    keys, wanted, what = rules
    if not all(key in trace.keys for key in keys):
        return
    checked = 0
    for values, count in trace.by(*keys, left_out=True).items():
        if not all(isinstance(value, int) for value in values):
            continue
        numbers = dict(zip(keys, (value for value in values if isinstance(value, int)), strict=True))
        checked += count
        for key, told in wanted(numbers).items():
            if numbers[key] != told:
                yield LogCheck(
                    trace=trace.name,
                    what=f"{key} of {_many(count)}",
                    said=f"{key} {numbers[key]:,}",
                    found=f"{' '.join(f'{name}={numbers[name]}' for name in keys if name != key)} give {told:,}",
                    holds=False,
                    spoils=(RECORDS,),
                )
    if checked:
        yield LogCheck(trace=trace.name, what=what, said=_many(checked), found="looked at", holds=True)


def _spec_rule(values: Mapping[str, int]) -> dict[str, int]:
    return {"rows": 1 + values["draft"], "outputs": 1 + values["draft"]}


def _mmq_rule(values: Mapping[str, int]) -> dict[str, int]:
    active = min(values["ncols_dst"], values["nchannels_x"])
    return {"n_active_est": active, "density": -(-values["ncols_dst"] // active) if active else 0}


_SPEC = (("rows", "outputs", "draft"), _spec_rule, "rows and outputs are 1 + draft")
_MMQ = (
    ("ncols_dst", "nchannels_x", "n_active_est", "density"),
    _mmq_rule,
    "density is columns for each active expert",
)
_RULES = {
    SPEC_SHAPE.name: _SPEC,
    NOTEBOOK_SPEC_SHAPE.name: _SPEC,
    MMQ_SHAPE.name: _MMQ,
    NOTEBOOK_MMQ_SHAPE.name: _MMQ,
}
