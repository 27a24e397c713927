"""The workload `serve`: the figures it reads from a run, and the runs that a comparison refuses."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from patchstack.bench.declare import chosen_workload
from patchstack.bench.kinds import serve
from patchstack.bench.serving.record import CounterRecord, ServeRecord
from patchstack.bench.workload import Figures
from patchstack.engine.protocol import Ending
from patchstack.errors import UsageError
from patchstack.llama.serving import RECORD
from patchstack.observe.protocol import Observation
from tests.unit.bench.serving.test_figures import a_record, a_request


def read(metric: str, record: ServeRecord, *settings: str) -> Figures | str:
    found = chosen_workload(f"serve:{metric}", None, model="m.gguf", settings=("concurrency=2", *settings))
    files = {RECORD: gzip.compress(msgspec.json.encode(record))}
    seen = Observation(key="", ending=Ending.EXITED, code=0, stdout=b"", stderr=b"", seconds=1.0, files=files)
    return serve.read(found.workload, seen)


def many(failed: int) -> ServeRecord:
    requests = [
        a_request(number, failure="the server answered 503: 'busy'" if number < failed else "") for number in range(300)
    ]
    tokens = 40.0 * (300 - failed)
    counters = {
        "before": {"prompt": 0.0, "generated": 0.0},
        "after": {"prompt": 8.0 * (300 - failed), "generated": tokens},
    }
    return a_record(*requests, counters=counters)


@pytest.mark.parametrize("metric", serve.METRICS)
def test_every_metric_has_a_unit_and_a_direction(metric: str) -> None:
    workload = chosen_workload(f"serve:{metric}", None, model="m.gguf", settings=()).workload
    is_latency = metric.split("_")[0] in ("ttft", "icl", "itl", "tpot", "e2e")
    assert (workload.unit, workload.better) == (("ms", "lower") if is_latency else ("t/s", "higher"))
    assert workload.rows == (metric,)


def test_the_metric_of_a_run_is_read() -> None:
    record = a_record(a_request(0), a_request(1))
    assert read("itl_p50", record) == {"itl_p50": 10.0}
    assert read("ttft_mean", record) == {"ttft_mean": 98.0}
    steady = read("steady", record)
    assert isinstance(steady, dict) and steady["steady"] == pytest.approx(200.0)


def test_several_metrics_of_one_kind_are_rows_of_one_comparison() -> None:
    found = chosen_workload("serve:itl_p50,ttft_mean", None, model="m.gguf", settings=("primary=itl_*", "guard=ttft_*"))
    assert [(row.name, row.primary) for row in found.rows] == [("itl_p50", True), ("ttft_mean", False)]
    assert (found.workload.unit, found.workload.better) == ("ms", "lower")
    record = a_record(a_request(0), a_request(1))
    assert read("itl_p50,ttft_mean", record) == {"itl_p50": 10.0, "ttft_mean": 98.0}
    assert read("itl_p50,ttft_p99", record) == "the run has no ttft_p99: too few values"


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("itl_p50,tps", "mixes rates and latencies; a comparison needs either rates or latencies"),
        ("itl_p50,itl_p50", "names a metric twice"),
        ("itl_p50,itl_p42", "'itl_p42' is not one of tps, steady"),
        ("", "'' is not one of tps, steady"),
    ],
)
def test_metrics_that_do_not_go_together_are_refused(metrics: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen_workload(f"serve:{metrics}", None, model="m.gguf", settings=())
    assert words in str(raised.value) + " ".join(raised.value.problems)


def test_one_failed_request_of_three_hundred_is_one_too_many() -> None:
    assert read("itl_p50", many(0)) == {"itl_p50": 10.0}
    assert read("itl_p50", many(1)) == "1 of 300 requests failed: the server answered 503: 'busy'"


def test_a_run_without_counters_is_taken_only_if_that_is_allowed() -> None:
    counters = CounterRecord(server="", before={}, after={}, settled_seconds=0.0)
    record = msgspec.structs.replace(a_record(a_request(0), a_request(1)), counters=counters)
    refused = "the server has no counters to check the client: start llama-server with --metrics, or set no_counters"
    assert read("itl_p50", record) == refused
    assert read("itl_p50", record, "no_counters=true") == {"itl_p50": 10.0}


def test_a_tail_of_too_few_values_is_no_number() -> None:
    assert read("ttft_p99", a_record(a_request(0), a_request(1))) == "the run has no ttft_p99: too few values"
