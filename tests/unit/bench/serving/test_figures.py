"""When a run is valid, and the warnings for its reader, from made-up records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from patchstack.bench.serving.figures import LoadTerms, figures_of, lag_limit
from patchstack.bench.serving.record import (
    CounterRecord,
    RequestRecord,
    ServeRecord,
    WatchRecord,
    read_record,
)
from patchstack.errors import NotHeldError
from patchstack.stats.serving import spread

MS = 1_000_000


def a_request(number: int = 0, tokens: int = 40, **changes: Any) -> RequestRecord:
    """Return a request sent at 0 with a token every 10 ms from 100 ms on."""
    times = tuple((100 + 10 * at) * MS for at in range(tokens))
    fields: dict[str, Any] = {
        "number": number,
        "planned": 0,
        "prompt_wanted": 8,
        "tokens_wanted": tokens,
        "began": 0,
        "connected": MS,
        "sent": 2 * MS,
        "ended": times[-1] + MS,
        "times": times,
        "counts": (None,) * tokens,
        "status": 200,
        "failure": "",
        "tokens": tokens,
        "prompt": 8,
        "cached": 0,
        "drafted": None,
        "accepted": None,
        "finish": "length",
        "odd": {},
    }
    return RequestRecord(**{**fields, **changes})


def a_record(*requests: RequestRecord, **changes: Any) -> ServeRecord:
    """Return a run whose client had no load, and whose server's counters agree."""
    watch = {
        "samples": 100,
        "lag_p50_ms": 0.1,
        "lag_p99_ms": 0.5,
        "lag_max_ms": 1.0,
        "cpu_seconds": 0.1,
        "wall_seconds": 1.0,
        "busiest_second": 0.1,
        "waited_for_cpu_ms": 0.0,
        "descriptors": 9,
        "descriptors_allowed": 1024,
        **changes.pop("watch", {}),
    }
    made = sum(one.tokens or 0 for one in requests)
    prompt = sum((one.prompt or 0) - (one.cached or 0) for one in requests)
    counters = {
        "server": "llama-server",
        "before": {"prompt": 100.0, "generated": 50.0, "busy": 0.0},
        "after": {"prompt": 100.0 + prompt, "generated": 50.0 + made, "busy": 0.0},
        "settled_seconds": 0.0,
        **changes.pop("counters", {}),
    }
    fields: dict[str, Any] = {
        "python": "3.12",
        "url": "http://h:1/v1/completions",
        "model": "m",
        "began": "",
        "interrupted": False,
        "wall": 1,
        "prompts": "ids",
        "shared": 0,
        "requests": requests,
        "cpu_in_all": 0.1,
        "watch": WatchRecord(**watch),
        "counters": CounterRecord(**counters),
    }
    return ServeRecord(**{**fields, **changes})


ASKED = LoadTerms(arrivals="closed", concurrency=2, prefix=0, slo={})


def problems(record: ServeRecord, **terms: Any) -> tuple[str, ...]:
    fields = {"arrivals": "closed", "concurrency": 2, "prefix": 0, "slo": {}}
    return figures_of(record, LoadTerms(**{**fields, **terms})).problems


def two(**changes: Any) -> tuple[RequestRecord, RequestRecord]:
    return a_request(0, **changes), a_request(1)


def test_a_run_without_a_problem_is_valid() -> None:
    served = figures_of(a_record(*two()), ASKED)
    assert served.problems == () and served.marks == ()
    assert served.crossed.agree is True and served.tokens == 80
    assert served.ttft is not None and served.ttft.mean == 98.0
    assert served.itl is not None and served.itl.p50 == 10.0 and served.tokens_per_chunk == 1.0
    assert served.steady is not None and served.steady.rate == pytest.approx(200.0)


