"""Create the same model file as `minillm-make-model --seed N`, without running that program.

The demo's upstream defines the file format in `src/model-io.cpp` and computes the weights in `model::randomize`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

_VOCABULARY, _CONTEXT, _WIDTH, _LAYERS, _HEADS, _HEADS_KV = 257, 512, 64, 3, 4, 2
_FF, _FF_EXPERT, _EXPERTS, _EXPERTS_USED = 128, 64, 8, 2
_ROPE_BASE, _NORM_EPS = 10000.0, 1e-5
_MASK = (1 << 64) - 1
_STEPS = 1 << 23


def model_file(seed: int) -> bytes:
    """Return the bytes of a model file with random weights.

    Every number is 4 bytes long and little-endian.
    """
    sizes = (_VOCABULARY, _CONTEXT, _WIDTH, _LAYERS, _HEADS, _HEADS_KV, _FF, _FF_EXPERT, _EXPERTS, _EXPERTS_USED)
    parts = [b"MLLM", struct.pack("<11I2f", 1, *sizes, _ROPE_BASE, _NORM_EPS)]
    for name, columns, rows in _tensors():
        weights = _bias() if name == "output_bias" else _weights(name, columns, rows, seed)
        parts += [struct.pack("<I", len(name)), name.encode(), struct.pack("<2I", columns, rows)]
        parts.append(struct.pack(f"<{columns * rows}f", *weights))
    return b"".join(parts)


def _tensors() -> Iterator[tuple[str, int, int]]:
    """Yield the name, the number of columns and the number of rows of each tensor, in file order.

    The first layer has attention, the second is recurrent, and the third has attention and experts.
    """
    yield "tok_embd", _WIDTH, _VOCABULARY
    for layer in range(_LAYERS):
        recurrent, experts = layer % 3 == 1, layer % 3 == 2
        keys = _WIDTH if recurrent else _WIDTH // _HEADS * _HEADS_KV
        ff, count = (_FF_EXPERT, _EXPERTS) if experts else (_FF, 1)
        shapes = [("mixer_norm", _WIDTH, 1), ("wq", _WIDTH, _WIDTH), ("wk", _WIDTH, keys), ("wv", _WIDTH, keys)]
        shapes.append(("wo", _WIDTH, _WIDTH))
        if recurrent:
            shapes += [("w_alpha", _WIDTH, _HEADS), ("w_beta", _WIDTH, _HEADS), ("w_gate", _WIDTH, _WIDTH)]
        shapes.append(("ffn_norm", _WIDTH, 1))
        if experts:
            shapes.append(("ffn_router", _WIDTH, _EXPERTS))
        shapes += [("ffn_gate", _WIDTH, ff * count), ("ffn_up", _WIDTH, ff * count), ("ffn_down", ff, _WIDTH * count)]
        for name, columns, rows in shapes:
            yield f"blk.{layer}.{name}", columns, rows
    yield "output_norm", _WIDTH, 1
    yield "output", _WIDTH, _VOCABULARY
    yield "output_bias", _VOCABULARY, 1


def _weights(name: str, columns: int, rows: int, seed: int) -> list[float]:
    """Return random weights for one tensor.

    The weights are distributed uniformly around 0, or around 1 for a norm. Intermediate results are rounded to 32 bits,
    like a C++ float.
    """
    norm = name.endswith("_norm")
    scale = _float32(0.1 if norm else math.sqrt(_float32(3.0 / (1 if name == "tok_embd" else columns))))
    state = seed
    for byte in name.encode():
        state = _splitmix64((state ^ byte) + _GOLDEN)
    found = []
    for _ in range(columns * rows):
        state = state + _GOLDEN & _MASK
        weight = ((_splitmix64(state) >> 40) - _STEPS) / _STEPS * scale
        found.append(_float32(weight) + 1.0 if norm else weight)
    return found


def _bias() -> list[float]:
    """Return the output bias, which prefers spaces and lower-case letters.

    Without this bias, random logits would produce text that a terminal cannot show.
    """
    return [0.0 if token == 32 or 97 <= token <= 122 else -6.0 for token in range(_VOCABULARY)]


_GOLDEN = 0x9E3779B97F4A7C15


def _splitmix64(state: int) -> int:
    z = state & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
