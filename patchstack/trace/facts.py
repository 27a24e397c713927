"""Extract single figures from a log.

The figures describe a server's steps, drafts, graphs, times, buffers and checkpoints. If a figure must not be used, the
reason is included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.llama.traces.contradictions import RECORDS, LogCheck
from patchstack.llama.traces.formats import (
    ADMISSION,
    FORCE_GRAPHS,
    KV_PAGED,
    NOTEBOOK_SPEC_SHAPE,
    SERVING,
    SPEC_SHAPE,
)
from patchstack.llama.traces.log_figures import mean_length
from patchstack.llama.traces.log_lines import Acceptance
from patchstack.llama.traces.reading import Log, Reading, Trace
from patchstack.llama.traces.recount import Figures, recounted, summed
from patchstack.trace.figures import has_routes, spread

_MEANINGS = {
    (ADMISSION.name, "waiting_prompt_slots"): "prompts that were started or continued, unlike waiting of trace_serving",
    (SERVING.name, "waiting"): "prompts that got no token, unlike waiting_prompt_slots of the notebook",
    (SERVING.name, "started"): "prompts that got their first tokens",
    (SERVING.name, "continued"): "prompts that continued",
}
_OF_CALLS = ("USED", "replayed")
_LENGTH_OF_STEP = ("decode_tokens", "prompt_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A figure of a log. `trace` is the trace that it comes from, or `llama.cpp`.

    `invalid` is the reason why the figure must not be used. It is empty if the figure may be used.
    """

    trace: str
    name: str
    value: str
    note: str = ""
    invalid: str = ""


def facts(reading: Reading, findings: Sequence[LogCheck]) -> tuple[Fact, ...]:
    """Return the figures of a log, in trace order. The figures that llama.cpp itself prints are last."""
    found = []
    for trace in reading.traces:
        broken = [one for one in findings if one.holds is False and one.trace in (trace.name, "log")]
        found += list(_of_trace(trace, broken))
    denied = [one for one in findings if one.holds is False and one.trace == "llama.cpp"]
    return (*found, *_of_log(reading.log, denied))


def figures_of(trace: Trace) -> Figures | None:
    """Return the figures of a trace.

    If the trace has a summary, the figures come from the summary, because it counts everything. Otherwise they are
    computed from the records. Return None if there is no summary and the figures cannot be computed from the records,
    for example because the trace's table of shapes was too small for all records.
    """
    if trace.summaries:
        return summed(trace.summaries)
    return None if trace.overflowed else recounted(trace)


def _of_trace(trace: Trace, broken: Sequence[LogCheck]) -> Iterator[Fact]:
    figures = figures_of(trace)
    if figures is not None and not has_routes(trace):
        yield from _of_summary(trace, figures, broken)
    if trace.name == KV_PAGED.name:
        yield from _of_paged(trace, broken)
    if trace.name in (SPEC_SHAPE.name, NOTEBOOK_SPEC_SHAPE.name):
        yield from _of_drafts(trace, broken)


def _of_summary(trace: Trace, figures: Figures, broken: Sequence[LogCheck]) -> Iterator[Fact]:
    counters = {key: value for key, value in figures.counters.items() if key not in ("lines", "dropped")}
    steps = counters.get("steps", 0)
    whole = "" if trace.summaries else _why(broken, RECORDS)
    for key, value in {**counters, **figures.largest}.items():
        note = _MEANINGS.get((trace.name, key), "")
        if steps and key in _LENGTH_OF_STEP:
            note = f"{value / steps:.2f} a step"
        elif steps and key.endswith("_steps"):
            note = f"{value / steps:.1%} of the steps"
        elif key in _OF_CALLS and counters.get("calls"):
            note = f"{value / counters['calls']:.1%} of the calls"
        elif trace.name == FORCE_GRAPHS.name:
            note = "nodes"
        yield Fact(trace=trace.name, name=key, value=f"{value:,}", note=note, invalid=whole or _why(broken, key))
    for key, histogram in figures.histograms.items():
        yield Fact(
            trace=trace.name, name=key, value=str(histogram).replace(",", " "), invalid=whole or _why(broken, key)
        )


