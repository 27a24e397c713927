"""The least time that a step can take: the bytes that it must read and write over the bandwidth of memory, and its
operations over the peak of the machine.

A floor counts every byte once, as if caches of the chip held nothing from one step to the next and everything within
one. The assumptions are in `docs/concepts.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchstack.cost.architecture import Layout
from patchstack.cost.experts import Routing
from patchstack.cost.memory import key_bytes, state_rows_more, value_bytes
from patchstack.cost.server_options import ServerOptions
from patchstack.cost.weights import Group, Placed, StepSize, read_bytes, weigh

KV_READ, KV_WRITTEN, STATE = "KV read", "KV written", "state read and written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model under a command line, with the routing of its experts."""

    placed: Sequence[Placed]
    layout: Layout
    options: ServerOptions
    routing: Routing


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeFloor:
    """The floor of a decode step of `streams` sequences of `length` tokens each. `parts` are bytes by group, in order;
    `seconds` a step; `tokens` a step over all streams."""

    streams: int
    length: int
    parts: Mapping[str, float]
    seconds: float
    tokens: float

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())

    @property
    def speed(self) -> float:
        """Tokens a second, over all streams."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def carried(self) -> float:
        """Bytes that grow with every stream: KV and state."""
        return self.parts[KV_READ] + self.parts[KV_WRITTEN] + self.parts[STATE]


def kv_token_bytes(layout: Layout, options: ServerOptions) -> int:
    """Return the bytes that one token adds to the caches of one sequence."""
    total = sum(key_bytes(one, options) + value_bytes(one, options) for one in layout.cached)
    return total + _indexer_bytes(layout, options)


def kv_read_bytes(layout: Layout, options: ServerOptions, length: int) -> int:
    """Return the bytes of a sequence's caches that one token reads: layers with a window read no more than it."""
    total = 0
    for one in layout.cached:
        seen = min(length, layout.window) if one.window else length
        total += seen * (key_bytes(one, options) + value_bytes(one, options))
    return total + length * _indexer_bytes(layout, options)


def decode_floor(work: Workload, streams: int, length: int, bandwidth: float) -> DecodeFloor:
    """Return the floor of a decode step. `bandwidth` in bytes a second."""
    layout, options = work.layout, work.options
    tokens = streams * (1 + options.draft_tokens)
    step = StepSize(
        tokens=tokens, outputs=tokens, routing=work.routing, drafting=options.self_drafting and layout.draft_blocks > 0
    )
    parts: dict[str, float] = {}
    for row in weigh(work.placed, step):
        parts[row.group.value] = parts.get(row.group.value, 0.0) + row.step_bytes
    parts[KV_READ] = streams * kv_read_bytes(layout, options, length)
    parts[KV_WRITTEN] = tokens * kv_token_bytes(layout, options)
    parts[STATE] = streams * (2 + state_rows_more(layout, options)) * layout.state_bytes
    return DecodeFloor(
        streams=streams, length=length, parts=parts, seconds=sum(parts.values()) / bandwidth, tokens=tokens
    )


def outweighing(work: Workload, length: int, most: int = 4096) -> int | None:
    """Return from how many streams on KV and state outweigh the weights. None if not up to `most`.

    The bytes of a stream are the same for each, those of weights grow ever slower: so one search by halves finds it.
    """

    def outweighed(streams: int) -> bool:
        floor = decode_floor(work, streams, length, 1.0)
        return floor.carried > floor.bytes - floor.carried

    low, high = 0, most
    if not outweighed(most):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if outweighed(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillFloor:
    """The floor of one ubatch: `tokens` after `before` others. `operations` by the peak that they need. `compute` is
    None if a peak is not known, and then so is `seconds`. `lacking` names those peaks."""

    before: int
    tokens: int
    bytes: float
    memory: float
    operations: Mapping[str, float]
    compute: float | None
    lacking: tuple[str, ...]

    @property
    def seconds(self) -> float | None:
        return None if self.compute is None else max(self.memory, self.compute)


def prefill_floors(
    work: Workload, prompt: int, bandwidth: float, peaks: Mapping[str, float], *, before: int = 0
) -> tuple[PrefillFloor, ...]:
    """Return the floor of every ubatch of a prompt of one sequence, after `before` tokens that are cached.

    `peaks` in operations a second, by the names that `peak_name` gives.
    """
    ubatch = max(1, min(work.options.ubatch or work.options.batch, work.options.batch))
    found = []
    at = before
    while at < before + prompt:
        tokens = min(ubatch, before + prompt - at)
        found.append(_prefill(work, at, tokens, at + tokens == before + prompt, bandwidth, peaks))
        at += tokens
    return tuple(found)


def _prefill(
    work: Workload, before: int, tokens: int, last: bool, bandwidth: float, peaks: Mapping[str, float]
) -> PrefillFloor:
    layout, options = work.layout, work.options
    step = StepSize(tokens=tokens, outputs=1 if last else 0, routing=work.routing)
    weights = sum(row.step_bytes for row in weigh(work.placed, step))
    kv = kv_read_bytes(layout, options, before + tokens) + tokens * kv_token_bytes(layout, options)
    total = weights + kv + 2 * layout.state_bytes
    operations = _operations(work, step, before)
    lacking = tuple(sorted(name for name in operations if name not in peaks))
    compute = None if lacking else sum(count / peaks[name] for name, count in operations.items())
    return PrefillFloor(
        before=before,
        tokens=tokens,
        bytes=total,
        memory=total / bandwidth,
        operations=operations,
        compute=compute,
        lacking=lacking,
    )


def _operations(work: Workload, step: StepSize, before: int) -> dict[str, float]:
    """Operations by peak: two for a weight and a token, `4·heads·d·ℓ` for attention (causal: half of the ubatch
    itself), and four for an element of a recurrent state and a token."""
    found: dict[str, float] = {}
    for one in work.placed:
        if one.rows or read_bytes(one, step) == 0 or len(one.tensor.shape) < 2:
            continue
        part = work.routing.used / work.routing.experts if one.routed and work.routing.experts else 1.0
        tokens = step.outputs if one.group is Group.HEAD else step.tokens
        name = peak_name(one.tensor.type.name)
        found[name] = found.get(name, 0.0) + 2 * one.tensor.elements * part * tokens
    attention = 0.0
    for layer in work.layout.cached:
        seen = before + (step.tokens + 1) / 2
        if layer.window:
            seen = min(seen, work.layout.window)
        attention += 2 * layer.heads * (layer.key + layer.value) * seen * step.tokens
    if attention:
        found["fp16"] = found.get("fp16", 0.0) + attention
    state = 4.0 * work.layout.state_s * len(work.layout.recurrent) * step.tokens
    if state:
        found["fp32"] = found.get("fp32", 0.0) + state
    return found


def peak_name(kind: str) -> str:
    """Return which peak of a machine bounds products with weights of a type: as the CUDA backend at the pin
    multiplies."""
    if kind in ("nvfp4", "mxfp4"):
        return "fp4"
    return {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}.get(kind, "int8")


def _indexer_bytes(layout: Layout, options: ServerOptions) -> int:
    if not layout.indexer:
        return 0
    return options.key_type.row_bytes(layout.indexer) * len(layout.cached)
