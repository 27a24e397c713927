"""Latencies and rates of streams whose times are known exactly, and the notebook's own rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.stats.serving import (
    NS,
    Stream,
    decode_agg,
    in_flight,
    meets,
    notebook,
    percentile,
    spread,
    steady,
)

MS = 1_000_000


def a_stream(first: float, tokens: int, rate: float, *, sent: float = 0.0, prompt: int = 100) -> Stream:
    """Return a stream of one token for each chunk at a constant rate, which ends with the last token."""
    times = tuple(round((first + number / rate) * NS) for number in range(tokens))
    return Stream(
        start=round(sent * NS),
        sent=round(sent * NS),
        times=times,
        counts=(None,) * tokens,
        ended=times[-1],
        tokens=tokens,
        prompt=prompt,
    )


# First tokens, tokens each, tokens a second -> wall, agg, decode_agg, per sequence, window tokens, steady rate.
# The rate of the steady window is None where the window is too short or does not exist.
SCHEDULES = [
    ((0.5, 1.0, 1.5, 2.0), 11, 10, 3.0, 44 / 3, 44.0, 10.0, 0, None),
    ((0.5, 1.0, 1.5, 2.0), 41, 10, 6.0, 164 / 6, 41.0, 10.0, 100, 40.0),
    ((0.5, 1.0, 1.5, 2.0), 101, 10, 12.0, 404 / 12, 40.4, 10.0, 340, 40.0),
    ((1.0,), 21, 10, 3.0, 7.0, 10.5, 10.0, 20, 10.0),
    ((1.0,), 20, 10, 2.9, 20 / 2.9, 20 / 1.9, 10.0, 19, None),
    ((1.0,), 101, 20, 6.0, 101 / 6, 20.2, 20.0, 100, 20.0),
    ((1.0, 1.0), 51, 10, 6.0, 17.0, 20.4, 10.0, 100, 20.0),
    ((1.0, 1.0, 1.0, 1.0), 21, 4, 6.0, 14.0, 16.8, 4.0, 80, 16.0),
    ((1.0, 2.0), 41, 10, 6.0, 82 / 6, 20.5, 10.0, 60, 20.0),
    ((1.0, 4.0), 41, 10, 8.0, 10.25, 20.5, 10.0, 20, None),
    ((1.0, 5.0), 41, 10, 9.0, 82 / 9, 20.5, 10.0, 0, None),
    ((1.0, 5.5), 41, 10, 9.5, 82 / 9.5, 20.5, 10.0, 0, None),
    ((0.25, 0.5, 0.75), 41, 20, 2.75, 123 / 2.75, 61.5, 20.0, 90, 60.0),
    ((0.25, 0.5, 0.75), 26, 20, 2.0, 39.0, 62.4, 20.0, 45, None),
    ((2.0, 2.5), 61, 4, 17.5, 122 / 17.5, 122 / 15, 4.0, 116, 8.0),
    ((8.0, 8.5), 31, 10, 11.5, 62 / 11.5, 62 / 3, 10.0, 50, None),
    ((9.0, 9.5), 41, 10, 13.5, 82 / 13.5, 20.5, 10.0, 70, 20.0),
    ((12.0, 12.5), 41, 10, 16.5, 82 / 16.5, 20.5, 10.0, 70, None),
    ((0.5, 0.5, 0.5, 0.5, 1.5), 51, 10, 6.5, 255 / 6.5, 51.0, 10.0, 200, 50.0),
    ((1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5), 101, 8, 17.0, 808 / 17, 64.64, 8.0, 576, 64.0),
    ((0.1, 0.2), 1001, 100, 10.2, 2002 / 10.2, 200.2, 100.0, 1980, 200.0),
    ((0.5, 1.0, 1.5, 2.0), 31, 10, 5.0, 24.8, 124 / 3, 10.0, 60, None),
    ((0.5, 1.0, 1.5, 2.0), 36, 10, 5.5, 144 / 5.5, 144 / 3.5, 10.0, 80, 40.0),
]


@pytest.mark.parametrize(("firsts", "tokens", "rate", "wall", "agg", "decode", "each", "inside", "steadily"), SCHEDULES)
def test_a_schedule_gives_its_figures_exactly(
    firsts: tuple[float, ...],
    tokens: int,
    rate: float,
    wall: float,
    agg: float,
    decode: float,
    each: float,
    inside: int,
    steadily: float | None,
) -> None:
    streams = [a_stream(first, tokens, rate) for first in firsts]
    row = notebook(streams)
    assert row is not None
    assert row.wall == pytest.approx(wall, rel=1e-12)
    assert row.agg_tps == pytest.approx(agg, rel=1e-9)
    assert row.decode_agg_tps == pytest.approx(decode, rel=1e-9)
    assert row.decode_perseq_tps == pytest.approx(each, rel=1e-9)
    assert row.ttft_max == max(firsts)
    window = steady(streams, len(streams))
    assert window.tokens == inside
    if steadily is None:
        assert window.problem
    else:
        assert window.problem == "" and window.rate == pytest.approx(steadily, rel=1e-9)


def test_without_a_window_the_problem_says_so() -> None:
    streams = [a_stream(first, 11, 10) for first in (0.5, 1.0, 1.5, 2.0)]
    window = steady(streams, 4)
    assert (window.rate, window.problem) == (None, "there is no time at which all streams decode")


def test_in_a_closed_loop_the_window_lasts_until_a_stream_is_not_replaced() -> None:
    first = [a_stream(1.0, 21, 10), a_stream(1.5, 21, 10)]  # end at 3.0 and 3.5
    second = [a_stream(3.5, 21, 10, sent=3.0), a_stream(4.0, 21, 10, sent=3.5)]  # end at 5.5 and 6.0
    window = steady([*first, *second], 2)
    assert (window.begin, window.end) == (round(1.5 * NS), round(5.5 * NS))
    assert window.tokens == 15 + 20 + 21 + 16
    assert window.rate == pytest.approx(72 / 4.0)


# Phases 55 to 59 of the notebook, llama.cpp at n = 128: decode_agg as printed, ttft_max in ms, wall in s; agg, prefill.
ROWS = """
55 361.3 36599.5 59.272 138.2 626.0 dense
55 336.9 33008.2 57.323 142.9 694.2 dense
56 651.2 11435.5 24.015 341.1 1555.9 moe
56 623.8 10964.4 24.098 339.9 1622.7 moe
57 652.0 11735.7 24.299 337.1 1516.1 moe
57 611.5 11407.9 24.802 330.2 1559.6 moe
57 624.6 11315.5 24.429 335.3 1572.4 moe
57 589.6 11141.5 25.025 327.1 1596.9 moe
57 360.6 35209.6 57.925 141.4 650.8 dense
57 340.1 34556.0 58.645 139.7 663.1 dense
57 333.4 35511.7 60.081 136.3 645.2 dense
58 648.4 11532.5 24.167 339.0 1542.9 moe
58 619.3 10868.8 24.095 339.9 1637.0 moe
58 635.0 11054.6 23.950 341.9 1609.6 moe
58 631.8 11767.1 24.733 331.2 1512.1 moe
58 362.7 35811.6 58.399 140.3 639.8 dense
58 347.6 34783.3 58.353 140.4 658.7 dense
58 350.2 35246.3 58.642 139.7 650.1 dense
59 646.7 11666.8 24.334 336.6 1525.1 moe
59 632.0 11353.4 24.316 336.9 1567.1 moe
""".strip().splitlines()


@pytest.mark.parametrize("line", ROWS)
def test_the_rows_of_the_notebook_follow_from_8192_tokens(line: str) -> None:
    _, decode, first, wall, agg, prefill, model = line.split()
    assert decode_agg(8192, float(wall), float(first) / 1000) == pytest.approx(float(decode), rel=0.001)
    assert 8192 / float(wall) == pytest.approx(float(agg), rel=0.001)
    prompt = float(prefill) * float(first) / 1000 / 128
    assert prompt == pytest.approx({"moe": 139.0, "dense": 179.0}[model], abs=0.03)


def test_there_are_twenty_rows_and_vllm_made_fewer_tokens() -> None:
    assert len(ROWS) == 20
    made = 601.3 * 13.563  # phase 59, vLLM: agg and wall
    assert round(made) == 8155
    assert decode_agg(8192, 13.563, 4.8716) == pytest.approx(938.8 * 1.004, rel=0.001)
    assert decode_agg(8155, 13.563, 4.8716) == pytest.approx(938.8, rel=0.001)


def test_a_gap_is_shared_by_the_tokens_that_came_with_it() -> None:
    one = Stream(
        start=0,
        sent=2 * MS,
        times=(10 * MS, 14 * MS, 26 * MS),
        counts=(1, 2, 5),
        ended=30 * MS,
        tokens=5,
        prompt=8,
    )
    assert one.gaps == (4 * MS, 12 * MS)
    assert one.token_gaps == (4 * MS, 4 * MS, 4 * MS, 4 * MS)
    assert (one.ttft, one.e2e, one.queued, one.tpot) == (10 * MS, 26 * MS, 2 * MS, 4 * MS)


@pytest.mark.parametrize("counts", [(None, None, None), (1, None, 5), (1, 1, 5)])
def test_tokens_of_chunks_that_are_not_known_give_no_token_gaps(counts: tuple[int | None, ...]) -> None:
    one = Stream(start=0, sent=0, times=(1, 2, 3), counts=counts, ended=3, tokens=5, prompt=None)
    assert one.chunk_tokens is None and one.token_gaps is None
    assert steady([one], 1).problem == "the number of tokens in a chunk is unknown"
    assert notebook([one]) is not None


def test_as_many_chunks_as_tokens_are_one_each() -> None:
    one = Stream(start=0, sent=0, times=(1, 2, 3), counts=(None,) * 3, ended=3, tokens=3, prompt=None)
    assert one.chunk_tokens == (1, 1, 1) and one.token_gaps == (1.0, 1.0)


def test_without_the_servers_count_there_is_no_throughput() -> None:
    one = Stream(start=0, sent=0, times=(1, 2), counts=(None, None), ended=3, tokens=None, prompt=None)
    assert notebook([one]) is None and one.tpot is None
    assert notebook([]) is None


def test_a_percentile_needs_values() -> None:
    few = spread([float(one) for one in range(40)])
    assert few is not None
    assert (few.p50, few.p99, few.max, few.n) == (19.5, None, 39.0, 40)
    assert few.p90 == pytest.approx(35.1)
    nine = spread([1.0] * 9)
    assert nine is not None and nine.p90 is None
    assert spread([]) is None


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert percentile(sorted(values), share) == pytest.approx(float(np.percentile(values, 100 * share)), rel=1e-9)


def test_a_bound_on_what_is_not_known_is_not_kept() -> None:
    one = a_stream(0.5, 11, 10)
    assert meets(one, {"ttft": 500, "tpot": 100, "e2e": 1500})
    assert not meets(one, {"ttft": 499})
    assert not meets(a_stream(0.5, 1, 10), {"tpot": 1000})


def test_streams_in_flight_wait_and_then_decode() -> None:
    streams = [a_stream(1.0, 11, 10), a_stream(1.5, 11, 10, sent=0.5)]
    seen = [(time / NS, waiting, decoding) for time, waiting, decoding in in_flight(streams)]
    assert seen == [(0.0, 1, 0), (0.5, 2, 0), (1.0, 1, 1), (1.5, 0, 2), (2.0, 0, 1), (2.5, 0, 0)]
