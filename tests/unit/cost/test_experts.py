"""Expected distinct experts against draws, and imatrix files."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from patchstack.cost.experts import distinct_of_shares, distinct_uniform, read_imatrix
from patchstack.cost.model import Model, read_model
from patchstack.errors import UsageError
from tests.support.gguf_header import Shape, header_bytes, hybrid_35b, qwen3_32b, write_shape


def drawn(experts: int, used: int, tokens: int, weights: list[float] | None, batches: int = 10_000) -> float:
    """Return the mean number of distinct experts over batches. With weights, each expert is chosen independently."""
    draw = random.Random(7)
    total = 0
    for _ in range(batches):
        seen: set[int] = set()
        for _ in range(tokens):
            if weights is None:
                seen.update(draw.sample(range(experts), used))
            else:
                seen.update(at for at, share in enumerate(weights) if draw.random() < share)
        total += len(seen)
    return total / batches


@pytest.mark.parametrize(("experts", "used", "tokens"), [(8, 2, 8), (32, 4, 3), (64, 8, 16)])
def test_uniform_routing_reads_what_ten_thousand_batches_read(experts: int, used: int, tokens: int) -> None:
    assert distinct_uniform(experts, used, tokens) == pytest.approx(drawn(experts, used, tokens, None), rel=0.005)


def test_uneven_routing_reads_what_ten_thousand_batches_read() -> None:
    draw = random.Random(3)
    shares = [min(1.0, draw.random() ** 3) for _ in range(24)]
    assert distinct_of_shares(shares, 6) == pytest.approx(drawn(24, 0, 6, shares), rel=0.005)


@pytest.mark.parametrize(("tokens", "expected"), [(0, 0.0), (1, 8.0), (1e9, 256.0)])
def test_the_ends_of_the_scale(tokens: float, expected: float) -> None:
    assert distinct_uniform(256, 8, tokens) == pytest.approx(expected)
    assert distinct_uniform(8, 8, max(1, tokens)) == 8
    assert distinct_uniform(0, 0, tokens) == 0


def imatrix(path: Path, counts: list[float], tensor: str = "blk.0.ffn_gate_exps.weight", kind: str = "imatrix") -> Path:
    """Write a file like llama-imatrix, with the counts of one tensor."""
    shapes = [Shape(f"{tensor}.counts", (1, len(counts)))]
    header = header_bytes({"general.type": kind}, shapes)
    path.write_bytes(header + struct.pack(f"<{len(counts)}f", *counts) + bytes(32))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Return a mixture of 256 experts, 8 used."""
    return read_model(write_shape(tmp_path / "model.gguf", *hybrid_35b(vocab=600)))


def test_counts_become_shares_that_sum_to_the_experts_used(tmp_path: Path, model: Model) -> None:
    routing = read_imatrix(imatrix(tmp_path / "imatrix.gguf", [float(at % 7 + 1) for at in range(256)]), model)
    assert sum(routing.shares[0]) == pytest.approx(8)
    assert routing.distinct(1, 0) == pytest.approx(8)
    assert routing.distinct(64, 0) < routing.distinct(64, 1)  # uneven reads fewer than uniform
    assert routing.source == "counts of imatrix.gguf, 1 layers"


@pytest.mark.parametrize(
    ("counts", "tensor", "kind", "says"),
    [
        ([1.0] * 256, "blk.0.ffn_gate_exps.weight", "model", "is not an imatrix"),
        ([1.0] * 8, "blk.0.ffn_gate_exps.weight", "imatrix", "has 8 experts, but model.gguf has 256"),
        ([1.0] * 256, "blk.77.ffn_gate_exps.weight", "imatrix", "is for a tensor that model.gguf does not have"),
        ([0.0] * 256, "blk.0.ffn_gate_exps.weight", "imatrix", "has invalid counts"),
        ([float("nan")] * 256, "blk.0.ffn_gate_exps.weight", "imatrix", "has invalid counts"),
        ([1.0], "blk.0.attn_q.weight", "imatrix", "has no expert counts"),
    ],
)
def test_an_imatrix_of_another_model_is_refused(
    tmp_path: Path, model: Model, counts: list[float], tensor: str, kind: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        read_imatrix(imatrix(tmp_path / "imatrix.gguf", counts, tensor, kind), model)


def test_a_dense_model_has_no_use_for_it(tmp_path: Path) -> None:
    dense = read_model(write_shape(tmp_path / "dense.gguf", *qwen3_32b()))
    with pytest.raises(UsageError, match="has no experts"):
        read_imatrix(imatrix(tmp_path / "imatrix.gguf", [1.0]), dense)
