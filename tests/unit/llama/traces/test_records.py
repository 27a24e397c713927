"""A record is found anywhere in a line, and other text is not read as one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.llama.traces.records import CUT_AT, Record, Summary, Unreadable, plain, read_record
from tests.support.trace_logs import read, read_bytes

ROUTE = (
    "trace_mul_mat_route route=mmq type=q4_0 type1=f32 ne0=4096 ne1=16 ne00=2048 ne11=16 ne12=1 ne13=1"
    " src0=blk.0.attn_q.weight src1=attn_norm-0 dst=Qcur-0"
)
SERVING = (
    "trace_serving step=27 decode_tokens=0 prompt_tokens=64 decode_slots=0 started=1 continued=0 waiting=2 unfinished=3"
    " deferred=3 n_batch=64 n_ubatch=32"
)
PAGED = "kv_paged event=place cache=0 stream=0 seq=3 n=37 num_free=509 num_blocks=512 used_cells=37 fallback=0"


def found(line: str | bytes) -> object:
    return read_record(plain(line.encode() if isinstance(line, str) else line))


@pytest.mark.parametrize("line", [ROUTE, SERVING, PAGED])
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "{}\r",
        "0.00.193.885 I slot launch_slot_: {}",
        "slot launch_slo{}",
        "....{}",
        "\x1b[32m{}\x1b[0m",
        "\x1b[34m0.01\x1b[0m \x1b[32mI {}\x1b[0m\r",
        "\x00\x00\x00{}",
        "\x1b]0;a title\x07{}",
    ],
)
def test_a_record_is_read_behind_half_a_line_and_through_colours(line: str, around: str) -> None:
    assert found(around.format(line)) == found(line)
    assert isinstance(found(line), Record)


def test_types_have_one_name_and_numbers_are_numbers() -> None:
    record = found(ROUTE.replace("type=q4_0", "type=40"))
    assert isinstance(record, Record)
    assert (record.values["type"], record.values["ne0"], record.values["dst"]) == ("nvfp4", 4096, "Qcur-0")


def test_new_keys_at_the_end_are_let_pass() -> None:
    assert isinstance(found(f"{ROUTE} device=0 why=because"), Record)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (ROUTE.replace("ne1=16 ", ""), "ne1 is missing"),
        (ROUTE.replace("ne1=16 ne00", "ne1=16ne00"), "ne00 is missing"),
        (ROUTE.replace("ne0=4096", "ne0=-1"), "ne0 is '-1'"),
        (ROUTE.replace("ne0=4096", "ne0=4\x00096"), "ne0 is '4\\x00096'"),
        (ROUTE.replace("ne0=4096", "ne0=" + "9" * 40), "ne0 is '9999999999999999999999999999999999999999'"),
        (ROUTE + ROUTE, "two records in one line"),
        (ROUTE.replace(" ne12", " oops ne12"), "'oops' is not key=value"),
        (ROUTE.replace("ne12=1", "ne11=1"), "ne11 occurs twice"),
        (ROUTE.replace("dst=Qcur-0", "dst="), "dst is ''"),
        (ROUTE.replace("dst=Qcur-0", "dst=a=b"), "dst is 'a=b'"),
        (PAGED.replace("num_free=509 ", ""), "num_free is missing"),
        ("trace_mul_mat_route_summary lines=4 dropped", "'dropped' is not key=value"),
        ("trace_mul_mat_route_summary dropped=0 vec_f=0", "lines or dropped is missing"),
        ("trace_serving_summary lines=1 dropped=0 steps=x", "steps is 'x'"),
        ("trace_serving_summary lines=1 dropped=0 decode_hist=0:1,0:2", "decode_hist is not a histogram: '0:1,0:2'"),
    ],
)
def test_what_is_no_record_is_said_to_be_none(line: str, why: str) -> None:
    unreadable = found(line)
    assert isinstance(unreadable, Unreadable)
    assert unreadable.why == why


def test_bytes_that_are_no_text_are_no_record() -> None:
    unreadable = found(ROUTE.encode() + b"\xff\xfe")
    assert isinstance(unreadable, Unreadable) and unreadable.why == "it is not UTF-8"


def test_lines_that_only_look_like_one_are_none() -> None:
    for line in (
        "route=mmq",
        "trace_mul_mat_route",
        "trace_unknown a=1",
        "kv_paged: on",
        "serving admission trace",
        "",
    ):
        assert found(line) is None, line


def test_a_record_cut_at_its_longest_loses_its_last_pair() -> None:
    long = f"{ROUTE} note={'x' * 2000}"
    record = found(long[:CUT_AT])
    assert isinstance(record, Record) and record.was_cut
    assert record.values["dst"] == "Qcur-0" and "note" not in record.values
    # Cut within its own keys, it is a record that lacks the last ones.
    layout = "trace_layout backend=CPU op=cpy src0=" + "x" * 1100
    short = found(layout[:CUT_AT])
    assert isinstance(short, Record) and short.was_cut and "src0" not in short.values
    reading = read(long[:CUT_AT], ROUTE)
    trace = reading.trace("mul_mat_route")
    assert trace is not None and (trace.records, trace.cut) == (2, 1)


def test_a_summary_keeps_counters_and_histograms_apart() -> None:
    summary = found(
        "trace_moe_mmid_route_summary lines=40 dropped=1289 mmvq=75 mmq=1254 mmq.ne2_hist=16-31:33,32-63:1155"
    )
    assert isinstance(summary, Summary)
    assert (summary.lines, summary.dropped, summary.counters["mmq"]) == (40, 1289, 1254)
    assert str(summary.histograms["mmq.ne2_hist"]) == "16-31:33,32-63:1155"


def test_a_record_of_a_bracketed_name_that_is_not_listed_is_counted_by_its_keys() -> None:
    line = "[LLAMA_MOE_MMQ_LAUNCH] ntiles_dst=768 tiles_efficiency_percent=96 stream_k_blocks=768 fixup_needed=0"
    trace = read(line, line).trace("LLAMA_MOE_MMQ_LAUNCH")
    assert trace is not None
    assert trace.by("ntiles_dst", "fixup_needed") == {(768, 0): 2}


def test_a_last_line_without_an_end_is_not_counted_but_said() -> None:
    reading = read_bytes(f"{ROUTE}\n{ROUTE[:-2]}".encode())
    trace = reading.trace("mul_mat_route")
    assert trace is not None and trace.records == 1
    assert (reading.has_unended, reading.unended) == (True, "mul_mat_route")


@pytest.mark.parametrize(
    "line",
    [
        b"trace_serving a" + b"=" * 900_000,
        b"trace_serving " + b"a=b " * 200_000,
        b"trace_" * 150_000,
        b"\x1b[" * 400_000,
        b"\x1b]" * 400_000,
        b"prompt eval time = " * 50_000,
        b"prompt eval time =" + b" " * 900_000,
        b"draft acceptance = 0.1 (" + b" " * 900_000,
        b"created context checkpoint 1 of 2 (" + b"a = b, " * 100_000,
        b"#acc rate/pos = (" + b"0.1, " * 100_000 + b" #gen tokens = ",
        b"[LLAMA_" + b"A" * 900_000 + b"] x=1",
        b"trace_spec_shape_summary lines=1 dropped=0 a_hist=" + b"1:1," * 200_000,
    ],
)
def test_no_line_takes_long(line: bytes) -> None:
    before = time.process_time()
    read_bytes(line + b"\n")
    assert time.process_time() - before < 5


@given(st.binary(max_size=400), st.integers(1, 64))
def test_no_bytes_end_the_reader(rubbish: bytes, size: int) -> None:
    log = b"trace_serving " + rubbish + b"\n" + rubbish + b"kv_paged event=" + rubbish + b"\n" + ROUTE.encode() + b"\n"
    reading = read_bytes(log, blocks=size)
    assert reading == read_bytes(log)
    assert reading.size == len(log)


@given(st.binary(max_size=600))
def test_plain_text_never_grows(line: bytes) -> None:
    assert len(plain(line)) <= len(line)
