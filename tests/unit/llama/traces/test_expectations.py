"""Expectations are answered by counts; records that a bounded trace did not keep are neither present nor absent."""

from __future__ import annotations

import pytest

from patchstack.errors import UsageError
from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.expectations import Answer, answer, read_expectation
from tests.support.trace_logs import GTRACE, MMQ, read

ROUTE = (
    "trace_mul_mat_route route={} type={} type1=f32 ne0=4096 ne1=16 ne00=2048 ne11=16 ne12=1 ne13=1"
    " src0=blk.{}.attn_q.weight src1=attn_norm-0 dst=Qcur-0"
)
MMID = (
    "trace_moe_mmid_route route=mmq type=nvfp4 ne2=16 ne1=8 ne0=768 ne00=2048 n_expert=128"
    " src0=blk.0.ffn_gate_exps.weight src1=ffn_norm-0_(reshaped) dst=ffn_moe_gate-0"
)
ROUTES = "vec_f mat_f vec_q mmq batched_cublas op_vec_f op_vec_q op_mmq op_cublas fwht vec_f_fused vec_q_fused"


def summary(lines: int, dropped: int, **counts: int) -> str:
    routes = " ".join(f"{route}={counts.get(route, 0)}" for route in ROUTES.split())
    types = " ".join(f"type.{name}={count}" for name, count in counts.items() if name not in ROUTES.split())
    return f"trace_mul_mat_route_summary lines={lines} dropped={dropped} {routes} {types}"


RECORDS = [ROUTE.format("mmq", "nvfp4", layer) for layer in range(3)] + [ROUTE.format("vec_f", "f32", 0)]
COMPLETE = [*RECORDS, f"{summary(4, 0, mmq=3, vec_f=1, nvfp4=3, f32=1)} mmq.ne1_hist=16-31:3 vec_f.ne1_hist=16-31:1"]
BOUNDED = [*RECORDS, f"{summary(4, 6, mmq=9, vec_f=1, nvfp4=9, f32=1)} mmq.ne1_hist=16-31:9 vec_f.ne1_hist=16-31:1"]


def asked(text: str, lines: list[str]) -> Answer:
    reading = read(*lines)
    return answer(read_expectation(text), reading, findings(reading))


@pytest.mark.parametrize(
    ("text", "holds", "count"),
    [
        ("route=mmq type=nvfp4 >= 3", True, 3),
        ("route=mmq type=NVFP4 >= 4", False, 3),
        ("route=mmq type=40 == 3", True, 3),
        ("route=mmq", True, 3),
        ("route=op_cublas", False, 0),
        ("route=op_cublas == 0", True, 0),
        ("type=f32 < 2", True, 1),
        ("type=f32 > 1", False, 1),
        ("src0=blk.N.attn_q.weight ne1=16 <= 4", True, 4),
        ("src0=blk.7.attn_q.weight == 4", True, 4),
        ("src0=*attn_q* route=m* >= 1,0", False, 3),
        ("trace=trace_mul_mat_route route=vec_f>=1", True, 1),
    ],
)
def test_a_complete_trace_answers_everything(text: str, holds: bool, count: int) -> None:
    found = asked(text, COMPLETE)
    assert (found.holds, found.count) == (holds, count)


@pytest.mark.parametrize(
    ("text", "holds", "why"),
    [
        ("route=mmq == 9", True, "9 in total, according to the summary of mul_mat_route"),
        ("type=nvfp4 >= 10", False, "9 in total, according to the summary of mul_mat_route"),
        ("route=op_cublas == 0", True, "0 in total, according to the summary of mul_mat_route"),
        ("route=mmq type=nvfp4 >= 3", True, "3 of the first 4 records of mul_mat_route"),
        (
            "route=mmq type=nvfp4 >= 4",
            None,
            "3 of the first 4 records of mul_mat_route; 6 more were not written",
        ),
        ("route=mmq type=nvfp4 <= 2", False, "3 of the first 4 records of mul_mat_route"),
        ("route=mmq type=nvfp4 == 2", False, "3 of the first 4 records of mul_mat_route"),
        ("route=mmq type=nvfp4 == 3", None, "; 6 more were not written"),
        ("route=mat_f ne1=16 == 0", None, "; 6 more were not written"),
    ],
)
def test_a_bounded_trace_does_not_show_what_it_dropped(text: str, holds: bool | None, why: str) -> None:
    found = asked(text, BOUNDED)
    assert found.holds is holds
    assert why in found.why


def test_a_killed_process_shows_a_lower_limit() -> None:
    assert asked("route=mmq >= 3", RECORDS).holds is True
    found = asked("route=op_cublas == 0", RECORDS)
    assert (found.holds, "no summary says whether there were more" in found.why) == (None, True)


def test_records_that_contradict_their_summary_answer_nothing() -> None:
    found = asked("route=mmq >= 1", COMPLETE[1:])
    assert found.holds is None
    assert found.why == "the records of mul_mat_route contradict: lines 4, records 3"


def test_nothing_traced_is_no_zero() -> None:
    found = asked("route=mmq == 0", [GTRACE])
    assert (found.holds, found.why) == (None, "the log has no records with route: nothing was traced")
    assert asked("trace=layout op=cpy == 0", COMPLETE).why == "the log has no records layout: nothing was traced"


def test_an_expectation_that_two_traces_could_answer_is_refused() -> None:
    with pytest.raises(UsageError, match="could mean mul_mat_route or moe_mmid_route") as caught:
        asked("route=mmq >= 1", [*COMPLETE, MMID])
    assert caught.value.hint == "specify the trace: 'trace=mul_mat_route route=mmq >= 1'"
    assert asked("trace=moe_mmid_route route=mmq >= 1", [*COMPLETE, MMID]).count == 1
    # Only one of them has such records, so the expectation means that one.
    assert asked("route=vec_f >= 1", [*COMPLETE, MMID]).count == 1


def test_a_key_that_the_trace_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match="records of LLAMA_MOE_MMQ_SHAPE have no route") as caught:
        asked("trace=LLAMA_MOE_MMQ_SHAPE route=mmq", [MMQ])
    assert "mmq_x_best" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it contains no key=value"),
        (">= 3", "it contains no key=value"),
        ("mmq", "'mmq' is not key=value"),
        ("route= >= 1", "'route=' is not key=value"),
        ("route=mmq >= many", "is not key=value"),
        ("route=mmq route=vec_f", "route occurs twice"),
        ("route=mmq >= 0", "has the same result for every count: >= 0"),
        ("route=mmq < 0", "has the same result for every count: < 0"),
        ("trace=nonsense route=mmq", "names an unknown trace"),
        ("route=" + "a*" * 400, "has more than 500 characters"),
    ],
)
def test_what_is_no_expectation_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_expectation(text)
    assert why in caught.value.message
    assert caught.value.hint


def test_a_pattern_of_many_stars_ends() -> None:
    name = "a" * 60
    lines = [ROUTE.format("mmq", "f16", 0).replace("Qcur-0", name)]
    found = asked("dst=" + "*a" * 100 + "*b == 1", lines)
    assert found.count == 0
