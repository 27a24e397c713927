"""Headers of GGUF files written with the standard library alone, and the shapes of two well-known kinds of models.

`write_shape` leaves a hole for the weights: 20 GB that take no disk space. llama.cpp loads such a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.cost.header import TENSOR_TYPES

_NUMBER = {kind.name: number for number, kind in TENSOR_TYPES.items()}
Value = int | float | bool | str | Sequence[int] | Sequence[str] | Sequence[float] | Sequence[bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """A tensor: `shape` with the length of a row first."""

    name: str
    shape: tuple[int, ...]
    type: str = "f32"

    @property
    def bytes(self) -> int:
        kind = TENSOR_TYPES[_NUMBER[self.type]]
        count = 1
        for one in self.shape:
            count *= one
        return count // kind.block * kind.size


def header_bytes(keys: Mapping[str, Value], tensors: Iterable[Shape], *, version: int = 3) -> bytes:
    """Return the header of a file, padded to where its data begins."""
    tensors = list(tensors)
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(keys))]
    for key, value in keys.items():
        parts.append(_text(key) + _value(value))
    offset = 0
    for one in tensors:
        parts.append(_text(one.name) + struct.pack(f"<I{len(one.shape)}Q", len(one.shape), *one.shape))
        parts.append(struct.pack("<IQ", _NUMBER[one.type], offset))
        offset += -(-one.bytes // 32) * 32
    found = b"".join(parts)
    return found + bytes(-len(found) % 32)


def write_shape(path: Path, keys: Mapping[str, Value], tensors: Iterable[Shape]) -> Path:
    """Write a header and a hole."""
    tensors = list(tensors)
    header = header_bytes(keys, tensors)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(-(-one.bytes // 32) * 32 for one in tensors))
    return path


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    kind = 8 if value and isinstance(value[0], str) else 6 if value and isinstance(value[0], float) else 5
    if value and isinstance(value[0], bool):
        kind = 7
    items = [
        _text(one) if isinstance(one, str) else struct.pack({5: "<i", 6: "<f", 7: "<?"}[kind], one) for one in value
    ]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(items)


def vocabulary(count: int, *, merges: bool = True) -> dict[str, Value]:
    """Return a tokenizer's keys with `count` tokens: bytes as GPT-2 writes them, then made-up words."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = [*map(chr, plain), *(chr(256 + at) for at, _ in enumerate(others))]
    words = [*letters, "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words += [f"word{number}" for number in range(count - len(words))]
    found: dict[str, Value] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * len(words),
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.add_bos_token": False,
    }
    if merges:
        found["tokenizer.ggml.merges"] = (
            ["w o", *(f"word{number} x" for number in range(count - 573))] if count > 600 else ["w o"]
        )
    return found


def qwen3_32b(tokens: bool = False) -> tuple[dict[str, Value], list[Shape]]:
    """Qwen3-32B in Q4_K_M, as `llama-quantize` types it: Q6_K for the head, and for the value and down projections of
    the layers that `use_more_bits` names."""
    width, hidden, layers, vocab = 5120, 25600, 64, 151936
    keys: dict[str, Value] = {
        "general.architecture": "qwen3",
        "general.name": "Qwen3 32B",
        "qwen3.block_count": layers,
        "qwen3.context_length": 40960,
        "qwen3.embedding_length": width,
        "qwen3.feed_forward_length": hidden,
        "qwen3.attention.head_count": 64,
        "qwen3.attention.head_count_kv": 8,
        "qwen3.attention.key_length": 128,
        "qwen3.attention.value_length": 128,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
    }
    keys |= vocabulary(vocab) if tokens else {"qwen3.vocab_size": vocab}
    shapes = [
        Shape("token_embd.weight", (width, vocab), "q4_K"),
        Shape("output_norm.weight", (width,)),
        Shape("output.weight", (width, vocab), "q6_K"),
    ]
    for layer in range(layers):
        more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        better = "q6_K" if more else "q4_K"
        block = f"blk.{layer}."
        shapes += [
            Shape(block + "attn_norm.weight", (width,)),
            Shape(block + "attn_q.weight", (width, 8192), "q4_K"),
            Shape(block + "attn_k.weight", (width, 1024), "q4_K"),
            Shape(block + "attn_v.weight", (width, 1024), better),
            Shape(block + "attn_output.weight", (8192, width), "q4_K"),
            Shape(block + "attn_q_norm.weight", (128,)),
            Shape(block + "attn_k_norm.weight", (128,)),
            Shape(block + "ffn_norm.weight", (width,)),
            Shape(block + "ffn_gate.weight", (width, hidden), "q4_K"),
            Shape(block + "ffn_up.weight", (width, hidden), "q4_K"),
            Shape(block + "ffn_down.weight", (hidden, width), better),
        ]
    return keys, shapes


