"""Compute the floor of a step: a lower bound for its duration.

One bound is the number of bytes that the step must read and write, divided by the memory bandwidth. For a prompt,
another bound is the number of operations, divided by the machine's peak throughput. Every byte counts once per step, as
if the chip's caches were empty at the start of a step and could hold all data of the step. `docs/concepts.md` lists the
assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchstack.causes import CostRefused
from patchstack.cost.architecture import Layer, Layout
from patchstack.cost.experts import Routing
from patchstack.cost.memory import key_bytes, state_rows_more, value_bytes
from patchstack.cost.server_options import ServerOptions
from patchstack.cost.weights import Group, Placed, StepSize, read_bytes, weigh

KV_READ, KV_WRITTEN, STATE = "KV read", "KV written", "state read and written"
DRAFT_MODEL = "draft model"
_UBATCHES = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model, its command-line options, and the routing of its experts.

    `draft` is the draft model that `-md` specifies, or None.
    """

    placed: Sequence[Placed]
    layout: Layout
    options: ServerOptions
    routing: Routing
    draft: Workload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeFloor:
    """The floor of a decode step of `streams` sequences with `length` tokens each.

    `parts` maps each group to its number of bytes. `seconds` is the time of one step. `tokens` is the number of tokens
    that one step generates over all streams, if every drafted token is accepted.
    """

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
        """The number of tokens per second over all streams."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def carried(self) -> float:
        """The number of bytes of KV cache and state that a step moves. It grows with the number of streams."""
        return self.parts[KV_READ] + self.parts[KV_WRITTEN] + self.parts[STATE]


def kv_token_bytes(layout: Layout, options: ServerOptions, layers: Sequence[Layer] | None = None) -> int:
    """Return the number of bytes that one token adds to the caches of one sequence.

    Only the given `layers` count. By default, all layers with a cache count.
    """
    cached = layout.cached if layers is None else layers
    total = sum(key_bytes(one, options) + value_bytes(one, options) for one in cached)
    return total + _indexer_bytes(layout, options, cached)


def kv_read_bytes(layout: Layout, options: ServerOptions, length: int, layers: Sequence[Layer] | None = None) -> int:
    """Return how many bytes one token reads from the caches of its sequence.

    The sequence has `length` tokens. Layers with a window read no more than the window. Only the given `layers` count.
    By default, all layers with a cache count.
    """
    cached = layout.cached if layers is None else layers
    total = 0
    for one in cached:
        seen = min(length, layout.window) if one.window else length
        total += seen * (key_bytes(one, options) + value_bytes(one, options))
    return total + length * _indexer_bytes(layout, options, cached)


def mean_kv_read_bytes(work: Workload, first: int, count: int) -> float:
    """Return the mean number of cache bytes that a token reads.

    The mean is over `count` tokens of one sequence, after its first `first` tokens.
    """
    layers, window = step_layers(work.layout), work.layout.window
    knee = min(max(first, window), first + count)

    def summed(low: int, high: int) -> float:
        ends = [kv_read_bytes(work.layout, work.options, one, layers) for one in (low, high - 1)]
        return (high - low) * sum(ends) / 2 if high > low else 0.0

    return (summed(first, knee) + summed(knee, first + count)) / count


def step_layers(layout: Layout) -> tuple[Layer, ...]:
    """Return the layers that have a cache and are computed in every step.

    Draft blocks are excluded, even if they have a cache.
    """
    return tuple(one for one in layout.cached if one.number < layout.n_layer)


def decode_floor(work: Workload, streams: int, length: int, bandwidth: float) -> DecodeFloor:
    """Return the floor of a decode step of `streams` sequences with `length` tokens each.

    `bandwidth` is in bytes per second. With speculation, a step is one round: tokens are drafted, and the model
    processes all of them in one batch.
    """
    layout, options = work.layout, work.options
    tokens = streams * (1 + options.draft_tokens)
    step = StepSize(tokens=tokens, outputs=tokens, routing=work.routing)
    parts: dict[str, float] = {}
    for row in weigh(work.placed, step):
        parts[row.group.value] = parts.get(row.group.value, 0.0) + row.step_bytes
    layers = step_layers(layout)
    parts[KV_READ] = streams * kv_read_bytes(layout, options, length, layers)
    parts[KV_WRITTEN] = tokens * kv_token_bytes(layout, options, layers)
    parts[STATE] = streams * (2 + state_rows_more(layout, options)) * layout.state_bytes
    if options.self_drafting and layout.draft_blocks:
        _draft_itself(work, parts, streams, length)
    if work.draft is not None and options.draft_tokens:
        parts[DRAFT_MODEL] = draft_bytes(work.draft, options.draft_tokens, streams, length)
    return DecodeFloor(
        streams=streams, length=length, parts=parts, seconds=sum(parts.values()) / bandwidth, tokens=tokens
    )


def draft_bytes(draft: Workload, count: int, streams: int, length: int) -> float:
    """Return the number of bytes that a draft model reads and writes in one round.

    In a round, the draft model drafts `count` tokens for each of `streams` streams. It runs one step for each drafted
    token. It also runs one step for the whole batch of the main model, so that both caches contain the same tokens.
    Source: `common/speculative.cpp` at the pin.
    """
    layers = step_layers(draft.layout)
    grown = mean_kv_read_bytes(draft, length, count) - kv_read_bytes(draft.layout, draft.options, length, layers)
    one_by_one = count * (decode_floor(draft, streams, length, 1.0).bytes + streams * grown)
    tokens = streams * (1 + count)
    whole = sum(
        row.step_bytes for row in weigh(draft.placed, StepSize(tokens=tokens, outputs=0, routing=draft.routing))
    )
    whole += streams * kv_read_bytes(draft.layout, draft.options, length, layers)
    whole += tokens * kv_token_bytes(draft.layout, draft.options, layers)
    return one_by_one + whole + 2 * streams * draft.layout.state_bytes


def _draft_itself(work: Workload, parts: dict[str, float], streams: int, length: int) -> None:
    """Add to `parts` the bytes that the model's own draft block reads and writes.

    The draft block runs one step with the head for each drafted token, and one step without the head for the whole
    batch.
    """
    layout, options = work.layout, work.options
    count = options.draft_tokens if layout.draft_blocks == 1 else min(options.draft_tokens, layout.draft_blocks)
    drafting = [one for one in work.placed if one.group is Group.DRAFT]
    heads = [one for one in drafting if "shared_head_head" in one.tensor.name]
    tokens = streams * (1 + options.draft_tokens)

    def read(size: float, among: Sequence[Placed]) -> float:
        step = StepSize(tokens=size, routing=work.routing, drafting=True)
        return sum(read_bytes(one, step) for one in among)

    each = read(streams, drafting) / layout.draft_blocks
    head = 0.0 if heads else parts.get(Group.HEAD.value, 0.0)
    whole = read(tokens, drafting) - read(tokens, heads)
    parts[Group.DRAFT.value] = whole + count * (each + head)
    types = replace(options, key_type=options.draft_key_type, value_type=options.draft_value_type)
    layers = [one for one in layout.layers if one.number >= layout.n_layer][: layout.draft_blocks]
    row = sum(key_bytes(one, types) + value_bytes(one, types) for one in layers)
    steps = 1 + count / layout.draft_blocks
    parts[KV_READ] += streams * length * row * steps
    parts[KV_WRITTEN] += row * (tokens + streams * count / layout.draft_blocks)


def outweighing(work: Workload, length: int, most: int = 4096) -> int | None:
    """Return the smallest number of streams with which a step moves more bytes of KV cache and state than of weights.

    Return None if the number is above `most`. Bisection works because each additional stream adds the same number of KV
    and state bytes, but no more bytes of weights than the stream before it.
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
    """The floor of one ubatch of `tokens` tokens, after `before` earlier tokens of the sequence.

    `parts` maps each group to its number of bytes, and `operations` maps each peak to its number of operations.
    `memory` is the time for the bytes, and `compute` is the time for the operations. `seconds` is the larger of the two
    times. All three are in seconds. If a peak is unknown, `compute` and `seconds` are None, and `lacking` names the
    unknown peaks.
    """

    before: int
    tokens: int
    parts: Mapping[str, float]
    memory: float
    operations: Mapping[str, float]
    compute: float | None
    lacking: tuple[str, ...]

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())

    @property
    def seconds(self) -> float | None:
        return None if self.compute is None else max(self.memory, self.compute)


