"""Compare `patchstack cost memory` with the logs of llama.cpp, over a grid of contexts, slots and cache types.

Every KV and recurrent line must be equal to its last digit, with cells, layers and the sizes of the context. Models
without a tokenizer are sufficient, because llama-batched-bench needs none. `test-llama-archs -a ARCH -o DIR` of a build
writes such models.

    python -m benchmarks.cost_memory --bin DIR MODEL... [--contexts 300,5000,32768] [--slots 1,3]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from patchstack.cost.memory import MIB, allocate
from patchstack.errors import PatchstackError
from patchstack.workflow.cost import open_subject

_KV = re.compile(
    r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +\d+/(\d+) seqs\),"
    r" K \(\w+\): +([\d.]+) MiB, V \(\w+\): +([\d.]+) MiB"
)
_STATE = re.compile(
    r"llama_memory_recurrent: size = +([\d.]+) MiB \( *(\d+) cells, .*"
    r"R \(f32\): +([\d.]+) MiB, S \(f32\): +([\d.]+) MiB"
)
_CONTEXT = re.compile(r"llama_context: (n_ctx|n_ctx_seq|n_batch|n_ubatch) += (\d+)")
TYPES = (("f16", "f16", "auto"), ("q8_0", "f16", "on"), ("f16", "f16", "off"))


@dataclass(frozen=True, slots=True)
class Seen:
    """The figures of a log, as text: caches, states, and sizes of the context."""

    caches: tuple[tuple[str, ...], ...]
    states: tuple[tuple[str, ...], ...]
    sizes: tuple[tuple[str, str], ...]


def told(binaries: Path, model: Path, options: Sequence[str], slots: int) -> Seen:
    """Run llama-batched-bench for one token, and read its log."""
    command = [str(binaries / "llama-batched-bench"), "-m", str(model), *options]
    command += ["-npp", "1", "-ntg", "1", "-npl", str(slots), "-lv", "4", "-t", "1"]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    log = (done.stdout + done.stderr).decode("utf-8", "replace")
    caches = [one for one in _KV.findall(log) if one[2] != "0"]
    return Seen(tuple(caches), tuple(_STATE.findall(log)), tuple(sorted(_CONTEXT.findall(log))))


def computed(model: Path, options: Sequence[str], slots: int) -> Seen:
    """Return patchstack's figures for the same run."""
    subject = open_subject(model, [*options, "-np", str(slots)])
    memory = allocate(subject.workload().layout, subject.options, 0)
    caches = [
        (mib(one.bytes), str(one.cells), str(one.layers), str(one.streams), mib(one.key_bytes), mib(one.value_bytes))
        for one in memory.caches
    ]
    states = []
    if memory.states is not None:
        states = [
            (mib(memory.states.bytes), str(memory.states.rows), mib(memory.states.r_bytes), mib(memory.states.s_bytes))
        ]
    sizes = memory.cells
    named = {"n_ctx": sizes.context, "n_ctx_seq": sizes.stream, "n_batch": sizes.batch, "n_ubatch": sizes.ubatch}
    return Seen(tuple(caches), tuple(states), tuple(sorted((name, str(value)) for name, value in named.items())))


def mib(count: int) -> str:
    """Return bytes as the log writes them."""
    return f"{count / MIB:.2f}"


def grid(contexts: Sequence[int], slots: Sequence[int]) -> list[tuple[list[str], int]]:
    """Return the options of every run, with its slots."""
    return [
        (["-c", str(context), "-fa", fa, "-ctk", key, "-ctv", value, *(["-kvu"] if unified else [])], many)
        for context, many, unified, (key, value, fa) in product(contexts, slots, (False, True), TYPES)
    ]


def main() -> int:
    """Exit status: 0 if every log that had figures was equal, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--contexts", default="300,5000,32768")
    parser.add_argument("--slots", default="1,3")
    options = parser.parse_args()
    contexts, slots = ([int(one) for one in text.split(",")] for text in (options.contexts, options.slots))
    equal = other = refused = 0
    for model in options.models:
        for words, many in grid(contexts, slots):
            log = told(options.bin, model, words, many)
            if not log.sizes or not (log.caches or log.states):
                refused += 1
                continue
            try:
                ours = computed(model, words, many)
            except PatchstackError as error:
                print(f"{model.name} {' '.join(words)} -np {many}: {error.message}")
                other += 1
                continue
            equal += log == ours
            if log != ours:
                other += 1
                print(f"{model.name} {' '.join(words)} -np {many}\n  log  {log}\n  ours {ours}")
        print(f"{model.name}: {equal} equal, {other} not, {refused} without figures so far", flush=True)
    return int(other > 0)


if __name__ == "__main__":
    sys.exit(main())
