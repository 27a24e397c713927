"""The rows of llama-batched-bench: read from real output, and refused if any is missing."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from patchstack.llama.batched_bench_output import Row, identity_problem, read_rows, rows_problem
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
    assert rows_problem([*found, found[-1]], wanted) == f"the row {last} occurs 2 times"
    assert rows_problem(found, wanted[:-1]) == f"the row {last} was not requested"


def printed(line: str) -> dict[str, Decimal]:
    names = ("pp", "tg", "pl", "n_kv", "t_pp", "speed_pp", "t_tg", "speed_tg")
    return dict(zip(names, map(Decimal, line.split()), strict=True))


def test_figures_that_fit_within_the_rounding_are_taken() -> None:
    assert identity_problem(printed("512 4 32 16512 7.105 2306.06 0.321 399.00")) is None
    assert identity_problem(printed("512 4 32 16512 12.517 1308.92 0.3 398.82")) is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("512 4 32 16511 12.517 1308.92 0.321 398.82", "N_KV is 16511, not 16512 = 32 * (512 + 4)"),
        ("512 4 32 16512 12.517 1308.02 0.321 398.82", "speed_pp is 1308.02, but 512 * 32 tokens took 12.517 s"),
        ("512 4 32 16512 11.360 1442.28 0.321 397.00", "speed_tg is 397.00, but 4 * 32 tokens took 0.321 s"),
        ("2048 4 32 65664 44.529 1471.77 0.331 386.06", "speed_tg is 386.06, but 4 * 32 tokens took 0.331 s"),
    ],
)
def test_a_row_that_contradicts_itself_is_named(line: str, complaint: str) -> None:
    assert identity_problem(printed(line)) == complaint


def test_a_row_of_the_tool_is_held_to_its_identities() -> None:
    found = read(speed_tg=LINE["speed_tg"] * 1.01)
    assert isinstance(found, str)
    assert found.startswith("line 1 contradicts itself: speed_tg is ")
    assert "contradicts itself: a figure is missing" in str(read(n_kv=None))
