"""Compute the counters and histograms that a summary must have, from the records of its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from patchstack.llama.traces.formats import (
    CUBLAS_ROUTE,
    LAYOUT,
    MMID_ROUTE,
    MMQ_SHAPE,
    MUL_MAT_ROUTE,
    SERVING,
    SPEC_SHAPE,
)
from patchstack.llama.traces.reading import Trace
from patchstack.llama.traces.records import Histogram, Summary, merged, power_histogram


@dataclass(slots=True)
class Figures:
    """The figures of a summary, by key. `counters` are sums, and `largest` are maxima."""

    counters: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)


LARGEST = frozenset(("waiting_max", "deferred_max", "draft_max", "nodes_max"))
"""The keys in summaries whose values are maxima and not sums."""


def summed(summaries: Iterable[Summary]) -> Figures:
    """Return the combined figures of the summaries of several processes.

    A histogram is omitted if the buckets of the processes overlap without being equal.
    """
    found = Figures()
    histograms: dict[str, list[Histogram]] = {}
    for summary in summaries:
        for key, value in summary.counters.items():
            if key in LARGEST:
                found.largest[key] = max(value, found.largest.get(key, 0))
            else:
                found.counters[key] = value + found.counters.get(key, 0)
        for key, histogram in summary.histograms.items():
            histograms.setdefault(key, []).append(histogram)
    for key, several in histograms.items():
        whole = merged(several)
        if whole is not None:
            found.histograms[key] = whole
    return found


def recounted(trace: Trace) -> Figures | None:
    """Return the figures that the summary of a trace must have, computed from the records.

    Return None if the figures of this summary cannot be computed from records.
    """
    makers: dict[str, Callable[[Trace], Figures]] = {
        SERVING.name: _serving,
        SPEC_SHAPE.name: _spec_shape,
        LAYOUT.name: _layout,
        MMID_ROUTE.name: lambda one: _routes(one, "ne2"),
        MUL_MAT_ROUTE.name: _mul_mat,
        CUBLAS_ROUTE.name: lambda one: _routes(one, "src1_ncols"),
        MMQ_SHAPE.name: _mmq_shape,
    }
    make = makers.get(trace.name)
    return None if make is None else make(trace)


def _rows(trace: Trace, *keys: str) -> Iterable[tuple[tuple[int, ...], int]]:
    for values, count in trace.by(*keys, left_out=True).items():
        yield tuple(value if isinstance(value, int) else 0 for value in values), count


def _serving(trace: Trace) -> Figures:
    found = Figures()
    kinds = dict.fromkeys(("decode_only_steps", "prompt_only_steps", "mixed_steps", "empty_steps"), 0)
    for (decode, prompt), count in _rows(trace, "decode_tokens", "prompt_tokens"):
        kind = ("empty_steps", "prompt_only_steps") if not decode else ("decode_only_steps", "mixed_steps")
        kinds[kind[prompt > 0]] += count
    found.counters = {"steps": trace.records, **kinds}
    for key in ("decode_tokens", "prompt_tokens", "started", "continued", "waiting"):
        found.counters[key] = sum(value * count for (value,), count in _rows(trace, key))
    for key, of in (("waiting_max", "waiting"), ("deferred_max", "deferred")):
        found.largest[key] = max((value for (value,), _ in _rows(trace, of)), default=0)
    for key, of in (("decode_hist", "decode_tokens"), ("prompt_hist", "prompt_tokens"), ("waiting_hist", "waiting")):
        found.histograms[key] = power_histogram(trace.numbers(of))
    return found


def _spec_shape(trace: Trace) -> Figures:
    found = Figures()
    for (kind,), count in trace.by("kind", left_out=True).items():
        found.counters[str(kind)] = count
    found.counters["rows"] = sum(rows * count for (rows,), count in _rows(trace, "rows"))
    found.largest["draft_max"] = max((draft for (draft,), _ in _rows(trace, "draft")), default=0)
    for (kind, draft), count in trace.by("kind", "draft", left_out=True).items():
        if kind == "verify":
            found.counters[f"draft.{draft}"] = count
    return found


def _layout(trace: Trace) -> Figures:
    found = Figures()
    for (op, size), count in trace.by("op", "bytes", left_out=True).items():
        found.counters[str(op)] = found.counters.get(str(op), 0) + count
        moved = size * count if isinstance(size, int) else 0
        found.counters[f"{op}.bytes"] = found.counters.get(f"{op}.bytes", 0) + moved
    return found


def _routes(trace: Trace, tokens: str) -> Figures:
    found = Figures()
    widths: dict[str, list[tuple[int, int]]] = {}
    for (route, width), count in trace.by("route", tokens, left_out=True).items():
        found.counters[str(route)] = found.counters.get(str(route), 0) + count
        if isinstance(width, int):
            widths.setdefault(str(route), []).append((width, count))
    found.histograms = {f"{route}.{tokens}_hist": power_histogram(one) for route, one in widths.items()}
    return found


def _mul_mat(trace: Trace) -> Figures:
    found = _routes(trace, "ne1")
    for (kind,), count in trace.by("type", left_out=True).items():
        found.counters[f"type.{kind}"] = count
    return found


def _mmq_shape(trace: Trace) -> Figures:
    found = Figures()
    found.counters = {
        "calls": trace.records,
        "fixup": sum(value * count for (value,), count in _rows(trace, "fixup")),
    }
    for (width,), count in trace.by("mmq_x_best", left_out=True).items():
        found.counters[f"mmq_x.{width}"] = count
    for key in ("density", "ncols_max"):
        found.histograms[f"{key}_hist"] = power_histogram(trace.numbers(key))
    return found
