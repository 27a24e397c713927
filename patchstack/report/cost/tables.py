"""Show a cost document as tables and lines on a terminal.

The unit of a figure is shown in its cell or in the column title.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchstack.report.documents.cost import (
    CostCompared,
    CostDecode,
    CostDocument,
    CostElasticity,
    CostMachine,
    CostMemory,
    CostModel,
    CostPrefill,
    CostPrefix,
    CostState,
    CostVariation,
    CostWeights,
)
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table with its title. The `lines` are printed after the table."""

    title: str
    table: Table
    lines: tuple[str, ...] = ()


def print_document(document: CostDocument) -> None:
    """Print every section that a document contains."""
    for line in about_lines(document):
        print(printable(line))
    for section in sections_of(document):
        print(f"\n{section.title}\n")
        print_table(section.table)
        for line in section.lines:
            print(printable(line))
    if document.assumptions:
        print("\nassumptions\n")
        for line in document.assumptions:
            print(printable(f"- {line}"))


def about_lines(document: CostDocument) -> Iterator[str]:
    """Yield the model, the machine, and options that were not understood."""
    if document.model is not None:
        yield from model_lines(document.model)
    yield from machine_lines(document.machine)
    if document.options is not None and document.options.unknown:
        yield f"unknown  {', '.join(document.options.unknown)}"


def sections_of(document: CostDocument) -> Iterator[Section]:
    """Yield the sections that a document contains."""
    if (weights := document.weights) is not None:
        yield Section(title="weights", table=weights_table(weights), lines=tuple(weights_lines(weights)))
    if (memory := document.memory) is not None:
        yield Section(title="memory", table=memory_table(memory), lines=tuple(memory_lines(memory)))
    if document.decode is not None:
        yield Section(title="decode", table=decode_table(document.decode), lines=tuple(_outweighing(document)))
    if document.prefill is not None:
        yield Section(title="prefill", table=prefill_table(document.prefill), lines=tuple(_unknown_peaks(document)))
    if document.state is not None:
        yield Section(title="recurrent state", table=state_table(document.state))
    if document.elasticities is not None:
        if (table := sensitivity_table(document.elasticities)).rows:  # an input of 0 has no elasticity
            yield Section(title="elasticities", table=table)
        yield Section(title="range", table=variation_table(document.variations or ()))
    if document.compared is not None:
        yield Section(title="measured over floor", table=compared_table(document.compared))
    if (prefix := document.prefix) is not None:
        yield Section(title="steps", table=prefix_table(prefix), lines=tuple(prefix_lines(prefix)))
        if prefix.ways:
            yield Section(title="other ways", table=ways_table(prefix))


def machines_table(machines: Mapping[str, CostMachine]) -> Table:
    """Return a table with a row for each figure."""
    rows = [
        [name, one.name, one.text, one.origin, f"{one.source}, {one.date}"]
        for name, machine in machines.items()
        for one in machine.figures
    ]
    titles = ("machine", "figure", "value", "origin", "source")
    return Table(titles=titles, rows=rows, styles={}, gives={"source": Give.FOLD})


def _outweighing(document: CostDocument) -> Iterable[str]:
    for one in document.outweigh or ():
        if one.streams is not None:
            many = counted(one.streams, "stream")
            yield f"at {one.context_tokens:,} tokens, KV and state outweigh the weights from {many} on"


def _unknown_peaks(document: CostDocument) -> Iterable[str]:
    lacking = sorted({name for one in document.prefill or () for name in one.unknown_peaks})
    if lacking:
        yield f"the floor is unknown: the machine file has no peak for {', '.join(lacking)}"


_STYLES = {"PASS": "green", "INVALID": "yellow"}


def size(count: float | None) -> str:
    """Return bytes as text in binary units, for example `62.81 MiB`. None becomes `not counted`."""
    if count is None:
        return "not counted"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:,.2f} {unit}"
    return f"{count:,.0f} B"


