"""`patchstack.cost/1`: the document that `patchstack cost` prints.

The names of the fields include their units.
"""

from __future__ import annotations

from patchstack.document import Document, Part


class CostFigure(Part, frozen=True, kw_only=True):
    """A figure of the machine.

    `value` is in bytes, bytes per second or operations per second. `text` is the figure as written in the machine file.
    """

    name: str
    value: float
    text: str
    origin: str
    source: str
    date: str


class CostMachine(Part, frozen=True, kw_only=True):
    """The machine for which the lower bounds are computed. A missing figure is unknown."""

    name: str
    figures: tuple[CostFigure, ...]


class CostModel(Part, frozen=True, kw_only=True):
    """The model: the bytes of its tensors, and the memory that follows from its header.

    `memory` names the memory layout. `memory` and all fields after it are null if the architecture is unknown.
    """

    path: str
    name: str
    architecture: str
    files: int
    tensors: int
    tensor_bytes: int
    vocabulary: int
    memory: str | None = None
    layers: int | None = None
    draft_layers: int | None = None
    kv_layers: int | None = None
    recurrent_layers: int | None = None
    window_layers: int | None = None
    window_tokens: int | None = None
    kv_bytes_a_token: int | None = None
    state_bytes_a_sequence: int | None = None


class CostOptions(Part, frozen=True, kw_only=True):
    """The options that were parsed from the server's command line.

    `ignored` options do not affect the costs. `unknown` options were not understood.
    """

    context_tokens: int
    slots: int
    unified: bool
    batch_tokens: int
    ubatch_tokens: int
    key_type: str
    value_type: str
    flash_attention: bool
    swa_full: bool
    checkpoints: int
    checkpoint_spacing_tokens: int
    cache_ram_mib: int
    draft_tokens: int
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]


class CostGroup(Part, frozen=True, kw_only=True):
    """The tensors of one group and type."""

    group: str
    type: str
    tensors: int
    file_bytes: int
    step_bytes: float


class CostWeights(Part, frozen=True, kw_only=True):
    """The bytes of the weights, by group and type.

    `step_bytes` is the number of bytes that a step of `step_tokens` tokens reads.
    """

    step_tokens: int
    routing: str
    distinct_experts: float | None
    experts: int
    tied_head: bool
    file_bytes: int
    step_bytes: float
    groups: tuple[CostGroup, ...]


class CostBytes(Part, frozen=True, kw_only=True):
    """The bytes of one group that a step reads or writes."""

    group: str
    bytes: float


class CostDecode(Part, frozen=True, kw_only=True):
    """The lower bound for the time of a decode step."""

    streams: int
    context_tokens: int
    bytes: float
    milliseconds: float
    tokens_a_second: float
    parts: tuple[CostBytes, ...]


class CostOutweigh(Part, frozen=True, kw_only=True):
    """The smallest number of streams at which KV and state need more bytes than the weights.

    The number is null if it is above 4096.
    """

    context_tokens: int
    streams: int | None


class CostOperations(Part, frozen=True, kw_only=True):
    """The number of operations whose speed is limited by one peak rate of the machine."""

    peak: str
    operations: float


class CostPrefill(Part, frozen=True, kw_only=True):
    """The lower bound for the time of a ubatch.

    `compute_milliseconds` and `milliseconds` are null if a peak rate is unknown.
    """

    before_tokens: int
    tokens: int
    bytes: float
    memory_milliseconds: float
    operations: tuple[CostOperations, ...]
    compute_milliseconds: float | None
    milliseconds: float | None
    unknown_peaks: tuple[str, ...]


class CostAllocation(Part, frozen=True, kw_only=True):
    """Memory of one kind that a server allocates.

    `place` is `device` or `host`. `bytes` is null if there is no limit, or if this kind is not counted.
    """

    kind: str
    place: str
    bytes: int | None
    detail: str


class CostFit(Part, frozen=True, kw_only=True):
    """What fits into the memory of a machine.

    `room_bytes` is the size of this memory, minus the compute buffers that llama-fit-params reported. `trained_tokens`
    is the context length for which the model was trained. `most_slots` is at most 256, which is the limit of llama.cpp.
    """

    room_bytes: int
    largest_context_tokens: int
    trained_tokens: int
    most_slots: int