def _of_paged(trace: Trace, broken: Sequence[LogCheck]) -> Iterator[Fact]:
    for (event,), count in sorted(trace.by("event").items(), key=lambda item: (-item[1], str(item[0]))):
        yield Fact(
            trace=trace.name, name=f"event {event}", value=f"{count:,}", note="records", invalid=_why(broken, RECORDS)
        )
    held = [one for one in trace.last.values() if one.get("num_free") != one.get("num_blocks")]
    if trace.last:
        note = "all blocks are free" if not held else "blocks are held"
        yield Fact(trace=trace.name, name="places with blocks held at the end", value=str(len(held)), note=note)


def _of_drafts(trace: Trace, broken: Sequence[LogCheck]) -> Iterator[Fact]:
    invalid = _why(broken, RECORDS)
    for (kind,), count in sorted(trace.by("kind").items(), key=str):
        yield Fact(trace=trace.name, name=f"records of {kind}", value=f"{count:,}", invalid=invalid)
    drafts = {f"draft={value}": count for (kind, value), count in trace.by("kind", "draft").items() if kind == "verify"}
    before = next((key for key in ("batch_before", "batch_after") if _has(trace, key)), None)
    for what, counts in (
        ("drafts of verify steps", drafts),
        ("rows", {f"rows={value}": count for (value,), count in trace.by("rows").items()}),
        (before or "", {str(value): count for (value,), count in trace.by(before or "").items()} if before else {}),
    ):
        one = spread(counts)
        if one is not None:
            yield Fact(
                trace=trace.name,
                name=what,
                value=f"{one.distinct} distinct, {one.entropy:.2f} bits",
                note=f"most often {one.top}: {one.top_share:.1%}",
                invalid=invalid,
            )


def _has(trace: Trace, key: str) -> bool:
    return any(value != "-" for (value,) in trace.by(key)) if key in trace.keys else False


def _of_log(log: Log, denied: Sequence[LogCheck]) -> Iterator[Fact]:
    for (what, of_request), time in log.times.items():
        seconds = time.milliseconds / 1000
        tokens = "" if time.tokens is None else f" / {time.tokens:,} tokens"
        rate = f"{time.tokens / seconds:,.1f} a second" if time.tokens and seconds > 0 else ""
        name = f"{what} time of {time.lines} requests" if of_request else f"{what} time"
        yield Fact(trace="llama.cpp", name=name, value=f"{seconds:,.3f} s{tokens}", note=rate)
    if log.reused_last is not None:
        note = "" if log.reused_last == log.reused_largest else f"largest {log.reused_largest:,}"
        yield Fact(trace="llama.cpp", name="graphs reused", value=f"{log.reused_last:,}", note=note)
    runs = log.runs
    for line in (*([log.requests] if log.requests else []), *runs[-1:]):
        name = "draft acceptance of all requests" if line.of_request else "draft acceptance"
        yield Fact(
            trace="llama.cpp",
            name=name,
            value=f"{line.accepted / line.generated:.5f}" if line.generated else "-",
            note=acceptance_note(line),
            invalid=denied[0].said if denied else "",
        )
    for (device, what), buffer in log.buffers.items():
        note = f"largest {buffer.largest:,.2f}" if buffer.largest != buffer.last else ""
        yield Fact(trace="llama.cpp", name=f"{device} {what} buffer", value=f"{buffer.last:,.2f} MiB", note=note)
    for event, seen in log.checkpoints.items():
        name = "full reprocessing of a prompt" if event == "full" else f"checkpoints {event}"
        note = f"{seen.mib:,.1f} MiB, {seen.tokens:,} tokens" if event != "full" else ""
        yield Fact(trace="llama.cpp", name=name, value=f"{seen.lines:,}", note=note)


def acceptance_note(line: Acceptance) -> str:
    """Return the counts of a draft acceptance, and the mean length if the log shows the acceptance rates.

    Example: `7,372 of 9,340; mean length 3.335 = 1 + 0.877 + 0.767 + 0.691`.
    """
    text = f"{line.accepted:,} of {line.generated:,}"
    if line.rates:
        text += f"; mean length {mean_length(line.rates):g} = 1 + {' + '.join(line.rates)}"
    return text


def _why(broken: Sequence[LogCheck], key: str) -> str:
    """Return the contradiction that makes the figure `key` unusable, or an empty string if there is none."""
    found = next((one for one in broken if key in one.spoils), None)
    if found is None:
        return ""
    return ", but ".join(text for text in (found.said, found.found) if text)
