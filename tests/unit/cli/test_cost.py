"""`patchstack cost` from the command line: exit codes, documents, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.gguf_header import Shape, hybrid_35b, write_shape


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the shape of a hybrid of experts. It is outside the watched directories, because its hole has 20 GB."""
    return str(write_shape(tmp_path_factory.mktemp("model") / "model.gguf", *hybrid_35b(vocab=1000)))


@pytest.fixture
def unknown(tmp_path: Path) -> str:
    """Return a model of an unknown architecture."""
    keys = {"general.architecture": "newest", "newest.vocab_size": 8}
    return str(write_shape(tmp_path / "unknown.gguf", keys, [Shape("blk.0.attn_q.weight", (32, 2), "q8_0")]))  # type: ignore[arg-type]  # text and numbers


def test_every_question_is_answered_with_a_document(run_cli: RunCli, model: str) -> None:
    sections = {
        ("weights", model): "weights",
        ("decode", model, "--machine", "gb10"): "decode",
        ("prefill", model, "--bandwidth", "273 GB/s"): "prefill",
        ("memory", model, "--memory", "96 GiB", "--", "llama-server", "-c", "8192", "-np", "2"): "memory",
        ("compare", model, "--machine", "gb10", "--part", "head=9s"): "compared",
        ("report", model, "--machine", "h200"): "prefill",
    }
    for command, section in sections.items():
        ran = run_cli("cost", command[0], "--json", *command[1:])
        assert ran.code == 0, ran
        assert ran.document["schema"] == "patchstack.cost/1"
        assert ran.document[section], command
        assert run_cli("cost", *command).code == 0


def test_an_unknown_architecture_has_weights_and_exits_with_3_for_memory(run_cli: RunCli, unknown: str) -> None:
    assert run_cli("cost", "weights", unknown).code == 0
    assert "unknown for this architecture" in run_cli("cost", "report", unknown, "--machine", "gb10").stdout
    ran = run_cli("cost", "memory", unknown)
    assert ran.code == 3
    assert "the memory layout of the architecture 'newest' is unknown" in ran.stderr


def test_a_time_below_its_floor_exits_with_4_and_names_the_bound(run_cli: RunCli, model: str) -> None:
    ran = run_cli("cost", "compare", model, "--machine", "gb10", "--part", "experts=43.5ms@128")
    assert ran.code == 4
    assert "INVALID" in ran.stdout
    assert "at most 168 of 256 experts were read" in ran.stdout


def test_a_floor_without_a_bandwidth_says_what_to_give(run_cli: RunCli, model: str) -> None:
    ran = run_cli("cost", "decode", model)
    assert ran.code == 2
    assert "hint: give --machine NAME (see 'patchstack cost machines') or --bandwidth '273 GB/s'" in ran.stderr


def test_an_option_of_the_server_that_is_not_understood_is_named(run_cli: RunCli, model: str) -> None:
    ran = run_cli("cost", "memory", model, "--", "llama-server", "--frobnicate", "3")
    assert ran.code == 0
    assert "unknown  --frobnicate 3" in ran.stdout


def test_a_shape_of_a_shape_is_the_same(run_cli: RunCli, model: str) -> None:
    shape = Path(model).with_name("shape.gguf")
    ran = run_cli("cost", "shape", model, "-o", str(shape))
    assert ran.code == 0
    assert shape.stat().st_blocks * 512 < shape.stat().st_size / 100
    assert (
        run_cli("cost", "weights", str(shape), "--json").document["weights"]
        == (run_cli("cost", "weights", model, "--json").document["weights"])
    )
    assert run_cli("cost", "shape", model, "-o", model).code == 2


def test_a_page_is_written(run_cli: RunCli, model: str) -> None:
    page = Path(model).with_name("page.html")
    assert run_cli("cost", "memory", model, "--html", str(page), "--", "-c", "4096").code == 0
    assert "<svg" in page.read_text(encoding="utf-8")