def test_in_an_open_loop_latencies_count_from_the_planned_time() -> None:
    late = a_request(0, planned=0, sent=60 * MS)
    for arrivals, ttft, queue in (("poisson", 100.0, 60.0), ("closed", 40.0, 0.0)):
        served = figures_of(a_record(late), LoadTerms(arrivals=arrivals, concurrency=1, prefix=0, slo={}))
        assert served.ttft is not None and served.ttft.mean == ttft
        assert served.queue is not None and served.queue.mean == queue


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (a_record(*two(), interrupted=True), "interrupted"),
        (a_record(a_request(0), a_request(1, failure="the server answered 503: busy")), "1 of 2 requests failed"),
        (a_record(*two(), watch={"lag_p99_ms": 2.1}), "the client was the bottleneck: it was late by"),
        (a_record(*two(), watch={"lag_p50_ms": 1.6}), "the client was the bottleneck: it was late by 1.6 ms at p50"),
        (a_record(*two(), watch={"busiest_second": 0.97}), "the client was the bottleneck: it used 97% of a core"),
        (a_record(*two(), watch={"samples": 0}), "too short"),
        (a_record(*two(cached=5)), "the prefix cache was warm: 5 tokens of 1 prompt was not computed"),
        (a_record(*two(), counters={"after": {"prompt": 117.0, "generated": 130.0}}), "another client used the server"),
        (a_record(*two(), counters={"after": {"prompt": 116.0, "generated": 131.0}}), "the server counted 16 and 81"),
        (
            a_record(*two(), counters={"before": {"prompt": 0.0, "generated": 0.0, "busy": 2.0}, "after": {}}),
            "the server was in use: 2 requests",
        ),
    ],
)
def test_what_makes_a_run_invalid(record: ServeRecord, words: str) -> None:
    assert any(words in one for one in problems(record)), problems(record)


def test_a_failure_in_a_hundred_is_allowed_but_not_in_a_comparison() -> None:
    requests = [a_request(at) for at in range(99)]
    record = a_record(*requests, a_request(99, failure="x", tokens=40))
    assert problems(record) == ()
    assert any("1 of 100 requests failed" in one for one in problems(record, compared=True))


def test_counters_are_needed_in_a_comparison_only() -> None:
    record = a_record(*two(), counters={"server": "", "before": {}, "after": {}})
    served = figures_of(record, ASKED)
    assert served.problems == () and "not cross-checked" in served.marks[0]
    assert any("no counters" in one for one in problems(record, compared=True))
    assert problems(record, compared=True, no_counters=True) == ()


def test_vllm_counts_cached_tokens_as_prompt_tokens_and_llama_server_does_not() -> None:
    requests = two(cached=4)
    grown = {"before": {"prompt": 0.0, "generated": 0.0}, "after": {"prompt": 16.0, "generated": 80.0}}
    vllm = figures_of(a_record(*requests, counters={"server": "vllm", **grown}), ASKED)
    llama = figures_of(a_record(*requests, counters={"server": "llama-server", **grown}), ASKED)
    assert (vllm.crossed.agree, llama.crossed.agree) == (True, False)


def test_a_shared_start_may_come_from_the_cache() -> None:
    assert problems(a_record(*two(cached=8)), prefix=8) == ()
    assert problems(a_record(*two(cached=6), shared=2)) == ()


def test_a_request_that_made_another_number_of_tokens_is_named() -> None:
    served = figures_of(a_record(*two(tokens_wanted=64)), ASKED)
    assert served.marks == ("request 0 made 40 tokens, not 64",)
    many = figures_of(a_record(*(a_request(at, prompt_wanted=9) for at in range(7))), ASKED)
    assert many.marks[0] == "request 0 had a prompt of 8 tokens, not 9"
    assert many.marks[-1] == "2 more requests had a prompt of a different number of tokens"


def test_without_the_servers_numbers_there_is_no_throughput() -> None:
    served = figures_of(a_record(*(a_request(at, tokens=40) for at in range(2))), ASKED)
    assert served.tps is not None
    unknown = [msgspec.structs.replace(one, tokens=None) for one in two()]
    served = figures_of(a_record(*unknown), ASKED)
    assert (served.tps, served.tokens, served.notebook) == (None, None, None)
    assert any("no throughput" in one for one in served.marks)


def test_goodput_counts_those_that_keep_every_bound() -> None:
    slow = a_request(1, times=tuple((300 + 10 * at) * MS for at in range(40)))
    served = figures_of(
        a_record(a_request(0), slow), LoadTerms(arrivals="closed", concurrency=2, prefix=0, slo={"ttft": 200})
    )
    assert served.good == 1 and served.goodput is not None and served.wall is not None
    assert served.goodput == pytest.approx(1 / served.wall)


@pytest.mark.parametrize(("gap", "limit"), [(1.0, 2.0), (25.0, 2.5), (100.0, 4.0), (None, 2.0)])
def test_the_lag_allowed_is_a_tenth_of_the_gap_within_bounds(gap: float | None, limit: float) -> None:
    assert lag_limit(spread([gap]) if gap is not None else None) == limit


@pytest.mark.parametrize("content", [b"", b"x", b"\x1f\x8b\x08\x00", b"{}"])
def test_a_damaged_record_is_told(content: bytes) -> None:
    with pytest.raises(NotHeldError, match="the record of the run is damaged"):
        read_record(content)
