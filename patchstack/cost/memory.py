"""Compute how many bytes llama.cpp allocates for each purpose.

The inputs are a model and a command line. The rules are those of llama.cpp at the pin.

Sources: `src/llama-context.cpp` (contexts), `src/llama-kv-cache*.cpp`, `src/llama-memory-recurrent.cpp`, and
`tools/server/server-context.cpp` (checkpoints). Sizes are tensor sizes. A device may round up the size of a buffer by
some bytes. Compute buffers are not included, because they depend on the graph and not on the header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchstack.causes import BadValue, ModelFileUnreadable
from patchstack.cost.architecture import Kind, Layer, Layout
from patchstack.cost.header import TENSOR_TYPES, TensorType
from patchstack.cost.server_options import ServerOptions

MIB = 1 << 20
_PADDING = 256
_F32 = TENSOR_TYPES[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The sizes of a context.

    `context` is the total size in tokens, and `stream` is the size of one stream in tokens. `streams` and `slots` are
    counts. `batch` and `ubatch` are in tokens.
    """

    context: int
    stream: int
    streams: int
    slots: int
    batch: int
    ubatch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A KV cache.

    `name` is `base`, `window`, `indexer` or `draft`. `cells` is the number of cells in one stream. `key_bytes` and
    `value_bytes` are totals over all streams and layers.
    """

    name: str
    cells: int
    streams: int
    layers: int
    key_bytes: int
    value_bytes: int

    @property
    def bytes(self) -> int:
        return self.key_bytes + self.value_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The states of the recurrent layers.

    `rows` is the number of rows in each layer. llama.cpp calls the two parts of a state R and S. `r_bytes` and
    `s_bytes` are their total sizes over all rows and layers.
    """

    rows: int
    layers: int
    r_bytes: int
    s_bytes: int

    @property
    def bytes(self) -> int:
        return self.r_bytes + self.s_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The allocations of a server, in bytes.

    `output` is the size of the logits. `checkpoint_bytes` is the largest size of one checkpoint, and `checkpoints` is
    the largest number of checkpoints in one slot. `spaced` is the largest number that a plain completion can reach,
    given the minimum distance between checkpoints. A chat request can add one more at its last user message. All three
    numbers are 0 if the model needs no checkpoints or the options disable them. `prompt_cache_bytes` is None if the
    prompt cache has no limit.
    """

    cells: Cells
    weights: int
    caches: tuple[Cache, ...]
    states: States | None
    output: int
    checkpoint_bytes: int
    checkpoints: int
    spaced: int
    slots: int
    prompt_cache_bytes: int | None

    @property
    def context(self) -> int:
        """The size of the caches and states in bytes, which `llama-fit-params` calls the context."""
        return sum(one.bytes for one in self.caches) + (self.states.bytes if self.states else 0)

    @property
    def device(self) -> int:
        """The number of bytes on the model's device: weights, caches and states.

        Compute buffers are not included.
        """
        return self.weights + self.context

    @property
    def checkpoint_total(self) -> int:
        """The largest number of bytes that the checkpoints of all slots can take in host memory."""
        return self.checkpoint_bytes * self.checkpoints * self.slots


def cells(layout: Layout, options: ServerOptions) -> Cells:
    """Return the sizes of a context.

    Raises `UsageError` if the length of the context is unknown, or if a slot would have no tokens.
    """
    context = options.context or layout.trained
    if context < 1:
        raise ModelFileUnreadable("the model has no context length", hint="set it with -c")
    batch = min(context, options.batch) if layout.kind is not Kind.NONE else options.batch
    ubatch = min(batch, options.ubatch or options.batch)
    context = _padded(context)
    if options.unified:
        return Cells(context=context, stream=context, streams=1, slots=options.slots, batch=batch, ubatch=ubatch)
    stream = _padded(context // options.slots)
    if stream == 0:
        raise BadValue(
            f"-c {options.context} is too small for {options.slots} slots: a slot has no tokens",
            hint="use a larger -c or a smaller -np",
        )
    return Cells(
        context=stream * options.slots,
        stream=stream,
        streams=options.slots,
        slots=options.slots,
        batch=batch,
        ubatch=ubatch,
    )


def allocate(layout: Layout, options: ServerOptions, weights: int) -> Memory:
    """Return the allocations of a server with these options.

    `weights` is the number of bytes of the loaded tensors. Raises `UsageError` in the same cases as `cells`, and if
    llama.cpp refuses the combination of options.
    """
    sizes = cells(layout, options)
    if options.value_type.is_quantized and not options.flash_attention:
        raise BadValue(f"llama.cpp refuses -ctv {options.value_type.name} with -fa off", hint="use -fa on")
    caches = _caches(layout, options, sizes)
    states = _states(layout, options)
    checkpoint = checkpoint_bytes(layout, options, sizes)
    return Memory(
        cells=sizes,
        weights=weights,
        caches=caches,
        states=states,
        output=layout.vocabulary * options.slots * 4,
        checkpoint_bytes=checkpoint,
        checkpoints=options.checkpoints if checkpoint else 0,
        spaced=_spaced(options, sizes) if checkpoint else 0,
        slots=options.slots,
        prompt_cache_bytes=None if options.cache_ram < 0 else options.cache_ram * MIB,
    )


def key_bytes(layer: Layer, options: ServerOptions) -> int:
    """Return the size of a token's key in a layer, in bytes."""
    return _row(options.key_type, layer.k, "-ctk")


