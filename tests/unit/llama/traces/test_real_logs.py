"""Logs that builds of this series wrote, on a CPU and on an H200: every record and summary is read, and they agree.

How they were made: llama-batched-bench, llama-completion and llama-server with small models of random weights
(tests.support.tiny_gguf, and a mixture of experts in Q4_0), every trace switched on, bounded or not.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.expectations import answer, read_expectation
from patchstack.llama.traces.formats import FORMATS
from patchstack.llama.traces.reading import Reading
from patchstack.llama.traces.recount import recounted, summed
from tests.support.checkout import ROOT
from tests.support.trace_logs import read, read_bytes

LOGS = sorted((ROOT / "tests" / "data" / "traces").glob("*.log.gz"))
NAMES = [path.name.removesuffix(".log.gz") for path in LOGS]


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def reading_of(name: str) -> Reading:
    return read_bytes(text_of(ROOT / "tests" / "data" / "traces" / f"{name}.log.gz"))


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_every_record_is_read_and_agrees_with_its_summary(path: Path) -> None:
    log = text_of(path)
    reading = read_bytes(log)
    assert [one for one in findings(reading) if one.holds is not True] == []
    # Written by hand: a name anywhere in a line, after any text.
    by_hand = Counter(found[1].decode() for found in re.finditer(rb"trace_(\w+?)(?<!_summary) \w+=[^\n]*\n", log))
    by_hand["kv_paged"] = len(re.findall(rb"kv_paged event=(?!summary)", log))
    for trace in reading.traces:
        assert trace.records == by_hand[trace.name], trace.name
        assert trace.unread == 0
    assert {name for name, count in by_hand.items() if count} == {one.name for one in reading.traces if one.records}


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_counts_of_a_complete_trace_are_those_of_its_summary(path: Path) -> None:
    compared = 0
    for trace in read_bytes(text_of(path)).traces:
        counted = recounted(trace)
        if counted is None or not trace.summaries or trace.dropped:
            continue
        said = summed(trace.summaries)
        for key, value in counted.counters.items():
            assert said.counters[key] == value, (trace.name, key)
            compared += 1
        assert {key: str(one) for key, one in said.histograms.items()} == {
            key: str(one) for key, one in counted.histograms.items()
        }
        assert counted.largest.items() <= said.largest.items()
    assert compared or "bounded" in path.name


def test_the_logs_hold_every_trace_of_the_series() -> None:
    seen = {one.name for path in LOGS for one in read_bytes(text_of(path)).traces}
    ours = {one.name for one in FORMATS if one.text.startswith(("trace_", "kv_paged"))}
    assert ours <= seen


def test_a_bounded_trace_of_cuda_ends_inside_a_graph() -> None:
    reading = reading_of("cuda-moe-bounded-40")
    trace = reading.trace("moe_mmid_route")
    assert trace is not None and trace.graphs is not None
    assert (trace.records, trace.dropped, trace.graphs.whole, trace.graphs.cut) == (40, 458, 3, 7)
    assert sum(trace.by("route").values()) == 33
    shape = reading.trace("moe_mmq_shape")
    assert shape is not None and shape.graphs is not None
    assert (shape.graphs.whole, shape.graphs.calls, shape.graphs.cut) == (4, 9, 4)


def test_graphs_that_cuda_replays_leave_no_records() -> None:
    reading = reading_of("cuda-moe-all")
    summary = reading.trace("cuda_graph")
    routes, layout = reading.trace("mul_mat_route"), reading.trace("layout")
    assert summary is not None and routes is not None and layout is not None
    counters = summed(summary.summaries).counters
    assert routes.graphs is not None and layout.graphs is not None
    assert routes.graphs.whole == counters["calls"] - counters["replayed"] == 44
    # The CPU reads the rows of the embedding, for every graph.
    assert layout.graphs.whole == counters["calls"] == 60


def test_the_server_and_its_requests_count_the_same_tokens() -> None:
    for name in ("cpu-server-all", "cuda-server-all"):
        reading = reading_of(name)
        serving = reading.trace("serving")
        assert serving is not None
        counters = summed(serving.summaries).counters
        prompts, answers = reading.log.times["prompt eval", True], reading.log.times["eval", True]
        assert counters["prompt_tokens"] == prompts.tokens
        assert answers.tokens is not None
        assert counters["decode_tokens"] == answers.tokens - answers.lines


def test_expectations_of_a_real_log() -> None:
    reading = reading_of("cuda-moe-bounded-40")
    found = {
        text: answer(read_expectation(text), reading, findings(reading)).holds
        for text in (
            "trace=moe_mmid_route route=mmq type=q4_0 >= 12",
            "trace=moe_mmid_route route=host_sync == 0",
            "trace=moe_mmid_route route=mmq type=q4_0 ne2=24 == 0",
            "route=sgemm type=0 >= 1000",
            "op=cpy >= 1",
        )
    }
    assert list(found.values()) == [True, True, None, None, False]


def test_the_examples_of_the_reference_are_read() -> None:
    examples = 0
    for page in ("traces.md", "kv-paged.md"):
        text = (ROOT / "docs" / "reference" / page).read_text("utf-8")
        for line in "\n".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL)).splitlines():
            if line.startswith(("trace_", "kv_paged ")):
                (trace,) = read(line).traces
                assert trace.unread == 0, line
                assert trace.records + len(trace.summaries) == 1
                examples += 1
    assert examples >= 18


def lines_of(name: str) -> list[bytes]:
    return text_of(ROOT / "tests" / "data" / "traces" / f"{name}.log.gz").splitlines()


@pytest.mark.parametrize(
    ("name", "mark", "old", "new", "what"),
    [
        # A name that is cut leaves every sum of the summary as it was.
        ("cuda-moe-all", b"dst=ffn_moe_gate-2", b"dst=ffn_moe_gate-2", b"dst=ffn_mo", "graphs hold each tensor once"),
        ("cuda-server-all", b"event=place cache=0 stream=1", b" n=", b" n=1", "cells of the records"),
        ("cuda-server-all", b"event=defrag", b"event=defrag", b"event=place", "cells of the records"),
        ("cpu-server-spec", b"kind=verify", b" draft=3", b" draft=2", "rows of 1 record"),
        ("cpu-server-all", b"trace_serving_summary", b"waiting=1 ", b"waiting=2 ", "waiting of the records"),
        ("cuda-moe-all", b"trace_cuda_graph_summary", b"replayed=16", b"replayed=17", "calls against its parts"),
    ],
)
def test_a_real_log_that_was_changed_is_not_believed(name: str, mark: bytes, old: bytes, new: bytes, what: str) -> None:
    lines = lines_of(name)
    at = next(number for number, line in enumerate(lines) if mark in line and old in line)
    lines[at] = lines[at].replace(old, new, 1)
    told = [one for one in findings(read(*lines)) if one.holds is not True]
    assert what in [one.what for one in told], [one.what for one in told]


def test_every_lost_or_doubled_record_of_a_real_log_is_found() -> None:
    for name in ("cuda-completion", "cuda-two-processes"):
        lines = lines_of(name)
        records = [at for at, line in enumerate(lines) if re.search(rb"trace_\w+(?<!_summary) \w+=", line)]
        for at in records[::31]:
            for changed in ([*lines[:at], *lines[at + 1 :]], [*lines[:at], lines[at], *lines[at:]]):
                assert any(one.holds is False for one in findings(read(*changed))), (name, at)