def gigabytes(count: float) -> str:
    """Return bytes as text in decimal units, for example `19.75 GB`. Bandwidths are also shown in decimal units."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.2f} {unit}"
    return f"{count:,.0f} B"


def duration(milliseconds: float | None) -> str:
    """Return a duration as text, for example `72.4 ms` or `12.3 s`. None becomes `unknown`."""
    if milliseconds is None:
        return "unknown"
    if milliseconds >= 1e4:
        return f"{milliseconds / 1e3:,.1f} s"
    if milliseconds >= 1:
        return f"{milliseconds:,.4g} ms" if milliseconds < 1000 else f"{milliseconds:,.0f} ms"
    return f"{milliseconds * 1e3:,.3g} µs"


def percent(share: float | None) -> str:
    """Return a share as a percentage, for example `57.0%`. None becomes `unknown`."""
    return "unknown" if share is None else f"{100 * share:,.1f}%"


def model_lines(model: CostModel) -> Iterator[str]:
    """Yield lines that describe a model."""
    files = f", {model.files} files" if model.files > 1 else ""
    told = f"{counted(model.tensors, 'tensor')}, {gigabytes(model.tensor_bytes)}{files}"
    yield f"model    {model.name} ({model.architecture}): {told}"
    if model.memory is None:
        yield "memory   unknown for this architecture"
        return
    parts = (
        [f"{counted(model.kv_layers, 'layer')} with KV ({size(model.kv_bytes_a_token)} a token)"]
        if model.kv_layers
        else []
    )
    if model.window_layers:
        parts.append(f"{model.window_layers} of them with a window of {model.window_tokens:,} tokens")
    if model.recurrent_layers:
        parts.append(
            f"{counted(model.recurrent_layers, 'recurrent layer')} ({size(model.state_bytes_a_sequence)} a sequence)"
        )
    if model.draft_layers:
        parts.append(f"{counted(model.draft_layers, 'draft layer')}")
    yield f"memory   {'; '.join(parts) or 'none'}"


def machine_lines(machine: CostMachine | None) -> Iterator[str]:
    """Yield the figures of a machine, with their sources."""
    if machine is None:
        return
    yield f"machine  {machine.name}"
    for one in machine.figures:
        date = f", {one.date}" if one.date else ""
        yield f"         {one.name} {one.text} ({one.origin}: {one.source}{date})"


def weights_table(weights: CostWeights) -> Table:
    """Return a table with a row for each group and type."""
    rows = [
        [one.group, one.type, str(one.tensors), gigabytes(one.file_bytes), gigabytes(one.step_bytes)]
        for one in weights.groups
    ]
    rows.append(
        [
            "all",
            "",
            str(sum(one.tensors for one in weights.groups)),
            gigabytes(weights.file_bytes),
            gigabytes(weights.step_bytes),
        ]
    )
    return Table(titles=("group", "type", "tensors", "in the file", "read in a step"), rows=rows, styles={})


def weights_lines(weights: CostWeights) -> Iterator[str]:
    """Yield how many experts a step reads, and whether the head is the embedding table."""
    if weights.distinct_experts is not None:
        step = f"a step of {counted(weights.step_tokens, 'token')}"
        yield f"{step} reads {weights.distinct_experts:,.1f} of {weights.experts} experts a layer ({weights.routing})"
    if weights.tied_head:
        yield "the head is the embedding table: it is read, but has no separate bytes in the file"


def decode_table(rows: Sequence[CostDecode]) -> Table:
    """Return a table with a row for each number of streams and context length."""
    table = []
    for one in rows:
        kept = {part.group: part.bytes for part in one.parts}
        kv = kept.get("KV read", 0) + kept.get("KV written", 0)
        state = kept.get("state read and written", 0)
        table.append(
            [
                str(one.streams),
                f"{one.context_tokens:,}",
                duration(one.milliseconds),
                f"{one.tokens_a_second:,.1f}",
                gigabytes(one.bytes - kv - state),
                gigabytes(kv),
                gigabytes(state),
            ]
        )
    titles = ("streams", "context", "floor", "tokens/s", "weights", "KV", "state")
    return Table(titles=titles, rows=table, styles={})


def prefill_table(rows: Sequence[CostPrefill]) -> Table:
    """Return a table with a row for each ubatch."""
    table = [
        [
            f"{one.before_tokens:,}",
            f"{one.tokens:,}",
            gigabytes(one.bytes),
            duration(one.memory_milliseconds),
            duration(one.compute_milliseconds),
            duration(one.milliseconds),
        ]
        for one in rows
    ]
    titles = ("after", "tokens", "bytes", "memory", "compute", "floor")
    return Table(titles=titles, rows=table, styles={})


def memory_table(memory: CostMemory) -> Table:
    """Return a table with a row for each kind of memory."""
    rows = [[one.kind, one.place, _allocated(one.bytes, one.detail), one.detail] for one in memory.allocations]
    rows.append(["all of the device", "device", size(memory.device_bytes), "weights, KV and state"])
    return Table(titles=("kind", "where", "size", "what"), rows=rows, styles={}, gives={"what": Give.FOLD})


def _allocated(count: int | None, detail: str) -> str:
    return "no limit" if count is None and "no limit" in detail else size(count)


def memory_lines(memory: CostMemory) -> Iterator[str]:
    """Yield lines that describe the server's context, and the largest context and number of slots that fit."""
    each = f", {memory.stream_tokens:,} for each of {memory.streams} streams" if memory.streams > 1 else ""
    yield f"context  {memory.context_tokens:,} tokens{each}"
    if memory.fit is not None:
        most = memory.fit.largest_context_tokens
        beyond = f" (it was trained for {memory.fit.trained_tokens:,})" if most > memory.fit.trained_tokens else ""
        slots = counted(memory.fit.most_slots, "slot") + (
            " (more than 256 are refused)" if memory.fit.most_slots == 256 else ""
        )
        yield f"fits     in {size(memory.fit.room_bytes)}: a context of {most:,} tokens{beyond}"
        yield f"         or {slots}, each with the context that one has now"


