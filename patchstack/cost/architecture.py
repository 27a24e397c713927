"""Determine the memory of each layer of a model from the model's architecture.

A layer can have a KV cache (with or without an attention window), a recurrent state, both, or neither.

For some architectures, rules in llama.cpp's code determine the memory of each layer. A model file does not contain
these rules, so the tables below repeat them. Source: `src/llama-hparams.cpp`, `llama_model::create_memory`, and
`load_arch_hparams` in `src/models/`, all at the pin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.causes import CostUnknown, ModelFileUnreadable
from patchstack.cost.model import Model


class Kind(StrEnum):
    """The kind of a model's memory.

    It determines what a request can reuse: see `patchstack.cost.prefix`.
    """

    NONE = "no memory"
    ATTENTION = "attention"
    WINDOW = "attention, some layers with a window"
    RECURRENT = "recurrent"
    HYBRID = "attention and recurrent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The memory of a layer.

    `k` and `v` are the numbers of elements per token in the K cache and in the V cache. `heads` is the number of query
    heads. `key` and `value` are the lengths of a head's key and value, in elements.
    """

    number: int
    cached: bool
    window: bool
    recurrent: bool
    k: int
    v: int
    heads: int
    key: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The memory layout of a model.

    `layers` includes the draft blocks, and `n_layer` is the number of layers without them. `window` is the size of the
    attention window in tokens, or 0 (`n_swa` in llama.cpp). If `chunked` is true, a window begins at a multiple of
    `window`. If `mla` is true, the model uses multi-head latent attention and has no V cache. `indexer` is the length
    of an indexer's key. It is 0 if the model has no indexer. `trained` is the training context in tokens.

    llama.cpp calls the two parts of a recurrent state R and S. `state_r` and `state_s` are their sizes in one row of a
    recurrent layer, in f32 elements. `rolls_back` is true if recurrent layers can have extra rows for rolling back
    drafted tokens.
    """

    architecture: str
    kind: Kind
    layers: tuple[Layer, ...]
    n_layer: int
    draft_blocks: int
    window: int
    chunked: bool
    mla: bool
    indexer: int
    state_r: int
    state_s: int
    vocabulary: int
    width: int
    trained: int
    rolls_back: bool

    @property
    def cached(self) -> tuple[Layer, ...]:
        """The layers that have a KV cache. Some of them may be draft blocks."""
        return tuple(one for one in self.layers if one.cached)

    @property
    def recurrent(self) -> tuple[Layer, ...]:
        """The layers that have a recurrent state."""
        return tuple(one for one in self.layers if one.recurrent)

    @property
    def state_bytes(self) -> int:
        """The size of a sequence's recurrent state in bytes: one row in each recurrent layer."""
        return 4 * (self.state_r + self.state_s) * len(self.recurrent)


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_MEMORY = _named(
    "bert jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe neo-bert eurobert modern-bert gemma-embedding dream llada"
    " llada-moe rnd1"
)
_RECURRENT = _named("mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7")
_NO_KEY_VALUE_HEADS = _named("jamba granitehybrid plamo2 kimi-linear lfm2 lfm2moe")
_HYBRID = _NO_KEY_VALUE_HEADS | _named("falcon-h1 nemotron_h nemotron_h_moe qwen3next qwen35 qwen35moe")
_STATE_GROUPS = _named("mamba2 falcon-h1 granitehybrid nemotron_h nemotron_h_moe plamo2 qwen3next qwen35 qwen35moe")
_DRAFTING = _named(
    "bailingmoe2 cohere2moe deepseek32 exaone4 exaone-moe glm4 glm4moe glm-dsa mimo2 qwen35 qwen35moe step35"
)
_MLA = _named("deepseek2 deepseek2-ocr deepseek32 glm-dsa mistral4 kimi-linear")
_ATTENTION = _named(
    "llama deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe qwen2vl qwen3"
    " qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo codeshell orion internlm2 minicpm minicpm3 gemma starcoder2"
    " xverse command-r dbrx olmo olmoe openelm arctic deepseek chatglm glm4 glm4moe bitnet jais jais2 nemotron exaone"
    " granite granitemoe chameleon plm bailingmoe bailingmoe2 dots1 arcee ernie4_5 ernie4_5-moe hunyuan-moe"
    " hunyuan-dense hunyuan_vl smollm3 seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded mistral3 paddleocr"
    " llama-embed maincoder talkie"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The rule that determines which layers of an architecture have a window.

    In every group of `period` layers, one layer has no window: the first if `dense_first` is true, otherwise the last.
    A `period` of 0 means that the file contains an array instead, or that all attention layers have a window (lfm2). A
    number in the file replaces the period. If `array` is true, an array in the file also replaces it. `size` is the
    window in tokens for files that do not specify it. If `fixed` is true, `size` always applies. If `optional` is true,
    no layer has a window in a model whose `sliding_window` is missing or 0.
    """

    period: int
    dense_first: bool = False
    array: bool = False
    size: int = 0
    fixed: bool = False
    optional: bool = False


_WINDOWS = {
    "afmoe": _Window(period=4, optional=True),
    "cohere2": _Window(period=4),
    "cohere2moe": _Window(period=4, dense_first=True, array=True),
    "exaone-moe": _Window(period=4),
    "exaone4": _Window(period=4, size=4096),
    "gemma2": _Window(period=2, size=4096),
    "gemma3": _Window(period=6, optional=True),
    "gemma3n": _Window(period=5),
    "gemma4": _Window(period=0, array=True),
    "gpt-oss": _Window(period=2),
    "lfm2": _Window(period=0, optional=True),
    "llama4": _Window(period=4, size=8192, fixed=True),
    "mellum": _Window(period=4, array=True, optional=True),
    "mimo2": _Window(period=0, array=True),
    "olmo2": _Window(period=4, optional=True),
    "plamo3": _Window(period=8, optional=True),
    "smallthinker": _Window(period=4, dense_first=True, size=4096, fixed=True, optional=True),
    "step35": _Window(period=0, array=True),
}

KNOWN = _NO_MEMORY | _RECURRENT | _HYBRID | _ATTENTION | _MLA | frozenset(_WINDOWS)
"""The architectures whose memory layout is known."""


def read_layout(model: Model) -> Layout:
    """Return the memory layout of a model.

    Raises `MissingError` if the architecture is unknown, and `UsageError` if a key is missing or invalid.
    """
    architecture = model.architecture
    if architecture not in KNOWN:
        raise CostUnknown(
            f"{model.path}: the memory layout of the architecture {architecture!r} is unknown",
            hint="run 'patchstack cost weights', which does not need the layout",
        )
    if architecture in _NO_MEMORY:
        return _layout(model, Kind.NONE, (), window=0)
    blocks = model.blocks
    draft = model.number("nextn_predict_layers", 0) if architecture in _DRAFTING else 0
    if draft >= blocks:
        raise ModelFileUnreadable(f"{model.path} has {draft} draft blocks, but only {blocks} layers in total")
    heads = model.per_layer("attention.head_count", blocks, 0)
    kv_heads = (
        heads if model.value("attention.head_count_kv") is None else model.per_layer("attention.head_count_kv", blocks)
    )
    recurrent = _recurrent(model, blocks, blocks - draft, kv_heads)
    windowed, window = _windows(model, blocks, recurrent)
    cached = _cached(model, blocks, blocks - draft, recurrent)
    sizes = _head_sizes(model, heads, any(cached))
    mla = _has_mla(model)
    layers = tuple(
        Layer(
            number=one,
            cached=cached[one],
            window=windowed[one],
            recurrent=recurrent[one],
            k=sizes[windowed[one]][0] * kv_heads[one],
            v=0 if mla else sizes[windowed[one]][1] * kv_heads[one],
            heads=heads[one],
            key=sizes[windowed[one]][0],
            value=sizes[windowed[one]][1],
        )
        for one in range(blocks)
    )
    if architecture in _RECURRENT:
        kind = Kind.RECURRENT
    elif architecture in _HYBRID:
        kind = Kind.HYBRID
    else:
        kind = Kind.WINDOW if any(windowed) else Kind.ATTENTION
    return _layout(model, kind, layers, window=window, draft=draft, mla=mla)


def _layout(
    model: Model, kind: Kind, layers: Sequence[Layer], *, window: int, draft: int = 0, mla: bool = False
) -> Layout:
    recurrent = any(one.recurrent for one in layers)
    state_r, state_s = _state(model, layers) if recurrent else (0, 0)
    return Layout(
        architecture=model.architecture,
        kind=kind,
        layers=tuple(layers),
        n_layer=len(layers) - draft,
        draft_blocks=draft,
        window=window,
        chunked=model.architecture == "llama4",
        mla=mla,
        indexer=model.number("attention.indexer.key_length") if model.architecture == "deepseek32" else 0,
        state_r=state_r,
        state_s=state_s,
        vocabulary=model.vocabulary,
        width=model.number("embedding_length"),
        trained=model.number("context_length"),
        rolls_back=model.architecture in ("qwen35", "qwen35moe"),
    )


def _recurrent(model: Model, blocks: int, n_layer: int, kv_heads: Sequence[int]) -> tuple[bool, ...]:
    """Return which layers have a recurrent state."""
    architecture = model.architecture
    if architecture in _RECURRENT or architecture == "falcon-h1":
        return (True,) * blocks
    if architecture in _NO_KEY_VALUE_HEADS:
        return tuple(one == 0 for one in kv_heads)
    if architecture.startswith("nemotron_h"):
        hidden = model.per_layer("feed_forward_length", blocks, 0)
        return tuple(heads == 0 and width == 0 for heads, width in zip(kv_heads, hidden, strict=True))
    if architecture not in _HYBRID:
        return (False,) * blocks
    if model.value("attention.recurrent_layers") is not None:
        marked = model.per_layer("attention.recurrent_layers", blocks)
        return tuple(bool(one) and number < n_layer for number, one in enumerate(marked))
    interval = model.number("full_attention_interval", 4)
    if interval == 0:
        raise model.wrong("full_attention_interval", "a whole number above 0")
    return tuple(one < n_layer and (one + 1) % interval != 0 for one in range(blocks))


def _cached(model: Model, blocks: int, n_layer: int, recurrent: Sequence[bool]) -> tuple[bool, ...]:
    """Return which layers have a KV cache."""
    architecture = model.architecture
    if architecture in _RECURRENT:
        return (False,) * blocks
    if architecture == "falcon-h1":
        return (True,) * blocks
    if architecture.startswith("nemotron_h"):
        hidden = model.per_layer("feed_forward_length", blocks, 0)
        return tuple(not state and width == 0 for state, width in zip(recurrent, hidden, strict=True))
    if architecture in ("qwen35", "qwen35moe", "step35"):
        return tuple(one < n_layer and not recurrent[one] for one in range(blocks))
    if architecture == "gemma3n":
        return tuple(one < 20 for one in range(blocks))
    if architecture == "gemma4":
        own = blocks - model.number("attention.shared_kv_layers", 0)
        return tuple(one < own for one in range(blocks))
    return tuple(not one for one in recurrent)


def _windows(model: Model, blocks: int, recurrent: Sequence[bool]) -> tuple[tuple[bool, ...], int]:
    """Return which layers have a window, and the size of the window in tokens."""
    architecture, nowhere = model.architecture, (False,) * blocks
    rule = _WINDOWS.get(architecture)
    named = model.value("attention.sliding_window")
    if rule is None:
        return nowhere, 0
    if architecture == "exaone4" and blocks != 64:
        return nowhere, model.number("attention.sliding_window", 0)
    if architecture == "llama4" and named == 0:
        return nowhere, 0
    if rule.optional and not model.number("attention.sliding_window", 0):
        return nowhere, 0
    if rule.fixed:
        size = rule.size
    else:
        size = model.number("attention.sliding_window", rule.size or None)
    if architecture == "lfm2":
        return tuple(not one for one in recurrent), size
    pattern = model.value("attention.sliding_window_pattern")
    if rule.array and (rule.period == 0 or isinstance(pattern, tuple)):
        return tuple(bool(one) for one in model.per_layer("attention.sliding_window_pattern", blocks)), size
    # For all other architectures with a period, llama.cpp at the pin ignores an array.
    period = (
        rule.period if isinstance(pattern, tuple) else model.number("attention.sliding_window_pattern", rule.period)
    )
    return tuple(_has_window(one, period, rule.dense_first) for one in range(blocks)), size


def _has_window(layer: int, period: int, dense_first: bool) -> bool:
    """Return whether the layer with this number has a window. If `period` is 0, every layer has one.

    Source: `llama_hparams::set_swa_pattern`.
    """
    if period == 0:
        return True
    return layer % period != 0 if dense_first else layer % period < period - 1


def _head_sizes(model: Model, heads: Sequence[int], cached: bool) -> dict[bool, tuple[int, int]]:
    """Return the lengths of a head's key and value, in elements.

    The entry `True` is for layers with a window. The entry `False` is for the other layers. If `cached` is true, raises
    `UsageError` for a model without heads.
    """
    usual = model.number("embedding_length") // heads[0] if heads[0] else 0
    if heads[0] or model.architecture == "plamo2":
        key = model.number("attention.key_length", usual)
        value = model.number("attention.value_length", usual)
    else:
        key = value = 0
    if cached and not (key and any(heads)):
        raise ModelFileUnreadable(
            f"{model.path}: the attention layers have no heads", hint="attention.head_count is 0 or missing"
        )
    return {
        False: (key, value),
        True: (model.number("attention.key_length_swa", key), model.number("attention.value_length_swa", value)),
    }


def _has_mla(model: Model) -> bool:
    if model.architecture not in _MLA:
        return False
    both = [bool(model.number(f"attention.{one}_length_mla", 0)) for one in ("key", "value")]
    if both[0] != both[1]:
        raise ModelFileUnreadable(f"{model.path}: one of key_length_mla and value_length_mla is missing or 0")
    return all(both)


def _state(model: Model, layers: Sequence[Layer]) -> tuple[int, int]:
    """Return the numbers of elements in one row of R and S, the two parts of a recurrent state.

    Source: `llama_hparams::n_embd_r` and `n_embd_s`.
    """
    architecture, width = model.architecture, model.number("embedding_length")
    if "rwkv" in architecture:
        head = model.number("wkv.head_size")
        return model.number("token_shift_count", 2) * width, width * head
    if architecture in ("lfm2", "lfm2moe"):
        return width * _above_zero(model, "shortconv.l_cache", -1), 0
    if architecture == "kimi-linear":
        size, heads = model.number("kda.head_dim"), layers[0].heads
        convolution = model.number("ssm.conv_kernel")
        return 3 * (convolution - 1 if convolution else 3) * heads * size, size * size * heads
    inner, state = model.number("ssm.inner_size"), model.number("ssm.state_size")
    groups = model.number("ssm.group_count") if architecture in _STATE_GROUPS else 0
    return _above_zero(model, "ssm.conv_kernel", -1) * (inner + 2 * groups * state), state * inner


def _above_zero(model: Model, key: str, more: int) -> int:
    return max(0, model.number(key) + more)
