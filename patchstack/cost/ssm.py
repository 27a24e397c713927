"""Compute the memory length τ of each head in recurrent layers.

Also compute how many bytes are saved if heads with a small τ store their state in bf16.

τ is `1/(|ssm_a|·softplus(ssm_dt))` tokens. The gate of a head is `ssm_a·softplus(α + ssm_dt)`, in which α depends on
the input (`src/models/qwen35.cpp` at the pin). τ is computed for α = 0. If the state is rounded to bf16 at every step,
its relative error is at most `2⁻⁸·τ`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.causes import BadValue, CostRefused, CostUnknown
from patchstack.cost.architecture import Layout
from patchstack.cost.header import read_values
from patchstack.cost.model import Model

_DECAY = re.compile(r"blk\.([0-9]{1,9})\.ssm_a\Z")
BF16_STEP = 2.0**-8


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMemory:
    """The memory lengths of a layer's heads, in tokens."""

    layer: int
    tau: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSplit:
    """A split of the heads into heads with an f32 state and heads with a bf16 state.

    Heads with τ above `threshold` keep f32. `f32` states for each layer and head whether the head keeps f32. `heads` is
    the number of all heads, and `bf16` is the number of heads in bf16. llama.cpp calls the two parts of a recurrent
    state R and S, and only S is split. `factor` is `1 − bf16/(2·heads)`: the size of S after the split, divided by its
    size in f32. `state_bytes` is the size of R and S of one sequence. `step_seconds` is the time to read and write the
    states of all streams once. It is None without a bandwidth. `error` is the largest finite `2⁻⁸·τ` of a head in bf16.
    It is 0 if no head is in bf16.
    """

    threshold: float
    f32: tuple[tuple[bool, ...], ...]
    heads: int
    bf16: int
    factor: float
    state_bytes: float
    step_seconds: float | None
    error: float


def memory_lengths(model: Model, layout: Layout) -> tuple[LayerMemory, ...]:
    """Return τ of every head of every recurrent layer.

    Raises `MissingError` if no layer has decays (`ssm_a`), or if a layer has a matrix instead of one decay for each
    head. Raises `UsageError` if a decay is not below 0, if a value is not finite, or if `ssm_dt.bias` is missing or has
    the wrong size.
    """
    tensors = {one.name: one for one in model.tensors}
    found = []
    for name, decay in tensors.items():
        match = _DECAY.match(name)
        if match is None or int(match[1]) >= layout.n_layer:
            continue
        rows = [one for one in decay.shape if one > 1]
        if len(rows) > 1:
            raise CostUnknown(
                f"{model.path}: {name} is a {'×'.join(map(str, decay.shape))} matrix, "
                "so its heads have no single memory length",
                hint="memory lengths exist for gated delta rule layers and Mamba-2, not for Mamba",
            )
        bias = tensors.get(f"blk.{match[1]}.ssm_dt.bias")
        if bias is None or bias.elements != decay.elements:
            raise CostRefused(
                f"{model.path}: blk.{match[1]}.ssm_dt.bias is missing or has a different size than {name}"
            )
        found.append(_layer(model, int(match[1]), name, read_values(decay), read_values(bias)))
    if not found:
        raise CostUnknown(f"{model.path} has no layer with ssm_a", hint="only recurrent layers have memory lengths")
    return tuple(sorted(found, key=lambda one: one.layer))


def _layer(model: Model, layer: int, name: str, decays: Sequence[float], biases: Sequence[float]) -> LayerMemory:
    tau = []
    for head, (decay, bias) in enumerate(zip(decays, biases, strict=True)):
        if not (math.isfinite(decay) and math.isfinite(bias)) or decay >= 0:
            raise CostRefused(
                f"{model.path}: head {head} of {name} is {decay:g} (ssm_dt {bias:g}), which is not a decay",
                hint="ssm_a is below 0 in a correctly converted model",
            )
        rate = -decay * softplus(bias)
        tau.append(1 / rate if rate > 0 else math.inf)
    return LayerMemory(layer=layer, tau=tuple(tau))


def softplus(x: float) -> float:
    """Return `ln(1 + eˣ)` without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def split(
    memories: Sequence[LayerMemory],
    layout: Layout,
    threshold: float,
    *,
    bandwidth: float | None = None,
    streams: int = 1,
) -> StateSplit:
    """Return the split at a threshold in tokens: heads with a larger τ keep f32.

    With a threshold of 0, all heads keep f32. With an infinite threshold, all heads use bf16. `bandwidth` is in bytes
    per second.
    """
    f32 = tuple(tuple(tau > threshold for tau in one.tau) for one in memories)
    heads = sum(len(one) for one in f32)
    bf16 = heads - sum(map(sum, f32))
    factor = 1 - bf16 / (2 * heads)
    layers = len(layout.recurrent)
    state = 4 * layers * (layout.state_r + layout.state_s * factor)
    worst = max((tau for one in memories for tau in one.tau if not tau > threshold and math.isfinite(tau)), default=0.0)
    return StateSplit(
        threshold=threshold,
        f32=f32,
        heads=heads,
        bf16=bf16,
        factor=factor,
        state_bytes=state,
        step_seconds=2 * streams * state / bandwidth if bandwidth else None,
        error=BF16_STEP * worst,
    )


def threshold_of_share(memories: Sequence[LayerMemory], share: float) -> float:
    """Return a threshold at which at least this share of the heads keeps f32, and as few heads as possible.

    Raises `UsageError` if `share` is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise BadValue(f"the share {share:g} is not between 0 and 1", hint="give the share of heads that keep f32")
    lengths = sorted((tau for one in memories for tau in one.tau), reverse=True)
    kept = math.ceil(share * len(lengths))
    if kept == len(lengths):
        return 0.0
    below = [tau for tau in lengths if kept == 0 or tau < lengths[kept - 1]]
    return max(below, default=0.0)


def sweep(
    memories: Sequence[LayerMemory], layout: Layout, *, bandwidth: float | None = None, streams: int = 1, most: int = 32
) -> tuple[StateSplit, ...]:
    """Return splits at up to `most` thresholds, from all heads in f32 to all heads in bf16.

    A search can try these splits to find the smallest number of f32 heads with which the model's output still passes a
    check.
    """
    lengths = sorted({tau for one in memories for tau in one.tau})
    picked = sorted({lengths[round(at * (len(lengths) - 1) / max(1, most - 2))] for at in range(max(1, most - 1))})
    return tuple(split(memories, layout, one, bandwidth=bandwidth, streams=streams) for one in (0.0, *picked))
