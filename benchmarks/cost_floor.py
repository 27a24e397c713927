"""Compare decode runs on this machine's CPU with their floor: none may be faster, and the best should be near.

Writes a dense model of random weights of at least four times the last-level cache, and runs llama-batched-bench on it.
The bandwidth is the largest of ten probes, made before, between and after the runs: libc's `memchr` over a gigabyte
without the byte, with one thread for each core. So a probe only reads.

    python -m benchmarks.cost_floor --bin DIR [--runs 20] [--gigabytes 1]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from patchstack.cost.compare import compare
from patchstack.report.cost.runs import read_runs
from patchstack.workflow.cost import open_subject
from tests.support.gguf_header import Shape, Value, header_bytes, vocabulary

WIDTH, HIDDEN, PROBE = 1024, 2816, 1 << 30


def write_model(path: Path, size: float) -> Path:
    """Write a dense model of about so many bytes in q8_0, one random chunk repeated."""
    one = (4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN) * 34 / 32
    layers = max(1, round(size / one))
    keys: dict[str, Value] = {
        "general.architecture": "llama",
        "general.name": "random dense",
        "llama.block_count": layers,
        "llama.context_length": 4096,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 8,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.rope.dimension_count": 128,
        **vocabulary(1024),
    }
    shapes = [Shape(name, (WIDTH, 1024), "q8_0") for name in ("token_embd.weight", "output.weight")]
    shapes.append(Shape("output_norm.weight", (WIDTH,)))
    for number in range(layers):
        block = f"blk.{number}."
        shapes += [Shape(f"{block}{name}_norm.weight", (WIDTH,)) for name in ("attn", "ffn")]
        shapes += [Shape(f"{block}attn_{name}.weight", (WIDTH, WIDTH), "q8_0") for name in ("q", "k", "v", "output")]
        shapes += [Shape(f"{block}ffn_{name}.weight", (WIDTH, HIDDEN), "q8_0") for name in ("gate", "up")]
        shapes.append(Shape(f"{block}ffn_down.weight", (HIDDEN, WIDTH), "q8_0"))
    raw = random.Random(1).randbytes(32 << 16)
    scale = struct.pack("<e", WIDTH**-0.5 / 74)  # int8 at random has a standard deviation of 74
    chunk = b"".join(scale + raw[at : at + 32] for at in range(0, len(raw), 32))
    with path.open("wb") as file:
        file.write(header_bytes(keys, shapes))
        for one_shape in shapes:
            if one_shape.type == "f32":
                data = struct.pack("<f", 1.0) * (one_shape.bytes // 4)
            else:
                data = (chunk * (one_shape.bytes // len(chunk) + 1))[: one_shape.bytes]
            file.write(data + bytes(-len(data) % 32))
    return path


class Probe:
    """Reads a gigabyte with all threads."""

    def __init__(self, threads: int) -> None:
        self.libc = ctypes.CDLL(None)
        self.libc.memchr.restype = ctypes.c_void_p
        self.libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        self.data = ctypes.create_string_buffer(b"\1" * PROBE, PROBE)
        self.threads = threads

    def once(self) -> float:
        """Return bytes a second."""
        start, part = ctypes.addressof(self.data), PROBE // self.threads
        workers = [
            threading.Thread(target=self.libc.memchr, args=(start + at * part, 2, part)) for at in range(self.threads)
        ]
        began = time.perf_counter()
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        return PROBE / (time.perf_counter() - began)


def main() -> int:
    """Exit status: 0 if every run is at or above its floor and the best within three times of it, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    probe = Probe(options.threads)
    bandwidths = [probe.once() for _ in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        model = write_model(Path(directory) / "model.gguf", options.gigabytes * 1e9)
        rows = Path(directory) / "rows.jsonl"
        lines = []
        for run in range(options.runs):
            command = [
                str(options.bin / "llama-batched-bench"),
                "-m",
                str(model),
                "-c",
                "512",
                "-npp",
                "8",
                "-ntg",
                "16",
            ]
            command += ["-npl", "1", "-t", str(options.threads), "--output-format", "jsonl"]
            done = subprocess.run(command, capture_output=True, check=True)
            lines += [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
            if run * 4 // options.runs != (run + 1) * 4 // options.runs:
                bandwidths.append(probe.once())
        bandwidths += [probe.once() for _ in range(10 - len(bandwidths))]
        rows.write_text("\n".join(lines))
        work = open_subject(model, ["-np", "1"]).workload()
        found = [
            one for one in compare(work, read_runs(rows).rows, max(bandwidths), {}) if one.what.startswith("decode")
        ]
    shares = sorted(one.share for one in found if one.share is not None)
    print(
        json.dumps(
            {
                "model_bytes": sum(one.tensor.bytes for one in work.placed),
                "probes_gb_s": [round(one / 1e9, 2) for one in bandwidths],
                "runs": len(found),
                "floor_ms": round(1e3 * (found[0].floor or 0), 2),
                "measured_ms": sorted(round(1e3 * one.measured, 2) for one in found),
                "shares": [round(one, 3) for one in shares],
            },
            indent=1,
        )
    )
    return int(not (len(shares) == options.runs and shares[-1] <= 1 and shares[-1] >= 1 / 3))


if __name__ == "__main__":
    sys.exit(main())