def hybrid_35b(
    *, draft: bool = True, weights: str = "q4_K", vocab: int = 248_320
) -> tuple[dict[str, Value], list[Shape]]:
    """Return a hybrid of 35B parameters with 3B active: 30 recurrent layers, 10 with attention, 256 experts, and a
    draft block."""
    width, layers, arch = 2048, 40, "qwen35moe"
    keys: dict[str, Value] = {
        "general.architecture": arch,
        "general.name": "hybrid 35B-A3B",
        f"{arch}.block_count": layers + draft,
        f"{arch}.context_length": 262_144,
        f"{arch}.embedding_length": width,
        f"{arch}.attention.head_count": 16,
        f"{arch}.attention.head_count_kv": 2,
        f"{arch}.attention.key_length": 256,
        f"{arch}.attention.value_length": 256,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{arch}.rope.dimension_count": 64,
        f"{arch}.rope.dimension_sections": [11, 11, 10, 0],
        f"{arch}.rope.freq_base": 10_000_000.0,
        f"{arch}.full_attention_interval": 4,
        f"{arch}.ssm.conv_kernel": 4,
        f"{arch}.ssm.state_size": 128,
        f"{arch}.ssm.group_count": 16,
        f"{arch}.ssm.time_step_rank": 32,
        f"{arch}.ssm.inner_size": 4096,
        f"{arch}.expert_count": 256,
        f"{arch}.expert_used_count": 8,
        f"{arch}.expert_feed_forward_length": 512,
        f"{arch}.expert_shared_feed_forward_length": 512,
    }
    if draft:
        keys[f"{arch}.nextn_predict_layers"] = 1
    keys |= vocabulary(vocab)
    shapes = [
        Shape("token_embd.weight", (width, vocab), weights),
        Shape("output_norm.weight", (width,)),
        Shape("output.weight", (width, vocab), "q6_K" if weights == "q4_K" else weights),
    ]
    for layer in range(layers + draft):
        recurrent = layer < layers and (layer + 1) % 4 != 0
        shapes += _recurrent(layer, width, weights) if recurrent else _attention(layer, width, weights)
        shapes += _experts(layer, width, weights)
    if draft:
        block = f"blk.{layers}.nextn."
        shapes += [Shape(block + "eh_proj.weight", (2 * width, width), weights)]
        shapes += [Shape(f"{block}{one}.weight", (width,)) for one in ("enorm", "hnorm", "shared_head_norm")]
    return keys, shapes


def _attention(layer: int, width: int, weights: str) -> Iterator[Shape]:
    block = f"blk.{layer}."
    yield Shape(block + "attn_norm.weight", (width,))
    yield Shape(block + "attn_q.weight", (width, 8192), weights)
    yield Shape(block + "attn_k.weight", (width, 512), weights)
    yield Shape(block + "attn_v.weight", (width, 512), weights)
    yield Shape(block + "attn_output.weight", (4096, width), weights)
    yield Shape(block + "attn_q_norm.weight", (256,))
    yield Shape(block + "attn_k_norm.weight", (256,))
    yield Shape(block + "post_attention_norm.weight", (width,))


def _recurrent(layer: int, width: int, weights: str) -> Iterator[Shape]:
    block = f"blk.{layer}."
    yield Shape(block + "attn_norm.weight", (width,))
    yield Shape(block + "attn_qkv.weight", (width, 8192), weights)
    yield Shape(block + "attn_gate.weight", (width, 4096), weights)
    yield Shape(block + "ssm_conv1d.weight", (4, 8192))
    yield Shape(block + "ssm_dt.bias", (32,))
    yield Shape(block + "ssm_a", (32,))
    yield Shape(block + "ssm_norm.weight", (128,))
    yield Shape(block + "ssm_beta.weight", (width, 32), weights)
    yield Shape(block + "ssm_alpha.weight", (width, 32), weights)
    yield Shape(block + "ssm_out.weight", (4096, width), weights)
    yield Shape(block + "post_attention_norm.weight", (width,))


def _experts(layer: int, width: int, weights: str) -> Iterator[Shape]:
    block = f"blk.{layer}."
    yield Shape(block + "ffn_gate_inp.weight", (width, 256))
    yield Shape(block + "ffn_gate_exps.weight", (width, 512, 256), weights)
    yield Shape(block + "ffn_up_exps.weight", (width, 512, 256), weights)
    yield Shape(block + "ffn_down_exps.weight", (512, width, 256), weights)
    yield Shape(block + "ffn_gate_inp_shexp.weight", (width,))
    yield Shape(block + "ffn_gate_shexp.weight", (width, 512), weights)
    yield Shape(block + "ffn_up_shexp.weight", (width, 512), weights)
    yield Shape(block + "ffn_down_shexp.weight", (512, width), weights)