class CostMemory(Part, frozen=True, kw_only=True):
    """The memory that a server allocates."""

    context_tokens: int
    stream_tokens: int
    streams: int
    allocations: tuple[CostAllocation, ...]
    device_bytes: int
    checkpoint_bytes: int
    checkpoints_a_slot: int
    spaced_checkpoints_a_slot: int
    fit: CostFit | None = None


class CostElasticity(Part, frozen=True, kw_only=True):
    """The change of a result, in percent, if an input grows by one percent."""

    result: str
    input: str
    elasticity: float


class CostVariation(Part, frozen=True, kw_only=True):
    """A result at one value of an input.

    The result is `milliseconds` or `bytes`; the other field is null. `value` is in bytes per second, operations per
    second, or tokens.
    """

    result: str
    input: str
    value: float
    milliseconds: float | None
    bytes: float | None
    tokens_a_second: float | None


class CostHeads(Part, frozen=True, kw_only=True):
    """The memory lengths of a layer's heads, in tokens.

    An infinite length is null. `f32` is true for each head that keeps f32.
    """

    layer: int
    tau_tokens: tuple[float | None, ...]
    f32: tuple[bool, ...]


class CostSplit(Part, frozen=True, kw_only=True):
    """The split of the heads into f32 and bf16 at a threshold. An infinite threshold is null."""

    threshold_tokens: float | None
    heads: int
    bf16_heads: int
    factor: float
    state_bytes: float
    step_milliseconds: float | None
    error_bound: float


class CostState(Part, frozen=True, kw_only=True):
    """The recurrent state with some heads in bf16, and a sweep over thresholds."""

    streams: int
    chosen: CostSplit
    layers: tuple[CostHeads, ...]
    sweep: tuple[CostSplit, ...]


class CostCompared(Part, frozen=True, kw_only=True):
    """A measured time divided by its lower bound."""

    source: str
    what: str
    streams: int
    measured_milliseconds: float
    floor_milliseconds: float | None
    share: float | None
    verdict: str
    assumption: str
    bound: str


class CostStep(Part, frozen=True, kw_only=True):
    """A step of an agent. Times are null if the log does not contain them."""

    step: int
    conversation: int
    total_tokens: int
    cached_tokens: int
    processed_tokens: int
    predicted_cached_tokens: int | None
    prefill_seconds: float | None
    decode_seconds: float | None
    action_seconds: float | None
    blame_message: int | None
    blame_role: str
    blame_change: str
    lost_tokens: int | None


class CostWay(Part, frozen=True, kw_only=True):
    """The cost of a different method to build prompts, or of a different setting.

    `bytes` counts KV and checkpoints.
    """

    way: str
    processed_tokens: int
    of_now: float
    seconds: float | None
    bytes: int | None
    assumption: str


class CostPrefix(Part, frozen=True, kw_only=True):
    """The steps of an agent.

    After n steps, about `linear`·n + `quadratic`·n² tokens have been processed.
    """

    unit: str
    steps: tuple[CostStep, ...]
    total_tokens: int
    cached_tokens: int
    processed_tokens: int
    linear: float
    quadratic: float
    ways: tuple[CostWay, ...]
    gaps: tuple[str, ...]


class CostDocument(Document, frozen=True, kw_only=True, tag="patchstack.cost/1"):
    """The bytes, lower bounds, memory and prefix reuse of a model.

    Sections that were not requested are null.
    """

    model: CostModel | None = None
    machine: CostMachine | None = None
    options: CostOptions | None = None
    assumptions: tuple[str, ...] = ()
    weights: CostWeights | None = None
    decode: tuple[CostDecode, ...] | None = None
    outweigh: tuple[CostOutweigh, ...] | None = None
    prefill: tuple[CostPrefill, ...] | None = None
    memory: CostMemory | None = None
    elasticities: tuple[CostElasticity, ...] | None = None
    variations: tuple[CostVariation, ...] | None = None
    state: CostState | None = None
    compared: tuple[CostCompared, ...] | None = None
    prefix: CostPrefix | None = None