def prefill_floors(
    work: Workload, prompt: int, bandwidth: float, peaks: Mapping[str, float], *, before: int = 0
) -> tuple[PrefillFloor, ...]:
    """Return the floor of each ubatch in which one sequence's prompt is processed.

    `prompt` is the number of tokens to process, and `before` is the number of cached tokens before them. `bandwidth` is
    in bytes per second. `peaks` maps the names that `peak_name` returns to operations per second. Raises `UsageError`
    if the prompt needs more than 131,072 ubatches.
    """
    ubatch = work.options.physical_batch
    if prompt > _UBATCHES * ubatch:
        raise CostRefused(
            f"a prompt of {prompt:,} tokens needs more than {_UBATCHES:,} ubatches of {ubatch:,} tokens",
            hint="use a larger -ub or a shorter prompt",
        )
    sizes: dict[tuple[int, bool], _Ubatch] = {}
    found = []
    at = before
    while at < before + prompt:
        tokens = min(ubatch, before + prompt - at)
        last = at + tokens == before + prompt
        if (tokens, last) not in sizes:
            sizes[tokens, last] = _ubatch(work, tokens, last)
        found.append(_prefill(work, sizes[tokens, last], at, bandwidth, peaks))
        at += tokens
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ubatch:
    """The weight bytes and the operations of a ubatch with `tokens` tokens.

    The operations of attention are not included. Neither number depends on the tokens before the ubatch.
    """

    tokens: int
    weights: Mapping[str, float]
    operations: Mapping[str, float]


