"""Files of measured times: documents of bench, rows of llama-batched-bench, and files that are neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from patchstack.bench.kinds.batched import arguments_of, row_names
from patchstack.errors import MissingError, PatchstackError, UsageError
from patchstack.report.cost import serve_runs
from patchstack.report.cost.runs import read_runs
from patchstack.report.documents import serve
from patchstack.report.documents.bench import BenchDocument, BenchRow, BenchSide
from patchstack.report.documents.cost import CostDocument

SHAPES = [(pp, 128, pl) for pp in (128, 512) for pl in (8, 32)]


def bench_row(name: str, a: float | None, b: float | None, unit: str = "t/s", better: str = "higher") -> BenchRow:
    return BenchRow(
        name=name,
        primary=True,
        margin=0.01,
        guard_margin=0.03,
        unit=unit,
        better=better,
        a=a,
        b=b,
        estimate=None,
        low=None,
        high=None,
        shown=(),
        e_values={},
        needed=None,
    )


def document(program: str, args: tuple[str, ...], *rows: BenchRow) -> BenchDocument:
    side = BenchSide(label="build", key=None, programs="0" * 64, env={})
    return BenchDocument(
        comparison="c" * 12,
        outcome="keep",
        reason="",
        decided=9,
        demand=None,
        demand_met=None,
        unplanned="",
        noise=False,
        machine="host",
        engine="host",
        made="2026-01-01T00:00:00Z",
        workload="decode",
        program=program,
        args=args,
        models={"tiny": "ab" * 32},
        a=side,
        b=side,
        reference=None,
        alpha=0.05,
        most=48,
        seed=1,
        counted=9,
        thrown=0,
        rows=rows,
        pairs=(),
    )


def batched(*rows: BenchRow, more: tuple[str, ...] = ()) -> BenchDocument:
    return document("llama-batched-bench", ("-m", "{model:tiny}", "-ngl", "99", *more, *arguments_of(SHAPES)), *rows)


def write(path: Path, *documents: BenchDocument) -> Path:
    path.write_text("".join(one.line + "\n" for one in documents))
    return path


def test_rows_of_a_comparison_are_times_of_both_sides(tmp_path: Path) -> None:
    prefill, decode = row_names((512, 128, 32), SHAPES)
    found = read_runs(
        write(tmp_path / "ab.json", batched(bench_row(decode, 1000, 2000), bench_row(prefill, 5000, None)))
    )
    slow, fast, prompt = found.rows
    assert (slow.source, fast.source, prompt.source) == ("ab.json A", "ab.json B", "ab.json A")
    assert (slow.prompt, slow.generated, slow.streams) == (512, 128, 32)
    assert slow.decode_seconds == pytest.approx(128 * 32 / 1000)
    assert fast.decode_seconds == pytest.approx(128 * 32 / 2000)
    assert slow.prefill_seconds is None
    assert prompt.prefill_seconds == pytest.approx(512 * 32 / 5000)
    assert found.assumptions == (
        "Speeds of ab.json are medians of 9 pairs; a single run may be faster.",
        "ab.json measured the model with sha256 abababababab. MODEL is assumed to be the same model.",
    )


def test_the_options_of_the_run_are_those_of_its_arguments(tmp_path: Path) -> None:
    _, decode = row_names((512, 128, 32), SHAPES)
    one = batched(bench_row(decode, 1000, 2000), more=("-ctk", "q8_0", "-pps", "--frobnicate", "3"))
    found = read_runs(write(tmp_path / "ab.json", one), ["-ctk", "f32", "-ctv", "q8_0"])
    options = found.rows[0].options
    assert options is not None
    assert (options.key_type.name, options.value_type.name, options.ubatch) == ("q8_0", "q8_0", 512)
    assert found.rows[0].shared
    assert found.assumptions[-1] == "These options of ab.json were not understood: --frobnicate 3."


def test_a_row_of_llama_bench_is_one_sequence_after_its_depth(tmp_path: Path) -> None:
    args = ("-m", "{model:tiny}", "-ngl", "99", "-r", "1", "-p", "512", "-n", "128", "-o", "jsonl", "-d", "4096")
    one = document("llama-bench", args, bench_row("pp512", 1024, None), bench_row("tg128", 64, None))
    prompt, decode = read_runs(write(tmp_path / "ab.json", one)).rows
    assert (prompt.before, prompt.prompt, prompt.prefill_seconds, prompt.streams) == (4096, 512, 0.5, 1)
    assert (decode.before, decode.prompt, decode.generated, decode.decode_seconds) == (4096, 0, 128, 2.0)


def test_documents_and_rows_may_be_in_one_file_and_a_document_over_several_lines(tmp_path: Path) -> None:
    _, decode = row_names((512, 128, 32), SHAPES)
    one = batched(bench_row(decode, 1000, 2000))
    plain = '{"pp": 512, "tg": 128, "pl": 8, "t_pp": 9.0, "t_tg": 12.8}'
    (tmp_path / "both").write_text(f"noise\n{one.line}\n{plain}\n")
    assert [row.source for row in read_runs(tmp_path / "both").rows] == ["both A", "both B", "both:3"]
    (tmp_path / "wide").write_bytes(one.indented)
    assert len(read_runs(tmp_path / "wide").rows) == 2


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (document("test-backend-ops", ("perf",), bench_row("MUL_MAT", 9, 9, "us", "lower")), "have no floor"),
        (batched(bench_row("decode x4096", 1, 1)), "no row with a floor"),
        (batched(bench_row(row_names(SHAPES[0], SHAPES)[1], 9, 9, "us", "lower")), "no row with a floor"),
        (batched(bench_row(row_names(SHAPES[0], SHAPES)[1], None, None)), "no row with a floor"),
    ],
)
def test_a_comparison_without_a_floor_is_missing_one(tmp_path: Path, one: BenchDocument, said: str) -> None:
    with pytest.raises(MissingError, match=said):
        read_runs(write(tmp_path / "ab.json", one))


def test_damaged_and_other_documents_are_refused_with_their_line(tmp_path: Path) -> None:
    _, decode = row_names(SHAPES[0], SHAPES)
    path = write(tmp_path / "ab.json", batched(bench_row(decode, -1, 1)))
    with pytest.raises(UsageError, match=r"ab\.json:1: the speed of .* on side A is not above 0: -1 t/s"):
        read_runs(path)
    with pytest.raises(UsageError, match="-npl 'x' is not a list of whole numbers"):
        read_runs(write(path, replace(batched(bench_row(decode, 1, 1)), args=("-npp", "1", "-ntg", "1", "-npl", "x"))))
    path.write_text(CostDocument().line)
    with pytest.raises(UsageError, match=r"ab\.json:1: a patchstack\.cost/1 document has no times"):
        read_runs(path)
    path.write_text('{"schema": "patchstack.bench/1"}')
    with pytest.raises(UsageError, match=r"ab\.json:1: not a patchstack\.bench/1 document"):
        read_runs(path)
    with pytest.raises(MissingError, match="does not exist"):
        read_runs(tmp_path / "nothing")
    for other in (tmp_path, Path("/dev/zero")):
        with pytest.raises(UsageError, match="is not a file"):
            read_runs(other)


SERVED: dict[str, Any] = {
    "schema": "patchstack.serve/1",
    "url": "http://127.0.0.1:8080/v1/completions",
    "valid": True,
    "problems": [],
    "concurrency": 4,
    "cached": 0,
    "steady": {"begin": 2.0, "end": 4.5, "tokens": 100, "tps": 40.0, "problem": ""},
    "answers": [
        {"number": 0, "sent": 0.0, "first": 0.5, "last": 4.5, "prompt": 139, "tokens": 41, "chunks": 41},
        {"number": 1, "sent": 0.0, "first": 1.0, "last": 4.0, "prompt": 128, "tokens": 41, "chunks": 41},
        {"number": 2, "sent": 0.0, "first": 1.0, "last": 1.1, "prompt": 128, "tokens": 41, "chunks": 2},
    ],
    "load": [{"at": 0.0, "waiting": 4, "decoding": 0}, {"at": 2.0, "waiting": 0, "decoding": 3}],
    "server": None,
}


def served(path: Path, **changed: Any) -> Path:
    path.write_text(json.dumps(SERVED | changed))
    return path


def test_a_served_run_has_a_steady_step_and_its_fastest_requests(tmp_path: Path) -> None:
    steady, decode, first = read_runs(served(tmp_path / "run.json")).rows
    assert (steady.streams, steady.prompt, steady.decode_seconds) == (3, 128, 3 / 40)
    assert (decode.prompt, decode.generated, decode.decode_seconds) == (128, 40, 3.0)  # not the one of two chunks
    assert (first.prompt, first.prefill_seconds) == (139, 0.5)


def test_drafted_tokens_come_several_a_step(tmp_path: Path) -> None:
    server = {"programs": "", "args": ["--spec-type", "ngram-simple", "--spec-draft-n-max", "4"]}
    steady, first = read_runs(served(tmp_path / "run.json", server=server)).rows
    assert steady.decode_seconds == 3 * 5 / 40
    assert first.decode_seconds is None


@pytest.mark.parametrize(
    ("cached", "said"), [(7, "7 prompt tokens were cached"), (None, "the number of cached prompt tokens is unknown")]
)
def test_first_tokens_after_a_cache_have_no_floor(tmp_path: Path, cached: int | None, said: str) -> None:
    found = read_runs(served(tmp_path / "run.json", cached=cached))
    assert [row.prefill_seconds for row in found.rows] == [None, None]
    assert said in found.assumptions[-1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"valid": False, "problems": ["the client was the bottleneck"]}, "INVALID: the client was the bottleneck"),
        ({"answers": []}, "no request was answered"),
        ({"answers": [SERVED["answers"][0] | {"prompt": None}]}, "no time with a floor"),
    ],
)
def test_a_served_run_that_says_nothing_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(MissingError, match=said):
        read_runs(served(tmp_path / "run.json", **changed))


def test_a_damaged_served_run_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run\.json:1: not a patchstack\.serve/1 document"):
        read_runs(served(tmp_path / "run.json", answers=[{"sent": "x"}]))


@pytest.mark.parametrize(
    ("read", "whole"),
    [
        (serve_runs.ServeTimes, serve.ServeDocument),
        (serve_runs.Steady, serve.ServeSteady),
        (serve_runs.Answer, serve.ServeRequest),
        (serve_runs.Load, serve.ServeLoad),
        (serve_runs.Server, serve.ServeServer),
    ],
)
def test_what_is_read_of_a_served_run_is_what_its_document_has(
    read: type[msgspec.Struct], whole: type[msgspec.Struct]
) -> None:
    assert set(read.__struct_fields__) <= set(whole.__struct_fields__)
    assert serve.ServeDocument.schema() == serve_runs.SCHEMA


@given(cut=st.integers(0, 3000), byte=st.integers(0, 255), keep=st.booleans())
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, cut: int, byte: int, keep: bool
) -> None:
    _, decode = row_names(SHAPES[0], SHAPES)
    data = batched(bench_row(decode, 1000, 2000)).line.encode()
    at = cut % len(data)
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(data[:at] + bytes([byte]) + (data[at + 1 :] if keep else b""))
    try:
        assert read_runs(path).rows
    except PatchstackError as error:
        assert str(error)
