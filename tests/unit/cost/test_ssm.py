"""Memory lengths of recurrent heads."""

from __future__ import annotations

import importlib
import math
import struct
from pathlib import Path

import pytest

from patchstack.cost.architecture import Layout, read_layout
from patchstack.cost.model import Model, read_model
from patchstack.cost.ssm import memory_lengths, softplus, split, sweep, threshold_of_share
from patchstack.errors import MissingError, UsageError
from tests.support import tiny_gguf
from tests.support.cost_models import recurrent_alone
from tests.support.gguf_header import Shape, header_bytes


def model_with(path: Path, decays: list[float], biases: list[float]) -> tuple[Model, Layout]:
    """Return a model of one recurrent layer with these heads."""
    keys, _ = recurrent_alone(1, len(decays), 8)
    shapes = [Shape("blk.0.ssm_a", (len(decays),)), Shape("blk.0.ssm_dt.bias", (len(biases),))]
    data = b"".join(
        struct.pack(f"<{len(one)}f", *one).ljust(-(-4 * len(one) // 32) * 32, b"\0") for one in (decays, biases)
    )
    path.write_bytes(header_bytes(keys, shapes) + data)
    model = read_model(path)
    return model, read_layout(model)


def test_tau_is_the_inverse_of_decay_times_softplus(tmp_path: Path) -> None:
    model, layout = model_with(tmp_path / "model.gguf", [-1.0, -0.5, -2.0], [0.0, -3.0, 4.0])
    (found,) = memory_lengths(model, layout)
    assert found.tau == pytest.approx([1 / math.log(2), 2 / math.log1p(math.exp(-3)), 0.5 / math.log1p(math.exp(4))])


@pytest.mark.parametrize("x", [-800.0, -1.0, 0.0, 1.0, 800.0])
def test_softplus_does_not_overflow(x: float) -> None:
    assert softplus(x) == pytest.approx(max(x, 0.0) if abs(x) > 100 else math.log(1 + math.exp(x)))


def test_a_share_keeps_at_least_that_many_of_the_longest(tmp_path: Path) -> None:
    model, layout = model_with(tmp_path / "model.gguf", [-0.1 * (at + 1) for at in range(10)], [0.0] * 10)
    memories = memory_lengths(model, layout)
    for share, kept in ((0.0, 0), (0.05, 1), (0.3, 3), (0.95, 10), (1.0, 10)):
        found = split(memories, layout, threshold_of_share(memories, share))
        assert found.heads - found.bf16 == kept
        assert found.f32[0] == (True,) * kept + (False,) * (10 - kept)
    with pytest.raises(UsageError, match=r"the share 1\.5"):
        threshold_of_share(memories, 1.5)


def test_the_sweep_goes_from_all_f32_to_none_and_the_error_grows(tmp_path: Path) -> None:
    model, layout = model_with(tmp_path / "model.gguf", [-0.1 * (at + 1) for at in range(10)], [0.0] * 10)
    found = sweep(memory_lengths(model, layout), layout, bandwidth=1e9, streams=2)
    assert [one.bf16 for one in found] == list(range(11))
    assert [one.error for one in found] == sorted(one.error for one in found)
    assert found[-1].factor == 0.5
    assert found[0].step_seconds == pytest.approx(2 * 2 * layout.state_bytes / 1e9)
    assert found[-1].error == pytest.approx(2**-8 * 10 / math.log(2))


@pytest.mark.parametrize("decay", [0.0, 0.5, float("nan"), float("inf")])
def test_what_does_not_decay_is_an_error(tmp_path: Path, decay: float) -> None:
    model, layout = model_with(tmp_path / "model.gguf", [-1.0, decay], [0.0, 0.0])
    with pytest.raises(UsageError, match=r"head 1 of blk\.0\.ssm_a is .*, which is not a decay"):
        memory_lengths(model, layout)


def test_a_bias_of_other_length_does_not_go_with_it(tmp_path: Path) -> None:
    model, layout = model_with(tmp_path / "model.gguf", [-1.0, -1.0], [0.0])
    with pytest.raises(UsageError, match=r"blk\.0\.ssm_dt\.bias is missing or has a different size than blk\.0\.ssm_a"):
        memory_lengths(model, layout)


def test_mambas_matrix_has_no_length_for_a_head(tmp_path: Path) -> None:
    keys, _ = recurrent_alone(1, 4, 8)
    (tmp_path / "model.gguf").write_bytes(header_bytes(keys, [Shape("blk.0.ssm_a", (16, 4))]) + bytes(256))
    model = read_model(tmp_path / "model.gguf")
    with pytest.raises(MissingError, match=r"is a 16×4 matrix, so its heads have no single memory length"):
        memory_lengths(model, read_layout(model))


def test_real_values_are_those_that_gguf_reads(tmp_path: Path) -> None:
    tiny_gguf.need_gguf()
    path = tiny_gguf.write_model(tmp_path / "model.gguf", "qwen35")
    tensors = {one.name: one.data for one in importlib.import_module("gguf").GGUFReader(str(path)).tensors}
    model = read_model(path)
    for one in memory_lengths(model, read_layout(model)):
        decays, biases = tensors[f"blk.{one.layer}.ssm_a"], tensors[f"blk.{one.layer}.ssm_dt.bias"]
        assert one.tau == pytest.approx(
            [1 / (-a * math.log1p(math.exp(b))) for a, b in zip(decays, biases, strict=True)]
        )
