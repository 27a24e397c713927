"""Models for tests of costs: a header that is written to a file and read back, with a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from patchstack.cost.floors import Workload
from patchstack.workflow.cost import open_subject
from tests.support.gguf_header import Shape, Value, write_shape


def workload(
    path: Path, described: tuple[Mapping[str, Value], Iterable[Shape]], *command: str, imatrix: Path | None = None
) -> Workload:
    """Write the shape of a model and open it, as `patchstack cost` does."""
    return open_subject(write_shape(path, *described), command, imatrix).workload()


def head_alone(vocabulary: int, width: int) -> tuple[dict[str, Value], list[Shape]]:
    """Return a model that is one layer without weights and a head in bf16."""
    keys: dict[str, Value] = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 4096,
        "llama.embedding_length": width,
        "llama.attention.head_count": 8,
        "llama.vocab_size": vocabulary,
    }
    return keys, [Shape("output.weight", (width, vocabulary), "bf16")]


def recurrent_alone(layers: int, heads: int, size: int) -> tuple[dict[str, Value], list[Shape]]:
    """Return a dense hybrid model of recurrent layers, with states of `heads × size × size` in each but the last."""
    keys: dict[str, Value] = {
        "general.architecture": "qwen35",
        "qwen35.block_count": layers + 1,
        "qwen35.context_length": 4096,
        "qwen35.embedding_length": 1024,
        "qwen35.attention.head_count": 8,
        "qwen35.attention.head_count_kv": 1,
        "qwen35.attention.key_length": 32,
        "qwen35.attention.value_length": 32,
        "qwen35.attention.recurrent_layers": [True] * layers + [False],
        "qwen35.ssm.conv_kernel": 1,
        "qwen35.ssm.state_size": size,
        "qwen35.ssm.group_count": 1,
        "qwen35.ssm.inner_size": heads * size,
        "qwen35.vocab_size": 256,
    }
    return keys, [Shape("output_norm.weight", (1024,))]


def window_alone(window: int = 512) -> tuple[dict[str, Value], list[Shape]]:
    """Return a model with a window in every layer but the sixth, without weights."""
    keys: dict[str, Value] = {
        "general.architecture": "gemma3",
        "gemma3.block_count": 6,
        "gemma3.context_length": 8192,
        "gemma3.embedding_length": 256,
        "gemma3.attention.head_count": 4,
        "gemma3.attention.head_count_kv": 1,
        "gemma3.attention.key_length": 64,
        "gemma3.attention.value_length": 64,
        "gemma3.attention.sliding_window": window,
        "gemma3.vocab_size": 256,
    }
    return keys, [Shape("output_norm.weight", (256,))]
