"""The output of llama-perplexity, limits from noise, and the settings of the gate kl."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from patchstack.gates.kinds import kl
from patchstack.gates.kinds.kl import Limits
from patchstack.llama.kl import base_size, comparison_problem, positions_of, read_log, read_statistics
from patchstack.verdict import Verdict
from tests.support.gate_settings import read_settings
from tests.support.perplexity_tool import CAPTURED, LLAMA, PerplexityTool, statistics


@pytest.fixture
def tool(tmp_path: Path) -> PerplexityTool:
    return PerplexityTool(tmp_path)


# What is printed


def test_the_statistics_of_the_real_tool_are_read() -> None:
    found = read_statistics((CAPTURED / "kl.out").read_bytes())
    assert found is not None
    assert (found.mean, found.mean_error, found.maximum, found.percentiles["99.9%"]) == (
        2.02e-4,
        2e-5,
        1.357e-3,
        1.328e-3,
    )
    assert (found.same_top, found.same_top_error, found.rows, found.finite) == (97.884, 1.05, 3, True)
    assert found.percentiles["0.1%"] == found.minimum == -7e-6


def test_the_log_of_the_real_tool_is_read() -> None:
    log = read_log((CAPTURED / "perplexity.err").read_bytes())
    assert (log.chunks, log.context, log.batch, log.sequences, log.vocabulary) == (3, 128, 128, 1, 288)
    assert (log.complaints, log.estimate) == ((), 192263.1984)
    assert read_log((CAPTURED / "kl-no-base.err").read_bytes()).complaints == ("failed to open none.kl",)
    cut = read_log((LLAMA / "perplexity-cut-base.err").read_bytes())
    assert cut.complaints == ("failed reading log-probs for chunk 2",)


def test_statistics_that_lack_a_line_are_none() -> None:
    lines = (CAPTURED / "kl.out").read_text().splitlines(keepends=True)
    needed = ("Mean PPL(Q)  ", "Mean PPL(base)", "Same top p")
    wanted = [line for line in lines if "KLD:" in line or line.startswith(needed)]
    assert len(wanted) == 15
    for line in wanted:
        left = "".join(other for other in lines if other != line)
        assert read_statistics(left.encode()) is None, line
    assert read_statistics("".join(wanted).encode()) is not None


def test_the_size_of_a_base_is_that_of_the_real_ones() -> None:
    # as llama-perplexity wrote them: 4 chunks of 256, and 1, 3 and 4 of 128, with 288 tokens known
    assert base_size(4, 256, 288) == 300_788
    assert [base_size(chunks, 128, 288) for chunks in (1, 3, 4)] == [37_324, 111_932, 149_236]
    assert base_size(3, 128, 287) == base_size(3, 128, 288)
    assert positions_of(3, 128) == 189


# Calibration


def test_calibrated_limits_are_a_multiple_of_the_noise_or_of_what_could_be_seen() -> None:
    limits = kl.calibrated(statistics(mean=2e-4, mean_error=2e-5, same_top=99.0), 3, 1000)
    assert limits.mean == pytest.approx(6e-4)
    assert limits.same_top == pytest.approx(97)
    silent = kl.calibrated(statistics(mean=-1e-6, mean_error=0.0, same_top=100.0), 2, 200)
    assert silent.mean == pytest.approx(2e-6)
    assert silent.same_top == pytest.approx(99)


def test_noise_that_reaches_the_limits_is_invalid() -> None:
    assert kl.too_noisy(statistics(mean=1e-6, same_top=100.0), Limits()) is None
    for values in ({"mean": 2e-3, "same_top": 100.0}, {"mean": 0.0, "same_top": 99.0}, {"mean": math.nan}):
        assert "differs from itself" in (kl.too_noisy(statistics(**values), Limits()) or "")


def test_a_calibrated_gate_compares_the_base_with_itself_first_and_records_it(tool: PerplexityTool) -> None:
    judgement = tool.judged(limits=Limits(same_top=97), calibrate=1.0)
    assert tool.ran == ["base b.gguf", "test b.gguf", "test m.gguf"]
    assert judgement.verdict is Verdict.FAIL, "as large as the noise is not below it"
    noise = judgement.details["noise"]
    assert isinstance(noise, dict)
    assert (noise["factor"], noise["statistics"]["mean"]) == (1.0, 2.02e-4)
    assert tool.judged(limits=Limits(same_top=97), calibrate=3.0).verdict is Verdict.PASS
    noisy = tool.judged(calibrate=3.0)
    assert noisy.verdict is Verdict.INVALID
    assert "differs from itself" in noisy.reason


# Settings


def test_settings_are_read(tmp_path: Path) -> None:
    spec, problems = read_settings(
        kl,
        tmp_path,
        "base: a\nmodel: b\ntext: t.txt\ncontext: 256\nbatch: 256\nchunks: 4\nargs: [-t, '2']\nenv: {A: '1'}\n"
        "base_env: {A: '0'}\nmean: 0.01\nsame_top: 99\ncalibrate: 3\n",
    )
    assert problems == []
    comparison = spec.comparison
    assert (comparison.base.model.name, comparison.test.model.name, comparison.text) == ("a", "b", b"words")
    assert (comparison.context, comparison.batch, comparison.ubatch, comparison.chunks) == (256, 256, 256, 4)
    assert (comparison.base.env, comparison.test.env) == ((("A", "0"),), (("A", "1"),))
    assert comparison.base.args == comparison.test.args == ("-t", "2")
    assert (spec.limits, spec.calibrate) == (Limits(mean=0.01, same_top=99), 3)
    plain, problems = read_settings(kl, tmp_path, "base: a\nmodel: b\ntext: t.txt\n")
    assert problems == []
    assert (plain.limits, plain.calibrate, plain.comparison.chunks) == (Limits(mean=1e-3, same_top=99.5), None, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: a\ntext: t.txt", "base is missing"),
        ("base: a\nmodel: c\ntext: t.txt", "there is no model 'c'"),
        ("base: a\nmodel: a", "text is missing"),
        ("base: a\nmodel: a\ntext: none.txt", "none.txt cannot be read"),
        ("base: a\nmodel: a\ntext: t.txt\nbatch: 700", "neither below the context of 512 nor a multiple"),
        ("base: a\nmodel: a\ntext: t.txt\nubatch: 1024", "not from 1 to the batch"),
        ("base: a\nmodel: a\ntext: t.txt\ncontext: 64\nbatch: 64\nubatch: 64\nchunks: 2", "62 positions"),
        ("base: a\nmodel: a\ntext: t.txt\nmean: 0", "not a number above 0"),
        ("base: a\nmodel: a\ntext: t.txt\nmean: .nan", "not a number above 0"),
        ("base: a\nmodel: a\ntext: t.txt\nsame_top: 101", "up to 100"),
        ("base: a\nmodel: a\ntext: t.txt\ncalibrate: yes please", "not a number"),
        ("base: a\nmodel: a\ntext: t.txt\nargs: [-c, '64']", "the gate itself sets -c"),
        ("base: a\nmodel: a\ntext: t.txt\nchunk: 3", "perhaps you meant chunks"),
        (
            "base: a\nmodel: a\ntext: t.txt",
            "base and model do not differ, so a run would be compared with itself",
        ),
        ("base: a\nmodel: a\ntext: t.txt\nenv: {A: '1'}", "set one of model:, base_env:, base_build:"),
        ("base: a\nmodel: a\ntext: t.txt\nenv: {A: '1'}\nbase_env: {A: '1'}", "do not differ"),
        ("base: a\nmodel: a\ntext: t.txt\nargs: [-t, '1']\nbase_args: [-t, '1']", "do not differ"),
        ("base: a\nmodel: a\ntext: t.txt\nbase_env: {GGML_NO_BACKTRACE: '1'}", "do not differ"),
    ],
)
def test_wrong_settings_are_complained_about(tmp_path: Path, text: str, told: str) -> None:
    _, problems = read_settings(kl, tmp_path, text + "\n")
    assert any(told in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("context", "batch", "good"),
    [(512, 512, True), (512, 1024, True), (2048, 512, True), (512, 700, False), (4, 4, False)],
)
def test_batches_that_the_tool_would_not_take_are_refused(context: int, batch: int, good: bool) -> None:
    assert (comparison_problem(context, batch, batch, None) is None) == good
