"""Each kind of workload: its program, and the figures it reads, from outputs of real tools if available."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchstack.bench.declare import Declared, chosen_workload
from patchstack.bench.registry import KINDS, PRESETS
from patchstack.bench.workload import Figures
from patchstack.engine.protocol import Ending
from patchstack.errors import UsageError
from patchstack.observe.protocol import Observation


def declared(name: str, *settings: str, model: str | None = "m.gguf") -> Declared:
    return chosen_workload(name, None, model=model, settings=settings)


def read(found: Declared, stdout: str) -> Figures | str:
    seen = Observation(key="", ending=Ending.EXITED, code=0, stdout=stdout.encode(), stderr=b"", seconds=1.0)
    return KINDS[found.kind]().read(found.workload, seen)


def row(pp: int, tg: int, pl: int, t_pp: float = 0.5, t_tg: float = 2.0) -> str:
    speeds = {"speed_pp": pp * pl / t_pp, "speed_tg": tg * pl / t_tg, "t": t_pp + t_tg, "speed": 1.0}
    return json.dumps({"pp": pp, "tg": tg, "pl": pl, "n_kv": pl * (pp + tg), "t_pp": t_pp, "t_tg": t_tg, **speeds})


def test_the_presets_are_those_of_the_notebook() -> None:
    prefill, decode = (declared(name) for name in ("prefill", "decode"))
    assert " ".join(prefill.workload.args).endswith(
        "-c 65664 -b 2048 -ub 512 -npp 512,2048 -ntg 4 -npl 32 --output-format jsonl -lv 4 --perf"
    )
    assert "-npp 128 -ntg 128 -npl 8,32,64,128" in " ".join(decode.workload.args)
    assert [one.name for one in prefill.rows] == ["prefill 512 x32", "prefill 2048 x32"]
    assert [one.name for one in decode.rows] == ["decode x8", "decode x32", "decode x64", "decode x128"]
    assert all(one.primary for one in (*prefill.rows, *decode.rows))
    assert set(PRESETS) == {"prefill", "decode"}


def test_guards_and_margins_are_chosen_by_pattern() -> None:
    found = declared("batched", "npl=4", "guard=prefill *", "margin=0.05", "guard_margin=0.1")
    assert [(one.name, one.primary, one.margin, one.guard_margin) for one in found.rows] == [
        ("prefill x4", False, 0.05, 0.1),
        ("decode x4", True, 0.05, 0.1),
    ]


def test_batched_reads_every_row_and_refuses_a_lost_one() -> None:
    found = declared("batched", "npp=16", "ntg=32", "npl=4,8")
    both = f"{row(16, 32, 4)}\n{row(16, 32, 8)}\n"
    assert read(found, both) == {"prefill x4": 128, "decode x4": 64, "prefill x8": 256, "decode x8": 128}
    assert read(found, row(16, 32, 4)) == "1 of 2 rows are missing, the first is the row pp=16, tg=32, pl=8"
    assert read(found, both + row(16, 32, 8)) == "the row pp=16, tg=32, pl=8 occurs 2 times"


def test_the_reference_of_batched_is_a_short_fixed_shape() -> None:
    large, small = declared("decode").workload, declared("batched", "npp=16", "ntg=32", "npl=4").workload
    shapes = [KINDS["batched"]().reference(one).reading["shapes"] for one in (large, small)]  # type: ignore[union-attr]
    assert shapes == [[[128, 32, 8]], [[16, 32, 4]]]


def bench_row(**changes: Any) -> str:
    return json.dumps({"n_prompt": 512, "n_gen": 0, "avg_ts": 1024.0, "samples_ns": [500_000_000], **changes})


def test_llama_bench_is_held_to_its_samples() -> None:
    found = declared("llama-bench", "generated_tokens=32")
    other = bench_row(n_prompt=0, n_gen=32, avg_ts=64.0)
    assert read(found, f"{bench_row()}\n{other}") == {"pp512": 1024.0, "tg32": 64.0}
    assert read(found, bench_row()) == "1 of 2 rows are missing, the first is tg32"
    assert "contradicts itself: avg_ts is 1034" in str(read(found, bench_row(avg_ts=1034.0)))
    assert "has 2 samples" in str(read(found, bench_row(samples_ns=[1, 2])))
    assert "is not a row" in str(read(found, bench_row(avg_ts=None)))


OPS = """  ADD(type=f32,ne=[1]):      852 runs -  1175.31 us/run -       24 kB/run -    1.20 GB/s
  ADD(type=f32,ne=[2]):      852 runs -    24.69 us/run - 117.44 MFLOP/run -  99.92 GFLOPS
"""


def test_ops_counts_its_cases() -> None:
    found = declared("ops", "op=ADD", "backend=CPU", "cases=2", model=None)
    assert found.workload.better == "lower"
    assert read(found, OPS) == {"ADD": 1200.0}
    assert read(found, OPS.splitlines()[0]) == "1 cases ran instead of 2"
    assert "was found twice" in str(read(found, OPS + OPS))
    assert read(found, "Skipping CUDA0\nOK\n") == "0 cases ran instead of 2"


@pytest.mark.parametrize(
    "settings",
    [
        ("args=-b", "args=512", "args=--no-mmap"),
        ('args=["-b", "512", "--no-mmap"]',),
        ("args=-b", 'args=["512","--no-mmap"]'),
    ],
)
def test_arguments_are_given_one_by_one_or_as_a_list(settings: tuple[str, ...]) -> None:
    assert declared("llama-bench", *settings).workload.args[-3:] == ("-b", "512", "--no-mmap")


@pytest.mark.parametrize("text", ["[1]", "[", "[]x", '["-b", 512]'])
def test_a_list_of_other_things_than_texts_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a JSON array of strings") as raised:
        declared("llama-bench", f"args={text}")
    assert raised.value.hint == """for example: --set args='["-b","512"]'"""


def test_a_pattern_that_begins_with_a_bracket_is_no_list() -> None:
    assert [row.name for row in declared("batched", "npl=4", "primary=[d]ecode *").rows if row.primary] == ["decode x4"]


def test_a_workload_without_what_it_needs_is_named() -> None:
    with pytest.raises(UsageError, match="workload ops needs --set op=VALUE and --set backend=VALUE"):
        declared("ops", model=None)
