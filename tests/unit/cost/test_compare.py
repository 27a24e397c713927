"""Measured rows over their floors, elasticities, and prefill floors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.cost.compare import Measured, compare, compare_part
from patchstack.cost.floors import (
    decode_floor,
    kv_read_bytes,
    mean_kv_read_bytes,
    prefill_floors,
    step_layers,
)
from patchstack.errors import MissingError, UsageError
from patchstack.report.cost.runs import read_runs
from patchstack.verdict import Verdict
from tests.support.cost_models import window_alone, workload
from tests.support.gguf_header import hybrid_35b, qwen3_32b

ROW = {"pp": 512, "tg": 128, "pl": 8, "t_pp": 9.0, "t_tg": 128 * 0.1, "n_ubatch": 512, "is_pp_shared": 0}


def rows(directory: Path, *found: Mapping[str, object]) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("main: n_kv_max = 1\n" + "\n".join(json.dumps(one) for one in found))
    return path


def test_decode_is_held_against_the_mean_of_its_steps(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "8")
    (decode, prefill) = compare(work, read_runs(rows(tmp_path, ROW)).rows, 273e9, {})
    assert decode.measured == pytest.approx(0.1)
    first, last = (decode_floor(work, 8, one, 273e9).seconds for one in (512, 639))
    assert decode.floor == pytest.approx((first + last) / 2)
    assert decode.verdict is Verdict.PASS
    assert prefill.floor is None
    assert prefill.assumption == "the peak of fp16, int8 is unknown"


def test_a_run_faster_than_its_floor_is_invalid_and_bounds_the_bandwidth(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "8")
    decode = compare(work, read_runs(rows(tmp_path, {**ROW, "t_tg": 128 * 0.05})).rows, 273e9, {})[0]
    assert decode.verdict is Verdict.INVALID
    assert decode.share is not None
    assert decode.share > 1
    assert decode.assumption == "the bandwidth of 273 GB/s"
    assert decode.bound.startswith("at least 4")


def test_prefill_is_the_larger_of_bytes_and_operations(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "1")
    slow = {"int8": 1e13, "fp16": 1e13, "fp32": 1e13}
    (bound,) = prefill_floors(work, 512, 273e9, slow)
    assert bound.seconds == bound.compute
    # Two operations for each weight and token, except for the embedding table and all rows of the head but one.
    weights = sum(one.tensor.elements for one in work.placed if len(one.tensor.shape) > 1 and not one.rows)
    head = 5120 * 151936
    assert bound.operations["int8"] == pytest.approx(2 * 512 * (weights - head) + 2 * head)
    assert bound.operations["fp16"] == pytest.approx(64 * 4 * 64 * 128 * 512 * 513 / 2)
    fast = dict.fromkeys(slow, 1e18)
    assert prefill_floors(work, 512, 273e9, fast)[0].seconds == prefill_floors(work, 512, 273e9, fast)[0].memory
    (unknown,) = prefill_floors(work, 512, 273e9, {"int8": 1e15})
    assert (unknown.seconds, unknown.lacking) == (None, ("fp16",))


@pytest.mark.parametrize("text", ["experts", "experts=3", "colour=3ms", "experts=0ms", "experts=3ms@0"])
def test_a_part_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1024))
    with pytest.raises(UsageError):
        compare_part(work, text, 1e9)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {**ROW, "pl": 0},
        {**ROW, "pp": -1},
        {**ROW, "t_tg": "x"},
        {**ROW, "t_tg": -1},
        {**ROW, "t_pp": float("nan")},
        {**ROW, "t_pp": float("inf")},
        {**ROW, "n_ubatch": 0},
        {**ROW, "pp": 1 << 40},
    ],
)
def test_a_row_that_is_none_is_refused_with_its_line(tmp_path: Path, row: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"rows\.jsonl:2: "):
        read_runs(rows(tmp_path, row))


def test_a_file_without_rows_is_missing_them(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="contains no rows"):
        read_runs(rows(tmp_path))


def test_tokens_that_are_cached_before_a_prompt_are_read_and_not_processed(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "1")
    peaks = {"int8": 1e15, "fp16": 1e15, "fp32": 1e15}

    def floors(before: int) -> list[float]:
        row = Measured(
            source="x", prompt=512, generated=64, streams=1, prefill_seconds=9, decode_seconds=99, before=before
        )
        return [one.floor or 0.0 for one in compare(work, [row], 273e9, peaks)]

    (decode, prefill), (later, deeper) = floors(0), floors(4096)
    assert later - decode == pytest.approx(4096 * 64 * 8 * 256 * 2 / 273e9)  # 64 layers, 8 heads of 128, K and V, f16
    assert deeper > prefill


def test_the_mean_of_growing_contexts_is_that_of_each_step(tmp_path: Path) -> None:
    for described in (hybrid_35b(vocab=1024), window_alone()):
        work = workload(tmp_path / "model.gguf", described, "-np", "1")
        layers = step_layers(work.layout)
        for first, count in ((0, 1), (3, 500), (100, 7), (0, 2000)):
            each = [kv_read_bytes(work.layout, work.options, one, layers) for one in range(first, first + count)]
            assert mean_kv_read_bytes(work, first, count) == pytest.approx(sum(each) / count)


def test_a_physical_batch_of_0_is_that_of_the_batch(tmp_path: Path) -> None:
    (row,) = (replace(one, ubatch=None) for one in read_runs(rows(tmp_path, ROW)).rows)
    peaks = {"int8": 1e18, "fp16": 1e18, "fp32": 1e18}

    def compared(ubatch: str) -> object:
        work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "8", "-b", "256", "-ub", ubatch)
        return compare(work, [row], 273e9, peaks)

    assert compared("0") == compared("256") == compared("1024") != compared("128")