def test_an_agents_steps_are_told_from_timings_alone(run_cli: RunCli, model: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    steps = ((3003, 2230), (5229, 2250), (947, 6741))
    lines = [
        f'{{"timings": {{"cache_n": {cached}, "prompt_n": {more}, "prompt_ms": {more * 26}}}}}'
        for cached, more in steps
    ]
    log.write_text("\n".join(lines))
    ran = run_cli("cost", "prefix", str(log), "--model", model, "--json")
    assert ran.code == 0
    found = ran.document["prefix"]
    shares = [round(one["cached_tokens"] / one["total_tokens"], 2) for one in found["steps"]]
    assert shares == [0.57, 0.7, 0.12]
    assert found["processed_tokens"] == 2230 + 2250 + 6741
    ways = {one["way"]: one for one in found["ways"]}
    assert ways["no cache"]["processed_tokens"] == 5233 + 7479 + 7688
    assert ways["append-only"]["processed_tokens"] == 2230 + 2 * 2246
    assert ways["append-only"]["seconds"] == pytest.approx((2230 + 2 * 2246) * 0.026)


def test_the_machines_are_listed_with_their_sources(run_cli: RunCli) -> None:
    assert "NVIDIA DGX Spark data sheet, as third parties quote it" in run_cli("cost", "machines").stdout
    assert len(run_cli("cost", "machines", "--json").documents) == 3


@pytest.mark.parametrize(
    ("command", "result", "first"),
    [
        (("decode", "--machine", "gb10", "--vary", "bandwidth=200..300"), "decode step, 1 × 0 tokens", "bandwidth"),
        (("prefill", "--machine", "h200", "--vary", "ubatch=128..1024"), "prompt of 2,048 tokens", "bandwidth"),
        (("weights", "--vary", "tokens=1..512"), "weights read in a step", "tokens"),
        (("memory", "--vary", "slots=1..64"), "memory of the device", "bytes of weights"),
    ],
)
def test_a_range_of_an_input_is_shown_with_all_elasticities(
    run_cli: RunCli, model: str, command: tuple[str, ...], result: str, first: str
) -> None:
    found = run_cli("cost", command[0], model, *command[1:], "--json").document
    assert (
        {one["result"] for one in found["elasticities"]} == {one["result"] for one in found["variations"]} == {result}
    )
    assert first in [one["input"] for one in found["elasticities"]][:4]
    assert len(found["variations"]) == 5
    assert "elasticities" in run_cli("cost", command[0], model, *command[1:]).stdout


def test_a_report_varies_every_result_that_has_the_input(run_cli: RunCli, model: str) -> None:
    found = run_cli("cost", "report", model, "--machine", "h200", "--vary", "bandwidth=4..5 TB/s", "--json").document
    assert {one["result"] for one in found["variations"]} == {"decode step, 1 × 4,096 tokens", "prompt of 2,048 tokens"}
    assert len({one["result"] for one in found["elasticities"]}) == 4
    assert run_cli("cost", "report", model, "--vary", "slots=1..8").code == 0


def test_a_range_of_no_input_names_the_inputs(run_cli: RunCli, model: str) -> None:
    ran = run_cli("cost", "memory", model, "--vary", "bandwidth=1..2")
    assert ran.code == 2
    assert "hint: write INPUT=LOW..HIGH, for example context=" in ran.stderr
    assert "; the inputs are context, slots" in ran.stderr
    ran = run_cli("cost", "prefill", model, "--machine", "gb10", "--vary", "prompt=1..2")
    assert ran.code == 3
    assert "the machine file has no peak for fp16, fp32, int8" in ran.stderr


def test_a_step_with_a_draft_model_says_what_it_takes_for_granted(run_cli: RunCli, model: str) -> None:
    server = ("--", "llama-server", "-md", model, "--spec-draft-n-max", "2")
    ran = run_cli("cost", "decode", model, "--machine", "gb10", *server)
    assert ran.code == 0
    assert "2 tokens drafted for each stream, and all accepted" in " ".join(ran.stdout.split())
    found = run_cli("cost", "decode", model, "--machine", "gb10", "--json", *server).document["decode"][0]
    assert "draft model" in [one["group"] for one in found["parts"]]
