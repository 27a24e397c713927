"""A tiny `olmo2` model with a window in all layers except every fourth, with a tokenizer and a chat template.

Random weights, the vocabulary of `tiny_gguf`. Keys and tensors are from llama.cpp's `src/models/olmo2.cpp` at the pin.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import tiny_gguf

WINDOW = 64
LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN = 4, 128, 4, 2, 256
_HEAD = WIDTH // HEADS


def write_window_model(path: Path, *, window: int = WINDOW, seed: int = 1) -> Path:
    """Write the model, and return its path."""
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    writer = gguf.GGUFWriter(str(path), "olmo2")
    writer.add_name("tiny olmo2")
    writer.add_context_length(tiny_gguf.CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_sliding_window(window)
    tiny_gguf.add_tokenizer(writer, gguf.TokenType, chat=True)
    generator = numpy.random.default_rng(seed)
    for name, shape in _tensors():
        if len(shape) == 1:
            writer.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
            continue
        content = generator.normal(0, 2 * shape[-1] ** -0.5, shape)
        if name == "output.weight":  # generated text stays printable ASCII
            content[[not 32 <= token < 127 for token in range(tiny_gguf.VOCABULARY)]] = 0
        writer.add_tensor(name, content.astype(numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes, with the length of a row last."""
    yield "token_embd.weight", (tiny_gguf.VOCABULARY, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (tiny_gguf.VOCABULARY, WIDTH)
    for number in range(LAYERS):
        block = f"blk.{number}."
        yield block + "attn_q.weight", (WIDTH, WIDTH)
        yield block + "attn_k.weight", (KV_HEADS * _HEAD, WIDTH)
        yield block + "attn_v.weight", (KV_HEADS * _HEAD, WIDTH)
        yield block + "attn_output.weight", (WIDTH, WIDTH)
        yield block + "attn_q_norm.weight", (WIDTH,)
        yield block + "attn_k_norm.weight", (KV_HEADS * _HEAD,)
        yield block + "post_attention_norm.weight", (WIDTH,)
        yield block + "ffn_gate.weight", (HIDDEN, WIDTH)
        yield block + "ffn_up.weight", (HIDDEN, WIDTH)
        yield block + "ffn_down.weight", (WIDTH, HIDDEN)
        yield block + "post_ffw_norm.weight", (WIDTH,)
