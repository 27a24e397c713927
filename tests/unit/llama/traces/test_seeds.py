"""The notebook's lines and tables: the figures that people read from them are reproduced, and misread ones are
found."""

from __future__ import annotations

import math

import pytest

from patchstack.llama.traces.contradictions import LogCheck, decode_only, findings
from patchstack.llama.traces.log_figures import mean_length
from patchstack.llama.traces.reading import Reading, Trace
from tests.support.trace_logs import (
    ACCEPTANCE,
    ACCEPTANCE_62,
    ADMISSION_54,
    ADMISSION_55,
    GTRACE,
    MMQ,
    SPEC,
    read,
)


def only(reading: Reading) -> Trace:
    (trace,) = reading.traces
    return trace


def broken(reading: Reading) -> list[LogCheck]:
    return [one for one in findings(reading) if one.holds is not True]


def test_the_summary_of_cuda_graphs_sums_to_98_calls() -> None:
    reading = read(GTRACE)
    (summary,) = only(reading).summaries
    assert summary.counters["calls"] == 98
    (found,) = findings(reading)
    assert (found.said, found.found) == (
        "calls 98",
        "notenab + warming + warmdone + RESET + USED + incompat: 98",
    )
    assert found.holds


def test_a_summary_that_does_not_sum_is_named_with_both_values() -> None:
    (found,) = findings(read(GTRACE.replace("USED=94", "USED=93")))
    assert (found.holds, found.said) == (False, "calls 98")
    assert found.found.endswith(": 97")
    assert {"calls", "USED"} <= set(found.spoils)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (ADMISSION_54, "the histograms say at least 60 and at most 63 of 76"),
        (ADMISSION_55, "the histograms say exactly 63 of 76"),
    ],
)
def test_the_counter_of_decode_only_steps_is_denied_by_the_histograms_of_the_same_line(line: str, told: str) -> None:
    (found,) = broken(read(line))
    assert (found.said, found.found, found.holds) == ("decode_only_steps 0", told, False)
    assert found.spoils == ("decode_only_steps",)


def test_with_speculation_a_slot_decodes_several_tokens_so_less_is_known() -> None:
    (summary,) = only(read(ADMISSION_55)).summaries
    assert decode_only(summary.counters, summary.histograms, speculation=False) == range(63, 64)
    assert decode_only(summary.counters, summary.histograms, speculation=True) == range(50, 64)


def test_the_admission_line_adds_up_otherwise() -> None:
    reading = read(ADMISSION_54)
    held = {one.what: (one.said, one.found) for one in findings(reading) if one.holds}
    assert held["waiting_prompt_slots against its parts"] == (
        "waiting_prompt_slots 267",
        "started_prompt_slots + continued_prompt_slots: 267",
    )
    assert held["decode_tokens within decode_hist"] == ("decode_tokens 8,064", "decode_hist gives 7,434 to 15,415")
    assert held["prompt_hist against steps"] == ("steps 76", "prompt_hist 76")


def test_histograms_of_the_notebook_keep_their_own_edges() -> None:
    (summary,) = only(read(ADMISSION_54)).summaries
    assert str(summary.histograms["prompt_hist"]) == "0:63,1-64:1,513+:12"
    assert str(summary.histograms["decode_hist"]) == "0:3,1-63:10,64-127:10,128-255:53"


def test_type_40_is_nvfp4() -> None:
    trace = only(read(MMQ))
    assert trace.by("type", "mmq_x_best") == {("nvfp4", 16): 1}
    assert trace.by("density", "n_active_est") == {(1, 104): 1}


def mmq_line(tokens: int, best: int) -> str:
    """Return a record of phase 30: 8 of 256 experts for each token."""
    active = min(8 * tokens, 256)
    return (
        f"[LLAMA_MOE_MMQ_SHAPE] type=40 moe=1 ncols_dst={8 * tokens} nchannels_x=256 ncols_max={tokens}"
        f" n_active_est={active} density={math.ceil(8 * tokens / active)} mmq_x_max=128 mmq_x_lim=64"
        f" mmq_x_best={best} mmq_y=128 stream_k=1"
    )


# Numbers of tokens and widths of tiles, with the number of graphs of 120 calls, chosen to give the sums that phase 30
# prints.
PHASE_30 = (
    *((26, 32, 1), (30, 32, 2), (36, 40, 2), (44, 48, 1), (60, 64, 2), (111, 64, 2)),
    *((132, 48, 1), (190, 64, 3), (192, 64, 3), (200, 112, 2), (510, 128, 14), (512, 128, 1)),
)


