"""Measure how fast a log of routes is read, compared with a command typed by hand:

    LC_ALL=C grep -oE 'route=[a-z_]+' LOG | sort | uniq -c

and the memory that a much larger log needs. The log is generated: the routes of a model with 40 layers, as
`LLAMA_MUL_MAT_ROUTE_TRACE` prints them, over and over for changing numbers of tokens. Both ways are run in turn, each
as a process of its own, so start-up counts; the least of the runs is taken.

    python -m benchmarks.trace_speed --size 1G --runs 3
    python -m benchmarks.trace_speed --size 10G --runs 1 --no-grep

Prints seconds and their ratio, and the largest resident memory of `patchstack trace read`. Exit status: 1 if a limit
(`--most` times grep, `--megabytes`) is passed, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LAYERS = 40
ROUTES = (
    ("attn_q", "mat_f", "bf16", 2048, 4096),
    ("attn_gate", "op_cublas", "bf16", 2048, 4096),
    ("ffn_gate_inp", "vec_f", "f32", 2048, 256),
    ("ffn_gate_shexp", "mmq", "nvfp4", 2048, 512),
    ("ffn_down_shexp", "vec_q", "nvfp4", 512, 2048),
)
SIZES = {"K": 10**3, "M": 10**6, "G": 10**9}


def graph(tokens: int) -> bytes:
    """Return the records of one graph."""
    lines = []
    for layer in range(LAYERS):
        for name, route, kind, columns, rows in ROUTES:
            lines.append(
                f"trace_mul_mat_route route={route} type={kind} type1=f32 ne0={rows} ne1={tokens} ne00={columns}"
                f" ne11={tokens} ne12=1 ne13=1 src0=blk.{layer}.{name}.weight src1=norm-{layer} dst={name}-{layer}\n"
            )
    return "".join(lines).encode()


def blocks(size: int, seed: int = 1) -> Iterator[bytes]:
    """Yield graphs for changing numbers of tokens, up to that many bytes."""
    chosen = random.Random(seed)
    widths = [*range(1, 17), 18, 32, 36, 64, 128, 510, 512]
    graphs = {width: graph(width) for width in widths}
    written = 0
    while written < size:
        block = graphs[chosen.choice(widths)]
        yield block
        written += len(block)


def seconds(command: list[str]) -> tuple[float, int, bytes]:
    """Return wall time, largest resident memory in bytes, and standard output of one run."""
    before = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - before
        if status:
            raise SystemExit(f"{command[0]} failed with status {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        return took, usage.ru_maxrss * 1024, out.read()


def main() -> int:
    """Measure, print, and check both limits."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", default="200M")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--directory", type=Path, default=None, help="where the log is written [default: TMPDIR]")
    options.add_argument("--no-grep", action="store_true", help="measure memory alone")
    options.add_argument("--most", type=float, default=4.0, help="times grep")
    options.add_argument("--megabytes", type=float, default=400.0)
    given = options.parse_args()
    size = int(float(given.size[:-1]) * SIZES[given.size[-1]])
    with tempfile.TemporaryDirectory(dir=given.directory) as scratch:
        log = Path(scratch) / "routes.log"
        with log.open("wb") as out:
            for block in blocks(size):
                out.write(block)
        ours = [sys.executable, "-m", "patchstack", "trace", "read", "--json", str(log)]
        hand = ["bash", "-c", f"LC_ALL=C grep -oE 'route=[a-z_]+' {log} | sort | uniq -c"]
        times: dict[str, list[float]] = {"ours": [], "grep": []}
        memory = 0
        counted = b""
        by_hand = b""
        for _ in range(given.runs):
            took, used, counted = seconds(ours)
            times["ours"].append(took)
            memory = max(memory, used)
            if not given.no_grep:
                took, _, by_hand = seconds(hand)
                times["grep"].append(took)
        lines = json.loads(counted)["lines"]
        print(f"log: {log.stat().st_size / 1e9:.2f} GB, {lines:,} lines")
        print(f"patchstack trace read: {min(times['ours']):.1f} s, at most {memory / 1e6:.0f} MB")
        held = memory < given.megabytes * 1e6
        if not given.no_grep:
            assert sum(int(line.split()[0]) for line in by_hand.splitlines()) == lines
            ratio = min(times["ours"]) / min(times["grep"])
            print(f"grep | sort | uniq -c: {min(times['grep']):.1f} s; ratio {ratio:.2f}")
            held = held and ratio <= given.most
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{'held' if held else 'PASSED A LIMIT'} (this script itself: {own / 1000:.0f} MB)")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
