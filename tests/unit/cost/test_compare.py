"""Measured rows over their floors, elasticities, and prefill floors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchstack.cost.compare import compare, compare_part, read_batched_bench
from patchstack.cost.floors import decode_floor, prefill_floors
from patchstack.cost.sensitivity import elasticities, vary
from patchstack.errors import MissingError, UsageError
from patchstack.verdict import Verdict
from tests.support.cost_models import workload
from tests.support.gguf_header import hybrid_35b, qwen3_32b

ROW = {"pp": 512, "tg": 128, "pl": 8, "t_pp": 9.0, "t_tg": 128 * 0.1, "n_ubatch": 512, "is_pp_shared": 0}


def rows(directory: Path, *found: Mapping[str, object]) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("main: n_kv_max = 1\n" + "\n".join(json.dumps(one) for one in found))
    return path


def test_decode_is_held_against_the_mean_of_its_steps(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "8")
    (decode, prefill) = compare(work, read_batched_bench(rows(tmp_path, ROW)), 273e9, {})
    assert decode.measured == pytest.approx(0.1)
    first, last = (decode_floor(work, 8, one, 273e9).seconds for one in (512, 639))
    assert decode.floor == pytest.approx((first + last) / 2)
    assert decode.verdict is Verdict.PASS
    assert prefill.floor is None
    assert prefill.assumption == "the peak of fp16, int8 is not known"


def test_a_run_faster_than_its_floor_is_invalid_and_bounds_the_bandwidth(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "8")
    decode = compare(work, read_batched_bench(rows(tmp_path, {**ROW, "t_tg": 128 * 0.05})), 273e9, {})[0]
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
    # Two operations a weight and token, but for the table of embeddings and all but one row of the head.
    weights = sum(one.tensor.elements for one in work.placed if len(one.tensor.shape) > 1 and not one.rows)
    head = 5120 * 151936
    assert bound.operations["int8"] == pytest.approx(2 * 512 * (weights - head) + 2 * head)
    assert bound.operations["fp16"] == pytest.approx(64 * 4 * 64 * 128 * 512 * 513 / 2)
    fast = dict.fromkeys(slow, 1e18)
    assert prefill_floors(work, 512, 273e9, fast)[0].seconds == prefill_floors(work, 512, 273e9, fast)[0].memory
    (unknown,) = prefill_floors(work, 512, 273e9, {"int8": 1e15})
    assert (unknown.seconds, unknown.lacking) == (None, ("fp16",))


def test_elasticities_of_bytes_are_their_shares_and_the_largest_come_first(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1024), "-np", "1")
    found = elasticities(work, 8, 4096, 273e9)
    assert [abs(one.value) for one in found] == sorted((abs(one.value) for one in found), reverse=True)
    assert found[0].name == "bandwidth"
    assert sum(one.value for one in found if one.name.startswith("bytes of")) == pytest.approx(1)
    values = vary(work, 8, 4096, 273e9, "bandwidth=200..300")
    assert [one.value for one in values] == pytest.approx([200e9, 225e9, 250e9, 275e9, 300e9])
    assert values[0].floor.seconds / values[-1].floor.seconds == pytest.approx(1.5)
    assert [one.value for one in vary(work, 1, 0, 1e9, "streams=1..5")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "text", ["bandwidth", "bandwidth=300..200", "colour=1..2", "streams=0..5", "context=1..2 GB", "bandwidth=1..2 MB"]
)
def test_a_range_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1024))
    with pytest.raises(UsageError):
        vary(work, 1, 0, 1e9, text)


@pytest.mark.parametrize("text", ["experts", "experts=3", "colour=3ms", "experts=0ms", "experts=3ms@0"])
def test_a_part_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1024))
    with pytest.raises(UsageError):
        compare_part(work, text, 1e9)


@pytest.mark.parametrize("row", [{}, {**ROW, "pl": 0}, {**ROW, "pp": -1}, {**ROW, "t_tg": "x"}, {**ROW, "pp": 1 << 40}])
def test_a_row_that_is_none_is_refused_with_its_line(tmp_path: Path, row: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"rows\.jsonl:2: "):
        read_batched_bench(rows(tmp_path, row))


def test_a_file_without_rows_is_missing_them(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="has no rows"):
        read_batched_bench(rows(tmp_path))