def state_table(state: CostState) -> Table:
    """Return a table with a row for each threshold of the sweep. The chosen row is marked."""
    rows = []
    for one in sorted({one.threshold_tokens: one for one in (*state.sweep, state.chosen)}.values(), key=_threshold):
        rows.append(
            [
                "->" if one == state.chosen else "",
                "infinite" if one.threshold_tokens is None else f"{one.threshold_tokens:,.4g}",
                f"{one.heads - one.bf16_heads} of {one.heads}",
                f"{one.factor:.3f}",
                size(one.state_bytes),
                duration(one.step_milliseconds),
                f"{one.error_bound:.2g}",
            ]
        )
    titles = (
        "",
        "threshold (tokens)",
        "f32 heads",
        "factor",
        "a sequence",
        f"step, {counted(state.streams, 'stream')}",
        "error bound",
    )
    return Table(titles=titles, rows=rows, styles={})


def _threshold(one: object) -> float:
    value = getattr(one, "threshold_tokens", None)
    return float("inf") if value is None else float(value)


def compared_table(rows: Sequence[CostCompared]) -> Table:
    """Return a table with a row for each measured time."""
    table = [
        [
            one.source,
            one.what,
            str(one.streams),
            duration(one.measured_milliseconds),
            duration(one.floor_milliseconds),
            percent(one.share),
            one.verdict,
            "; ".join(filter(None, (one.assumption, one.bound))),
        ]
        for one in rows
    ]
    titles = ["source", "what", "streams", "measured", "floor", "of floor", "verdict", "why"]
    if not any(row[-1] for row in table):
        table, titles = [row[:-1] for row in table], titles[:-1]
    gives = {"what": Give.WORDS, "why": Give.FOLD}
    return Table(titles=titles, rows=table, styles=_STYLES, gives={one: gives[one] for one in titles if one in gives})


def sensitivity_table(found: Sequence[CostElasticity]) -> Table:
    """Return a table with the elasticities of each result, in the given order.

    Elasticities that would be shown as 0 are omitted.
    """
    several = len({one.result for one in found}) > 1
    rows = [
        [*([one.result] if several else []), one.input, f"{one.elasticity:+.3f}"]
        for one in found
        if abs(one.elasticity) >= 0.0005
    ]
    titles = (*(["result"] if several else []), "input", "elasticity")
    return Table(titles=titles, rows=rows, styles={}, gives={"result": Give.WORDS} if several else {})