def phase_30() -> list[str]:
    lines = [mmq_line(tokens, best) for tokens, best, graphs in PHASE_30 for _ in range(120 * graphs)]
    return [*lines, *[mmq_line(509, 128)] * 16]


def test_4096_lines_are_34_graphs_of_120_calls_and_16_lines() -> None:
    lines = phase_30()
    assert len(lines) == 4096
    graphs = only(read(*lines)).graphs
    assert graphs is not None
    assert (graphs.whole, graphs.calls, graphs.cut) == (34, 120, 16)


def test_phase_30_is_counted_apart_by_tokens() -> None:
    trace = only(read(*phase_30()))
    decode = sum(count for (tokens,), count in trace.by("ncols_max", left_out=True).items() if int(tokens) <= 128)
    whole = sum(count for (tokens,), count in trace.by("ncols_max").items() if int(tokens) > 128)
    assert (decode, trace.records - decode, whole) == (1200, 2896, 2880)
    best = trace.by("mmq_x_best", left_out=True)
    assert best[(128,)] == 1816 and best[(32,)] == 360 and best[(40,)] == 240


@pytest.mark.parametrize("tokens", [1, 12, 31, 32, 33, 84, 128, 510, 512])
def test_density_is_columns_for_each_expert_that_can_be_active(tokens: int) -> None:
    reading = read(mmq_line(tokens, 64))
    assert only(reading).by("density") == {(math.ceil(8 * tokens / min(8 * tokens, 256)),): 1}
    assert broken(reading) == []


def test_a_density_that_does_not_follow_is_named() -> None:
    (found,) = broken(read(mmq_line(64, 64).replace("density=2", "density=3")))
    assert (found.said, found.holds) == ("density 3", False)
    assert "give 2" in found.found


def test_phase_35_has_as_many_nvfp4_calls_as_mmq_and_vec_q_together() -> None:
    shape = "ne0=4096 ne1=12 ne00=2048 ne11=12 ne12=1 ne13=1"
    lines = []
    for route, kind, count in (
        ("mat_f", 30, 2888),
        ("op_cublas", 30, 1077),
        ("op_cublas", 0, 1215),
        ("mmq", 40, 1328),
        ("vec_q", 40, 1214),
        ("vec_f", 0, 470),
    ):
        lines += [f"[LLAMA_MUL_MAT_ROUTE] route={route} type={kind} {shape}"] * count
    trace = only(read(*lines))
    assert trace.records == 8192
    assert trace.by("type") == {("bf16",): 3965, ("nvfp4",): 2542, ("f32",): 1685}
    assert trace.by("route", "type")[("mmq", "nvfp4")] + trace.by("route", "type")[("vec_q", "nvfp4")] == 2542


def test_phase_62_has_a_mean_length_of_1_plus_its_rates() -> None:
    reading = read(ACCEPTANCE_62)
    (run,) = reading.log.runs
    assert (run.accepted, run.generated, run.mean) == (7372, 9340, "3.33")
    assert mean_length(run.rates) == pytest.approx(3.335)
    assert reading.log.disagreeing == ()


def test_a_mean_length_that_is_not_1_plus_its_rates_is_named() -> None:
    (problem,) = read(ACCEPTANCE_62.replace("3.33", "3.41")).log.disagreeing
    assert problem == "mean acceptance length: 1 + 0.877 + 0.767 + 0.691 is 3.335, not 3.41"


def test_an_acceptance_is_held_against_its_counts() -> None:
    assert read(ACCEPTANCE).log.disagreeing == ()
    (problem,) = read(ACCEPTANCE.replace("0.81481", "0.82481")).log.disagreeing
    assert problem == "draft acceptance: 44 of 54 is 0.81481, not 0.82481"


def test_phase_18_lines_are_rows_of_one_and_the_draft() -> None:
    lines = [
        SPEC,
        SPEC.replace("pos0=5", "pos0=6"),
        SPEC.replace("rows=4 outputs=4 draft=3", "rows=3 outputs=3 draft=2"),
    ]
    trace = only(read(*lines))
    assert trace.by("kind", "draft") == {("verify", 3): 2, ("verify", 2): 1}
    assert broken(read(*lines)) == []
    (wrong,) = broken(read(SPEC.replace("draft=3", "draft=4")))[:1]
    assert (wrong.said, wrong.holds) == ("rows 4", False)


def test_phase_19_shares_and_entropy() -> None:
    from patchstack.trace.figures import spread

    found = spread({"draft=1": 40, "draft=2": 49, "draft=3": 2264})
    assert found is not None
    assert (found.distinct, found.top, round(100 * found.top_share, 1)) == (3, "draft=3", 96.2)
    assert found.entropy == pytest.approx(0.2698, abs=1e-4)
