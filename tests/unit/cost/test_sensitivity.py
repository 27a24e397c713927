"""Elasticities and ranges of each result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.cost.floors import Workload
from patchstack.cost.memory import Loaded
from patchstack.cost.sensitivity import (
    Result,
    decode_result,
    elasticities,
    memory_result,
    prefill_result,
    state_result,
    vary,
    weights_result,
)
from patchstack.cost.ssm import LayerMemory
from patchstack.errors import UsageError
from tests.support.cost_models import workload
from tests.support.gguf_header import hybrid_35b

PEAKS = {"int8": 1e15, "fp16": 5e14, "fp32": 5e13}


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    return workload(tmp_path / "model.gguf", hybrid_35b(vocab=1024), "-np", "4", "-c", "32768")


def found(result: Result) -> dict[str, float]:
    listed = elasticities(result)
    assert [abs(one.value) for one in listed] == sorted((abs(one.value) for one in listed), reverse=True)
    assert {one.result for one in listed} == {result.name}
    return {one.name: one.value for one in listed}


def memory_of(work: Workload) -> Result:
    return memory_result([Loaded(layout=work.layout, options=work.options, weights=10**9)])


def prompt_of(work: Workload, peaks: dict[str, float]) -> Result:
    result = prefill_result(work, 2048, 0, 273e9, peaks)
    assert result is not None
    return result


def test_bytes_have_their_share_and_bandwidth_takes_all_of_it_back(work: Workload) -> None:
    values = found(decode_result(work, 8, 4096, 273e9))
    assert values["bandwidth"] == pytest.approx(-1)
    assert sum(value for name, value in values.items() if name.startswith("bytes of")) == pytest.approx(1)
    assert values["context"] == pytest.approx(values["bytes of KV read"], rel=0.01)


def test_a_prompt_that_memory_bounds_depends_on_bandwidth_and_one_that_arithmetic_bounds_on_peaks(
    work: Workload,
) -> None:
    memory = found(prompt_of(work, dict.fromkeys(PEAKS, 1e20)))
    assert memory["bandwidth"] == pytest.approx(-1)
    assert memory["peak int8"] == 0
    assert memory["prompt"] == pytest.approx(1, abs=0.1)
    assert memory["ubatch"] == pytest.approx(-1, abs=0.1)
    compute = found(prompt_of(work, dict.fromkeys(PEAKS, 1e9)))
    assert compute["bandwidth"] == 0
    assert sum(value for name, value in compute.items() if name.startswith("peak")) == pytest.approx(-1, abs=0.01)
    assert not [name for name in compute if name.startswith("bytes of")]


def test_a_prompt_has_no_elasticity_without_its_peaks(work: Workload) -> None:
    assert prefill_result(work, 2048, 0, 273e9, {"int8": 1e15}) is None


def test_memory_grows_with_the_share_of_its_caches(work: Workload) -> None:
    values = found(memory_of(work))
    assert values["context"] == pytest.approx(values["bytes of KV"], rel=0.02)
    assert values["slots"] == pytest.approx(
        values["bytes of state"], rel=0.15
    )  # the context is divided, states are not
    assert sum(value for name, value in values.items() if name.startswith("bytes of")) == pytest.approx(1)


def test_weights_grow_less_than_their_tokens(work: Workload) -> None:
    result = weights_result(work.placed, work.routing, 8, drafting=False)
    values = found(result)
    assert 0 < values["tokens"] < 1
    rows = vary([result], "tokens=1..512")
    assert [one.value for one in rows] == [1, 129, 256, 384, 512]
    assert [one.amount for one in rows] == sorted(one.amount for one in rows)


def test_the_state_depends_on_its_threshold_as_a_staircase(work: Workload) -> None:
    memories = [LayerMemory(layer=0, tau=(1.0, 10.0, 99.0, 101.0))]
    result = state_result(memories, work.layout, 100.0, 2, 1e12)
    values = found(result)
    assert values["threshold"] < 0
    assert values["bandwidth"] == pytest.approx(-1)
    assert values["streams"] == pytest.approx(1)
    assert "threshold" not in found(state_result(memories, work.layout, 0.0, 2, 1e12))
    assert vary([result], "threshold=0..200")[0].amount > vary([result], "threshold=0..200")[-1].amount


def test_a_range_goes_over_every_result_that_has_the_input(work: Workload) -> None:
    results = [decode_result(work, 8, 4096, 273e9), prompt_of(work, PEAKS), memory_of(work)]
    rows = vary(results, "bandwidth=200..300")
    assert [one.value for one in rows[:5]] == pytest.approx([200e9, 225e9, 250e9, 275e9, 300e9])
    assert len({one.result for one in rows}) == 2
    assert rows[0].amount / rows[4].amount == pytest.approx(1.5)
    assert [one.value for one in vary(results, "streams=1..5")] == [1, 2, 3, 4, 5]
    assert [one.value for one in vary(results, "slots=1..2")] == [1, 2]
    assert vary(results, "peak int8=1..2 POP/s")[0].value == 1e15
    assert vary(results, "context=0..1024")[0].value == 0


@pytest.mark.parametrize(
    "text",
    [
        "bandwidth",
        "bandwidth=300..200",
        "bandwidth=0..200",
        "colour=1..2",
        "streams=0..5",
        "streams=1..1e9",
        "context=1..2 GB",
        "bandwidth=1..2 MiB",
        "bandwidth=1..2..3",
        "slots=1..257",
    ],
)
def test_a_range_that_is_none_is_refused(work: Workload, text: str) -> None:
    with pytest.raises(UsageError):
        vary([decode_result(work, 1, 0, 1e9), memory_of(work)], text)


def test_a_range_of_an_unknown_input_names_those_that_exist(work: Workload) -> None:
    with pytest.raises(UsageError) as caught:
        vary([memory_of(work)], "bandwidth=200..300")
    assert caught.value.hint == "write INPUT=LOW..HIGH, for example context=256..65536; the inputs are context, slots"


@pytest.mark.parametrize("make", [memory_of, lambda work: prompt_of(work, PEAKS)])
def test_looking_at_a_result_changes_nothing_of_it(work: Workload, make: Callable[[Workload], Result]) -> None:
    result = make(work)
    before = result.amount(result.now)
    elasticities(result)
    assert result.amount(result.now) == before