def variation_table(found: Sequence[CostVariation]) -> Table:
    """Return a table of the results over a range of an input."""
    timed = any(one.tokens_a_second is not None for one in found)
    several = len({one.result for one in found}) > 1
    rows = []
    for one in found:
        row = [*([one.result] if several else []), _input(one.input, one.value)]
        row.append(duration(one.milliseconds) if one.bytes is None else gigabytes(one.bytes))
        if timed:
            row.append("" if one.tokens_a_second is None else f"{one.tokens_a_second:,.1f}")
        rows.append(row)
    titles = [*(["result"] if several else []), found[0].input if found else "", "bytes or time" if several else ""]
    if not several:
        titles[-1] = found[0].result if found else ""
    titles += ["tokens/s"] if timed else []
    return Table(titles=titles, rows=rows, styles={}, gives={"result": Give.WORDS} if several else {})


def _input(name: str, value: float) -> str:
    """Return the value of an input as text.

    A bandwidth or a peak rate is shown with its unit. Other values, such as numbers of tokens, are shown without one.
    """
    if name == "bandwidth":
        return f"{value / 1e9:,.4g} GB/s"
    if name.startswith("peak "):
        return f"{value / 1e12:,.4g} {'TOP/s' if name.endswith('int8') else 'TFLOP/s'}"
    return f"{value:,.6g}"


def prefix_table(prefix: CostPrefix) -> Table:
    """Return a table with a row for each step."""
    seconds = any(one.prefill_seconds is not None for one in prefix.steps)
    blamed = any(one.blame_change for one in prefix.steps)
    predicted = any(one.predicted_cached_tokens not in (None, one.cached_tokens) for one in prefix.steps)
    rows = []
    for one in prefix.steps:
        row = [str(one.step), f"{one.total_tokens:,}", f"{one.cached_tokens:,}", f"{one.processed_tokens:,}"]
        row.append(f"{one.cached_tokens / one.total_tokens:.3f}" if one.total_tokens else "")
        if predicted:
            row.append("" if one.predicted_cached_tokens is None else f"{one.predicted_cached_tokens:,}")
        if seconds:
            row += [_seconds(one.prefill_seconds), _seconds(one.decode_seconds), _seconds(one.action_seconds)]
        if blamed:
            row.append(_blame(one.blame_message, one.blame_role, one.blame_change, one.lost_tokens))
        rows.append(row)
    titles = ["step", "total", "cached", "processed", "share"]
    titles += ["predicted"] if predicted else []
    titles += ["prefill", "decode", "action"] if seconds else []
    titles += ["first change"] if blamed else []
    return Table(titles=titles, rows=rows, styles={}, gives={"first change": Give.FOLD} if blamed else {})


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f} s"


def _blame(message: int | None, role: str, change: str, lost: int | None) -> str:
    if message is None:
        return ""
    return f"message {message} ({role}) {change}" + (f": {lost:,} lost" if lost else "")


def prefix_lines(prefix: CostPrefix) -> Iterator[str]:
    """Yield the token totals, the growth of the processed tokens, the unit of the counts, and gaps in the log."""
    told = f"{prefix.total_tokens:,} tokens in {counted(len(prefix.steps), 'step')}"
    yield f"sum      {told}, {prefix.cached_tokens:,} cached, {prefix.processed_tokens:,} processed"
    yield f"growth   {prefix.linear:,.1f}·n + {prefix.quadratic:,.2f}·n² tokens processed after n steps"
    yield f"unit     {prefix.unit}"
    for one in prefix.gaps:
        yield f"gap      {one}"


def ways_table(prefix: CostPrefix) -> Table:
    """Return a table with a row for each alternative."""
    rows = [
        [
            one.way,
            f"{one.processed_tokens:,}",
            f"{one.of_now:.2f}×",
            "" if one.seconds is None else f"{one.seconds:,.1f} s",
            "" if one.bytes is None else size(one.bytes),
            one.assumption,
        ]
        for one in prefix.ways
    ]
    titles = ("way", "processed", "of now", "prefill", "KV, checkpoints", "assumption")
    return Table(titles=titles, rows=rows, styles={}, gives={"way": Give.FOLD, "assumption": Give.FOLD})
