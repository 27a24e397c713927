"""List the workload kinds and the presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchstack.bench.workload import WorkloadKind


def _batched() -> WorkloadKind:
    from patchstack.bench.kinds import batched

    return batched.KIND


def _llama_bench() -> WorkloadKind:
    from patchstack.bench.kinds import llama_bench

    return llama_bench.KIND


def _ops() -> WorkloadKind:
    from patchstack.bench.kinds import ops

    return ops.KIND


def _command() -> WorkloadKind:
    from patchstack.bench.kinds import command

    return command.KIND


def _serve() -> WorkloadKind:
    from patchstack.bench.kinds import serve

    return serve.KIND


KINDS: Mapping[str, Callable[[], WorkloadKind]] = {
    "batched": _batched,
    "llama-bench": _llama_bench,
    "ops": _ops,
    "command": _command,
    "serve": _serve,
}
"""The workload kinds by name. Each value is a function that imports and returns its kind."""

PRESETS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "prefill": ("batched", {"npp": "512,2048", "ntg": "4", "npl": "32"}),
    "decode": ("batched", {"npp": "128", "ntg": "128", "npl": "8,32,64,128"}),
}
"""Workloads that need no entry in `patchstack.yaml`. Each name maps to a kind and its settings. The user chooses the
model."""
