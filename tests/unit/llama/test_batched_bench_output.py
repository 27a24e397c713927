"""The rows of llama-batched-bench: read from what a real one printed, and refused if they are not all there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchstack.llama.batched_bench_output import Row, read_rows, rows_problem
from tests.support.checkout import DATA

CAPTURED = (DATA / "llama" / "captured" / "batched-bench-jsonl.out").read_bytes()
LINE = json.loads(next(line for line in CAPTURED.splitlines() if line.startswith(b"{")))


def read(**changes: Any) -> tuple[Row, ...] | str:
    return read_rows(json.dumps({**LINE, **changes}).encode())


def rows() -> tuple[Row, ...]:
    found = read_rows(CAPTURED)
    assert not isinstance(found, str), found
    return found


def test_every_row_of_a_real_run_is_read_with_its_shape_and_speeds() -> None:
    lines = [json.loads(line) for line in CAPTURED.splitlines() if line.startswith(b"{")]
    assert lines
    assert [one.shape for one in rows()] == [(line["pp"], line["tg"], line["pl"]) for line in lines]
    assert [one.decode_speed for one in rows()] == [line["speed_tg"] for line in lines]
    assert [one.prefill_seconds for one in rows()] == [line["t_pp"] for line in lines]


def test_lines_beside_the_rows_are_passed_over() -> None:
    assert read_rows(b"main: n_kv_max = 64\n" + CAPTURED + b"\nllama_perf: x\n") == rows()


def test_nothing_is_no_rows() -> None:
    assert read_rows(b"") == ()


@pytest.mark.parametrize("value", [0, -1.5, float("nan"), float("inf")])
def test_a_speed_that_is_no_speed_is_refused(value: float) -> None:
    assert read(speed_tg=value) == "line 1 has no figure for decode_speed"


@pytest.mark.parametrize("line", [b'{"pp": 1', b'{"pp": 1}', b'{"pp": [], "tg": 1, "pl": 1}'])
def test_a_damaged_row_is_named_by_its_line(line: bytes) -> None:
    found = read_rows(b"text\n" + line)
    assert isinstance(found, str)
    assert found.startswith("line 2 is not a row: ")


def test_rows_are_those_that_were_asked_for_each_once() -> None:
    wanted = [one.shape for one in rows()]
    assert rows_problem(rows(), wanted) is None
    assert rows_problem(rows(), wanted[::-1]) is None


def test_a_row_that_is_missing_twice_or_too_many_is_named() -> None:
    found, wanted = rows(), [one.shape for one in rows()]
    count, last = len(wanted), "pp={}, tg={}, pl={}".format(*wanted[-1])
    assert rows_problem(found[:-1], wanted) == f"1 of {count} rows are missing, the first is the row {last}"
    assert rows_problem([*found, found[-1]], wanted) == f"the row {last} is there 2 times"
    assert rows_problem(found, wanted[:-1]) == f"the row {last} was not asked for"
