"""A tiny vision encoder that a real llama-server loads with a tiny model: a LLaVA projector over one layer.

Random weights. It turns any image into the same number of tokens, or more for one that is cut into tiles. Keys and
tensors are from llama.cpp's `tools/mtmd/clip.cpp` and `tools/mtmd/models/llava.cpp` at the pin.
"""

from __future__ import annotations

import base64
import importlib
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.support import tiny_gguf

IMAGE, PATCH, WIDTH, HEADS, HIDDEN = 56, 14, 32, 2, 64
IMAGE_TOKENS = (IMAGE // PATCH) ** 2


def write_vision_model(path: Path, *, seed: int = 1) -> Path:
    """Write the file for `--mmproj`, for the models of `tiny_gguf`, and return its path."""
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_string("general.type", "mmproj")
    writer.add_string("general.name", "tiny vision")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": IMAGE,
        "patch_size": PATCH,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "block_count": 2,  # this projector omits the last one
        "projection_dim": tiny_gguf.WIDTH,
        "attention.head_count": HEADS,
    }
    for name, value in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    generator = numpy.random.default_rng(seed)

    def add(name: str, *shape: int, kind: str = "float32") -> None:
        content = generator.normal(0, 0.1, shape)
        writer.add_tensor(name, content.astype(kind))

    add("v.patch_embd.weight", WIDTH, 3, PATCH, PATCH, kind="float16")
    add("v.class_embd", WIDTH)
    add("v.position_embd.weight", IMAGE_TOKENS + 1, WIDTH)
    for block in range(2):
        for one in ("attn_q", "attn_k", "attn_v", "attn_out"):
            add(f"v.blk.{block}.{one}.weight", WIDTH, WIDTH)
        for one in ("ln1", "ln2"):
            add(f"v.blk.{block}.{one}.weight", WIDTH)
            add(f"v.blk.{block}.{one}.bias", WIDTH)
        add(f"v.blk.{block}.ffn_up.weight", HIDDEN, WIDTH)
        add(f"v.blk.{block}.ffn_down.weight", WIDTH, HIDDEN)
    for at, width in ((0, WIDTH), (2, tiny_gguf.WIDTH)):
        add(f"mm.{at}.weight", tiny_gguf.WIDTH, width)
        add(f"mm.{at}.bias", tiny_gguf.WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def image_address(number: int, size: int = IMAGE) -> str:
    """Return a `data:` address of a square PNG of one colour that differs by number."""
    colour = bytes((number * 37 % 256, number * 101 % 256, number // 256 % 256))
    rows = (b"\0" + colour * size) * size
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
