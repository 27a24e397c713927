"""A mixture of experts of realistic shape and random 4-bit weights, for speed tests only: its output has no meaning.

The defaults are the shape of a model of 30B parameters with 3B active (128 experts, 8 of them used, rows of 2048 and
experts of 768), with fewer layers. Weights are Q4_0: blocks of 32 values, a half-precision scale and 16 bytes of
nibbles, so that CUDA takes the quantized kernels that a real model takes. One random chunk is repeated through all
tensors: the file is written at the speed of the disk, and no kernel looks at whether two experts are alike.

    python -m benchmarks.moe_model FILE [--layers 12]

Needs the package `gguf`, which brings numpy. The vocabulary is that of `tests.support.tiny_gguf`.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import tiny_gguf

WIDTH, HEADS, KV_HEADS, HEAD = 2048, 32, 4, 128
EXPERTS, EXPERTS_USED, EXPERT_HIDDEN = 128, 8, 768
CONTEXT = 32768
_BLOCK_VALUES, _BLOCK_BYTES = 32, 18
_CHUNK = _BLOCK_BYTES << 16


def write_model(path: Path, *, layers: int, seed: int = 1) -> Path:
    """Write the model, about 0.36 GB for each layer, and return its path."""
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    writer = gguf.GGUFWriter(str(path), "qwen3moe")
    _describe(writer, layers)
    tiny_gguf.add_tokenizer(writer, gguf.TokenType, chat=False)
    shapes = list(_tensors(layers))
    for name, shape in shapes:
        quantized = len(shape) > 1 and "gate_inp" not in name
        stored = (*shape[:-1], shape[-1] // _BLOCK_VALUES * _BLOCK_BYTES) if quantized else shape
        size = math.prod(stored) * (1 if quantized else 4)
        kind = gguf.GGMLQuantizationType.Q4_0 if quantized else None
        writer.add_tensor_info(name, stored, numpy.dtype("uint8" if quantized else "float32"), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    generator = numpy.random.default_rng(seed)
    chunk = _chunk(numpy, generator)
    for name, shape in shapes:
        if len(shape) == 1:
            writer.write_tensor_data(numpy.ones(shape, dtype=numpy.float32))
        elif "gate_inp" in name:
            writer.write_tensor_data(generator.normal(0, shape[-1] ** -0.5, shape).astype(numpy.float32))
        else:
            size = math.prod(shape) // _BLOCK_VALUES * _BLOCK_BYTES
            writer.write_tensor_data(numpy.resize(chunk, size))
    writer.close()
    return path


def _chunk(numpy: Any, generator: Any) -> Any:
    """Blocks whose values have the spread of weights that keep a vector's length: 1/sqrt(WIDTH)."""
    chunk = generator.integers(0, 256, _CHUNK, dtype=numpy.uint8).reshape(-1, _BLOCK_BYTES)
    scale = numpy.float16(WIDTH**-0.5 / 4.6)  # the 16 values of a nibble, -8 to 7, have a standard deviation of 4.6
    chunk[:, :2] = numpy.frombuffer(scale.tobytes(), dtype=numpy.uint8)
    return chunk.reshape(-1)


def _tensors(layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes, as numpy has them: the length of a row last."""
    yield "token_embd.weight", (tiny_gguf.VOCABULARY, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (tiny_gguf.VOCABULARY, WIDTH)
    for number in range(layers):
        block = f"blk.{number}"
        yield f"{block}.attn_norm.weight", (WIDTH,)
        yield f"{block}.attn_q.weight", (HEADS * HEAD, WIDTH)
        yield f"{block}.attn_k.weight", (KV_HEADS * HEAD, WIDTH)
        yield f"{block}.attn_v.weight", (KV_HEADS * HEAD, WIDTH)
        yield f"{block}.attn_output.weight", (WIDTH, HEADS * HEAD)
        yield f"{block}.attn_q_norm.weight", (HEAD,)
        yield f"{block}.attn_k_norm.weight", (HEAD,)
        yield f"{block}.ffn_norm.weight", (WIDTH,)
        yield f"{block}.ffn_gate_inp.weight", (EXPERTS, WIDTH)
        yield f"{block}.ffn_gate_exps.weight", (EXPERTS, EXPERT_HIDDEN, WIDTH)
        yield f"{block}.ffn_up_exps.weight", (EXPERTS, EXPERT_HIDDEN, WIDTH)
        yield f"{block}.ffn_down_exps.weight", (EXPERTS, WIDTH, EXPERT_HIDDEN)


def _describe(writer: Any, layers: int) -> None:
    writer.add_name(f"random mixture of experts, {layers} layers")
    writer.add_context_length(CONTEXT)
    writer.add_vocab_size(tiny_gguf.VOCABULARY)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(EXPERT_HIDDEN * EXPERTS_USED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(EXPERTS_USED)
    writer.add_expert_feed_forward_length(EXPERT_HIDDEN)


def main() -> None:
    """Write one from the command line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_model(options.file, layers=options.layers, seed=options.seed)


if __name__ == "__main__":
    main()