def _ubatch(work: Workload, tokens: int, last: bool) -> _Ubatch:
    step = StepSize(tokens=tokens, outputs=1 if last else 0, routing=work.routing)
    weights: dict[str, float] = {}
    for row in weigh(work.placed, step):
        if row.step_bytes:
            weights[row.group.value] = weights.get(row.group.value, 0.0) + row.step_bytes
    return _Ubatch(tokens=tokens, weights=weights, operations=_operations(work, step))


def _prefill(work: Workload, size: _Ubatch, before: int, bandwidth: float, peaks: Mapping[str, float]) -> PrefillFloor:
    layout, options, tokens = work.layout, work.options, size.tokens
    layers = step_layers(layout)
    parts = dict(size.weights)
    parts[KV_READ] = kv_read_bytes(layout, options, before + tokens, layers)
    parts[KV_WRITTEN] = tokens * kv_token_bytes(layout, options, layers)
    parts[STATE] = 2.0 * layout.state_bytes
    operations = dict(size.operations)
    if attention := _attention(layout, layers, tokens, before):
        operations["fp16"] = operations.get("fp16", 0.0) + attention
    lacking = tuple(sorted(name for name in operations if name not in peaks))
    compute = None if lacking else sum(count / peaks[name] for name, count in operations.items())
    return PrefillFloor(
        before=before,
        tokens=tokens,
        parts=parts,
        memory=sum(parts.values()) / bandwidth,
        operations=operations,
        compute=compute,
        lacking=lacking,
    )


def _operations(work: Workload, step: StepSize) -> dict[str, float]:
    """Return the number of operations by the name of the peak that limits them.

    A token needs two operations for each weight, and four for each element of S (see `Layout`). The operations of
    attention are not included.
    """
    found: dict[str, float] = {}
    for one in work.placed:
        if one.rows or read_bytes(one, step) == 0 or len(one.tensor.shape) < 2:
            continue
        part = work.routing.used / work.routing.experts if one.routed and work.routing.experts else 1.0
        tokens = step.outputs if one.group is Group.HEAD else step.tokens
        name = peak_name(one.tensor.type.name)
        found[name] = found.get(name, 0.0) + 2 * one.tensor.elements * part * tokens
    state = 4.0 * work.layout.state_s * len(work.layout.recurrent) * step.tokens
    if state:
        found["fp32"] = found.get("fp32", 0.0) + state
    return found


def _attention(layout: Layout, layers: Sequence[Layer], tokens: int, before: int) -> float:
    """Return the number of operations of attention: `4·heads·d·ℓ` for each token and layer.

    `d` is the mean of the lengths of a head's key and value, and `ℓ` is the number of tokens that the token sees.
    Attention is causal, so a token sees half of its own ubatch on average. In a layer with a window, `ℓ` is at most the
    size of the window.
    """
    total = 0.0
    for layer in layers:
        seen = before + (tokens + 1) / 2
        if layer.window:
            seen = min(seen, layout.window)
        total += 2 * layer.heads * (layer.key + layer.value) * seen * tokens
    return total


def peak_name(kind: str) -> str:
    """Return the name of the peak that limits multiplications with weights of type `kind`.

    Source: the CUDA backend at the pin.
    """
    if kind in ("nvfp4", "mxfp4"):
        return "fp4"
    return {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}.get(kind, "int8")


def _indexer_bytes(layout: Layout, options: ServerOptions, layers: Sequence[Layer]) -> int:
    if not layout.indexer:
        return 0
    return options.key_type.row_bytes(layout.indexer) * len(layers)
