"""Memory stays bounded for any log, and lines that did not fit are reported."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator

import pytest

from patchstack.llama.traces import reader as module
from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.reader import MAX_LINE, Reader
from patchstack.llama.traces.reading import MORE
from tests.support.trace_logs import read, read_bytes

ROUTE = (
    "trace_mul_mat_route route={route} type=f16 type1=f32 ne0={n} ne1=16 ne00=2048 ne11=16 ne12=1 ne13=1"
    " src0=blk.0.attn_q.weight src1=attn_norm-0 dst=Qcur-0"
)


def peak(blocks: Iterator[bytes]) -> tuple[Reader, int]:
    """Return the reader after these blocks, and its peak memory."""
    made = Reader()
    tracemalloc.start()
    try:
        for block in blocks:
            made.feed(block)
        return made, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_without_end_takes_no_memory_and_its_end_is_read() -> None:
    line = ROUTE.format(route="mmq", n=1).encode() + b"\n"
    blocks = itertools.chain(itertools.repeat(b"x" * MAX_LINE, 40), [line])
    made, most = peak(iter(blocks))
    reading = made.reading()
    assert most < 8 * MAX_LINE
    assert (reading.overlong, reading.torn, reading.lines) == (1, 0, 1)
    trace = reading.trace("mul_mat_route")
    assert trace is not None and trace.records == 1


def test_a_record_in_the_middle_of_a_line_without_end_is_said_to_be_lost() -> None:
    made = Reader()
    made.feed(b"y" * MAX_LINE + ROUTE.format(route="mmq", n=1).encode())
    made.feed(b"z" * 2 * MAX_LINE)
    made.feed(b"\n")
    reading = made.reading()
    assert (reading.overlong, reading.torn) == (1, 1)
    (found,) = [one for one in findings(reading) if one.holds is False]
    assert found.said == "names of records in lines too long to keep: 1"


def test_more_shapes_than_the_table_holds_keep_routes_and_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 10)
    lines = [ROUTE.format(route=("mmq", "vec_q")[n % 2], n=n) for n in range(100)]
    reading = read(*lines)
    trace = reading.trace("mul_mat_route")
    assert trace is not None
    assert trace.by("route") == {("mmq",): 50, ("vec_q",): 50}
    assert trace.overflowed == trace.by("ne0")[(MORE,)] == 90
    (found,) = [one for one in findings(reading) if "table" in one.what]
    assert found.holds is None
    assert found.found == "90 came after it was full: routes and types are counted, shapes are not"


def test_hostile_routes_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 10)
    monkeypatch.setattr(module, "MAX_PLACES", 5)
    trace = read(*[ROUTE.format(route=f"r{n}", n=n) for n in range(200)]).trace("mul_mat_route")
    assert trace is not None
    assert len(trace.cells) <= 16 and sum(cell.calls for cell in trace.cells) == 200


def test_more_names_than_the_table_holds_are_said() -> None:
    reading = read(*[f"[LLAMA_N{n}] a=1" for n in range(100)])
    assert (len(reading.traces), reading.other_names) == (64, 36)
    (found,) = [one for one in findings(reading) if one.holds is False]
    assert found.found == "records of further names: 36"


def test_distinct_lines_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN_LINES", 1000)
    blocks = (
        "".join(f"0.00.{block}.{n} I something that no trace says, number {n}\n" for n in range(1_000)).encode()
        for block in range(40)
    )
    made, most = peak(blocks)
    assert most < 2e6
    assert made.reading().lines == 40_000


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_do_not_matter(ending: str) -> None:
    line = ROUTE.format(route="mmq", n=1)
    reading = read_bytes((line + ending).encode() * 3)
    trace = reading.trace("mul_mat_route")
    assert trace is not None and trace.by("route") == {("mmq",): 3}