def value_bytes(layer: Layer, options: ServerOptions) -> int:
    """Return the size of a token's value in a layer, in bytes."""
    return _row(options.value_type, layer.v, "-ctv")


def window_cells(layout: Layout, options: ServerOptions, sizes: Cells) -> int:
    """Return the number of cells that one stream has in the cache for layers with a window."""
    if options.swa_full:
        return sizes.stream
    kept = layout.window * (sizes.slots if options.unified else 1) + sizes.ubatch
    return _padded(min(sizes.stream, kept))


def needs_checkpoints(layout: Layout, options: ServerOptions) -> bool:
    """Return whether a slot needs a checkpoint to return to a shorter prefix of its tokens."""
    if layout.kind in (Kind.RECURRENT, Kind.HYBRID):
        return True
    return layout.window > 0 and not options.swa_full


def checkpoint_bytes(layout: Layout, options: ServerOptions, sizes: Cells, tokens: int | None = None) -> int:
    """Return the size of a checkpoint after `tokens` tokens, in bytes.

    The default for `tokens` is the size of the window. The result is 0 if the model needs no checkpoints or the options
    disable them.

    A checkpoint contains the rows of the recurrent state, and the cells of the window with their positions.
    `state_seq_get_size` adds 8 bytes. Source: `state_write` in `llama-memory-recurrent.cpp` and `llama-kv-cache.cpp`.
    """
    if not needs_checkpoints(layout, options) or not options.checkpoints:
        return 0
    total = 8
    if any(one.cached and one.window for one in layout.layers):
        kept = layout.window if tokens is None else min(tokens, layout.window)
        total += _window_state(layout, options, sizes, min(kept, sizes.stream))
    if layout.recurrent:
        total += 4 + 8 + 8 + len(layout.recurrent) * 24 + layout.state_bytes
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that a server loads.

    `layout` is its memory layout, and `weights` is the size of its tensors in bytes.
    """

    layout: Layout
    options: ServerOptions
    weights: int


def draft_options(options: ServerOptions) -> ServerOptions:
    """Return the options for the context of a draft model.

    They are the server's options with the cache types for drafting, and without speculation and checkpoints.
    """
    return replace(
        options,
        key_type=options.draft_key_type,
        value_type=options.draft_value_type,
        speculation=(),
        draft_model="",
        draft_tokens=0,
        checkpoints=0,
    )


def largest_context(models: Sequence[Loaded], room: int) -> int:
    """Return the largest context, in tokens, for which all models fit in `room` bytes.

    The weights, caches and states of the models count. Return 0 if no context fits.
    """

    def fits(value: int) -> bool:
        context = value * _PADDING
        return sum(_device(one, replace(one.options, context=context)) for one in models) <= room

    return _largest(fits) * _PADDING


def most_slots(models: Sequence[Loaded], room: int) -> int:
    """Return how many slots fit in `room` bytes, from 0 to 256.

    The size of a slot's context does not change. If the slots share one cache, the total context does not change.
    """
    first = models[0]
    each = cells(first.layout, first.options)

    def fits(slots: int) -> bool:
        context = each.context if first.options.unified else each.stream * slots
        return sum(_device(one, replace(one.options, slots=slots, context=context)) for one in models) <= room

    return _largest(fits, 256)


def _device(one: Loaded, options: ServerOptions) -> int:
    return allocate(one.layout, options, one.weights).device


def _largest(fits: Callable[[int], bool], most: int = 1 << 24) -> int:
    """Return the largest number from 1 to `most` that fits.

    Return 0 if no number fits. If a number fits, all smaller numbers must fit too.
    """
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _caches(layout: Layout, options: ServerOptions, sizes: Cells) -> tuple[Cache, ...]:
    plain = [one for one in layout.cached if not one.window]
    windowed = [one for one in layout.cached if one.window]
    found = []
    if plain:
        found.append(_cache("base", layout, plain, options, sizes, sizes.stream))
    if windowed:
        found.append(_cache("window", layout, windowed, options, sizes, window_cells(layout, options, sizes)))
    if layout.indexer:
        row = _row(options.key_type, layout.indexer, "-ctk")
        found.append(
            Cache(
                name="indexer",
                cells=sizes.stream,
                streams=sizes.streams,
                layers=len(plain),
                key_bytes=row * sizes.stream * sizes.streams * len(plain),
                value_bytes=0,
            )
        )
    if options.self_drafting and layout.draft_blocks:
        found.append(_draft_cache(layout, options, sizes))
    return tuple(found)


def _draft_cache(layout: Layout, options: ServerOptions, sizes: Cells) -> Cache:
    """Return the cache for drafting with the model's own draft block.

    It has no window, and as many cells as the base cache.
    """
    drafting = [one for one in layout.layers if one.number >= layout.n_layer]
    types = replace(options, key_type=options.draft_key_type, value_type=options.draft_value_type)
    return _cache("draft", layout, drafting, types, sizes, sizes.stream)


def _cache(
    name: str, layout: Layout, layers: Sequence[Layer], options: ServerOptions, sizes: Cells, count: int
) -> Cache:
    # Without flash attention, values are transposed and padded to the width of the widest layer.
    widest = max((one.v for one in layout.layers), default=0)
    padded = not options.flash_attention and not layout.mla
    values = sum(_row(options.value_type, widest, "-ctv") if padded else value_bytes(one, options) for one in layers)
    keys = sum(key_bytes(one, options) for one in layers)
    cells_in_all = count * sizes.streams
    return Cache(
        name=name,
        cells=count,
        streams=sizes.streams,
        layers=len(layers),
        key_bytes=keys * cells_in_all,
        value_bytes=values * cells_in_all,
    )


def _states(layout: Layout, options: ServerOptions) -> States | None:
    layers = [one for one in layout.recurrent if one.number < layout.n_layer]
    if not layers:
        return None
    rows = max(1, options.slots) * (1 + state_rows_more(layout, options))
    return States(
        rows=rows,
        layers=len(layers),
        r_bytes=4 * layout.state_r * rows * len(layers),
        s_bytes=4 * layout.state_s * rows * len(layers),
    )


def state_rows_more(layout: Layout, options: ServerOptions) -> int:
    """Return `n_rs_seq`, the number of extra rows of a sequence for rolling back drafted tokens."""
    drafting = {"draft-mtp", "draft-eagle3"} & set(options.speculation)
    return options.draft_tokens if drafting and layout.rolls_back else 0


def _spaced(options: ServerOptions, sizes: Cells) -> int:
    """Return how many checkpoints fit into a slot's context, up to the limit that the options set.

    Two checkpoints are more than `spacing` tokens apart.
    """
    return min(options.checkpoints, 1 + (sizes.stream - 2) // (options.spacing + 1))


def _window_state(layout: Layout, options: ServerOptions, sizes: Cells, kept: int) -> int:
    windowed = [one for one in layout.cached if one.window]
    total = 4 + 4 * sizes.streams + 12 * kept + 8
    total += sum(12 + kept * key_bytes(one, options) for one in windowed)
    if options.flash_attention:
        total += sum(12 + kept * value_bytes(one, options) for one in windowed if one.v)
    else:
        total += sum(12 + kept * one.v * options.value_type.size for one in windowed if one.v)
    return total


def _row(kind: TensorType, length: int, option: str) -> int:
    if length % kind.block:
        raise ModelFileUnreadable(
            f"{option} {kind.name}: a row of {length} elements is not a multiple of the block size {kind.block}"
        )
    return kind.row_bytes(length)


def _padded(value: int) -> int:
    return -(-value // _PADDING) * _PADDING
