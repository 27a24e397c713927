"""The gate kl, on real output of llama-perplexity."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchstack.errors import MissingError
from patchstack.gates.kinds import kl
from patchstack.gates.kinds.kl import Limits
from patchstack.llama.kl import Measured, read_statistics
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from patchstack.verdict import Verdict
from tests.support.perplexity_tool import CAPTURED, LLAMA, PERPLEXITY, PerplexityTool, statistics
from tests.support.programs import program

LOST = "its output was lost"


@pytest.fixture
def tool(tmp_path: Path) -> PerplexityTool:
    return PerplexityTool(tmp_path)


# Verdicts


def test_a_model_within_the_limits_passes_and_the_base_is_made_once(tool: PerplexityTool) -> None:
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.PASS, judgement
    assert "over 189 positions" in judgement.reason
    assert tool.judged(limits=Limits(same_top=97)).reason == judgement.reason
    assert tool.ran == ["base b.gguf", "test m.gguf"]
    assert judgement.actual == "mean KLD 0.0002 ± 2e-05, same top 97.884 ± 1.05 %"
    base = judgement.details["base"]
    assert isinstance(base, dict)
    assert base["bytes"] == 111_932
    (tool.root / "b.gguf").write_bytes(b"GGUF another")
    tool.judged(limits=Limits(same_top=97))
    assert tool.ran[2:] == ["base b.gguf", "test m.gguf"], "another model is another base"


def test_a_changed_limit_is_judged_anew_without_a_run(tool: PerplexityTool) -> None:
    assert tool.judged().verdict is Verdict.FAIL
    assert tool.judged(limits=Limits(mean=1e-4, same_top=90)).verdict is Verdict.FAIL
    assert tool.judged(limits=Limits(mean=1e-3, same_top=90)).verdict is Verdict.PASS
    assert len(tool.ran) == 2


def test_another_model_fails_with_its_figures(tool: PerplexityTool) -> None:
    tool.prints("test", CAPTURED / "kl-other")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.FAIL
    assert "the mean KL divergence is 12 ± 0.29, not below 0.001" in judgement.reason
    assert "the same at 1.587 ± 0.912 % of the positions, not at 99.5 %" in judgement.reason


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"mean": 9e-4, "same_top": 99.5}, Verdict.PASS),
        ({"mean": 1e-3, "same_top": 100.0}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 99.4}, Verdict.FAIL),
        ({"mean": -1e-6, "same_top": 100.0}, Verdict.PASS),
        ({"mean": math.nan, "same_top": 100.0}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 100.0, "perplexity": math.nan}, Verdict.FAIL),
        ({"mean": 0.0, "same_top": 100.0, "maximum": math.inf}, Verdict.FAIL),
    ],
)
def test_limits_are_the_notebooks(values: dict[str, float], verdict: Verdict) -> None:
    found = Measured(context=128, statistics=statistics(**values), positions=189)
    assert kl.verdict_of_measurement(found, Limits())[0] is verdict


def test_a_model_that_gives_nan_fails_and_the_document_is_json(tool: PerplexityTool) -> None:
    tool.prints("test", LLAMA / "perplexity-nan")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.FAIL
    assert "not numbers" in judgement.reason
    text = json.dumps(dict(judgement.details), allow_nan=False)
    assert '"mean": "nan"' in text


def test_nan_on_both_sides_which_the_tool_calls_a_divergence_of_zero_is_invalid(tool: PerplexityTool) -> None:
    tool.prints("test", LLAMA / "perplexity-both-nan")
    found = read_statistics((tool.root / "test.out").read_bytes())
    assert found is not None
    assert (found.mean, found.same_top) == (0.0, 100.0)
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the base gives no numbers" in judgement.reason


def test_a_base_of_nan_is_invalid_and_nothing_is_compared(tool: PerplexityTool) -> None:
    tool.prints("base", LLAMA / "perplexity-nan-base")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the base model gives no numbers" in judgement.reason
    assert tool.ran == ["base b.gguf"], "another try would not change it"


# What cannot be judged


@pytest.mark.parametrize(("side", "runs"), [("base", 3), ("test", 3)])
def test_lost_output_is_run_again_and_counted(tool: PerplexityTool, side: str, runs: int) -> None:
    (tool.root / f"{side}.once").touch()
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.PASS
    assert len(tool.ran) == runs
    assert [LOST in (attempt.complaint or "") for attempt in judgement.attempts].count(True) == 1


def test_output_that_is_always_lost_is_invalid_and_not_kept(tool: PerplexityTool) -> None:
    whole = (tool.root / "test.err").read_text()
    tool.edit("test.err", "|   - Host", "|   - H")
    judgement = tool.judged(limits=Limits(same_top=97))
    assert judgement.verdict is Verdict.INVALID
    assert LOST in judgement.reason
    assert len(tool.ran) == 3
    (tool.root / "test.err").write_text(whole)
    assert tool.judged(limits=Limits(same_top=97)).verdict is Verdict.PASS


def test_a_base_that_went_missing_is_made_again(tool: PerplexityTool) -> None:
    tool.judged(limits=Limits(same_top=97))
    (kept,) = tool.root.rglob("kl-*.base")
    kept.unlink()
    assert tool.judged(limits=Limits(same_top=97)).verdict is Verdict.PASS
    assert tool.ran.count("base b.gguf") == 2


def test_a_base_that_is_never_written_is_invalid_though_the_tool_exits_with_0(tool: PerplexityTool) -> None:
    program(
        tool.root / "bin",
        "llama-perplexity",
        PERPLEXITY.replace("ROOT", str(tool.root)).replace('cat size >"$base"', ":"),
    )
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "is missing" in judgement.reason


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (CAPTURED / "kl-no-base", "failed to open none.kl"),
        (LLAMA / "perplexity-cut-base", "failed reading log-probs for chunk 2"),
        (LLAMA / "perplexity-voc-base", "different vocabularies"),
        (CAPTURED / "kl", "it compared 2 chunks of 128 in batches of 128, 1 at once, but the base is 3 chunks"),
    ],
)
def test_a_comparison_without_a_good_base_is_invalid_though_the_tool_exits_with_0(
    tool: PerplexityTool, data: Path, told: str
) -> None:
    tool.prints("test", data)
    if "compared 2" in told:
        tool.edit("test.err", "over 3 chunks", "over 2 chunks")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert told in judgement.reason


def test_statistics_that_are_not_there_with_the_sentinel_are_invalid(tool: PerplexityTool) -> None:
    (tool.root / "test.out").write_text("")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the statistics are missing" in judgement.reason


def test_a_short_text_is_invalid_with_the_reason_and_is_not_tried_again(tool: PerplexityTool) -> None:
    line = "0.00.1 I perplexity: calculating perplexity over 3 chunks, n_ctx=128, batch_size=128, n_seq=1"
    text = (tool.root / "base.err").read_text()
    short = "0.00.1 E perplexity: you need at least 256 tokens to evaluate perplexity with a context of 128"
    assert line.partition(" I ")[2] in text
    (tool.root / "base.err").write_text(
        "\n".join(short if "calculating perplexity" in one else one for one in text.splitlines()) + "\n"
    )
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "the text is too short: you need at least 256 tokens" in judgement.reason
    assert tool.ran == ["base b.gguf"]


def test_fewer_chunks_than_asked_for_are_invalid(tool: PerplexityTool) -> None:
    judgement = tool.judged(chunks=8)
    assert judgement.verdict is Verdict.INVALID
    assert "it has 3 chunks of 128, not 8" in judgement.reason


def test_too_few_positions_are_invalid_before_anything_is_run(tool: PerplexityTool) -> None:
    judgement = tool.judged(chunks=1)
    assert judgement.verdict is Verdict.INVALID
    assert judgement.reason == "1 chunks of 128 tokens give 63 positions, but statistics need 100"
    assert tool.ran == []


def test_too_few_positions_in_all_of_the_text_are_invalid(tool: PerplexityTool) -> None:
    tool.edit("base.err", "over 3 chunks", "over 1 chunks")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "63 positions" in judgement.reason


@pytest.mark.parametrize(
    ("side", "code", "words", "verdict"),
    [
        ("test", 134, "GGML_ASSERT(x) failed", Verdict.FAIL),
        ("base", 134, "GGML_ASSERT(x) failed", Verdict.FAIL),
        ("test", 134, "CUDA error: out of memory", Verdict.INVALID),
        ("test", 137, "", Verdict.INVALID),
        ("test", 1, 'error while handling argument "-dev": invalid device: CUDA0', Verdict.INVALID),
        ("test", 1, "failed to load model", Verdict.INVALID),
    ],
)
def test_a_crash_is_a_fail_and_an_end_from_outside_is_invalid(
    tool: PerplexityTool, side: str, code: int, words: str, verdict: Verdict
) -> None:
    (tool.root / f"{side}.err").write_text(words + "\n")
    (tool.root / f"{side}.out").write_text("")
    (tool.root / f"{side}.code").write_text(str(code))
    assert tool.judged().verdict is verdict


def test_a_device_that_is_not_in_the_build_is_invalid_at_once(tool: PerplexityTool) -> None:
    (tool.root / "base.err").write_text('error while handling argument "-dev": invalid device: CUDA0\n')
    (tool.root / "base.code").write_text("1")
    judgement = tool.judged()
    assert judgement.verdict is Verdict.INVALID
    assert "invalid device: CUDA0" in judgement.reason
    assert tool.ran == ["base b.gguf"]


def test_a_crash_of_another_builds_programs_is_not_this_builds_fault(tool: PerplexityTool, tmp_path: Path) -> None:
    program(tmp_path / "old", "llama-perplexity", PERPLEXITY.replace("ROOT", str(tmp_path)) + "# the old build\n")
    (tool.root / "base.code").write_text("134")
    assert tool.judged(base_build=str(tmp_path / "old")).verdict is Verdict.INVALID


def test_the_base_of_another_build_is_another_base(tool: PerplexityTool, tmp_path: Path) -> None:
    program(tmp_path / "old", "llama-perplexity", PERPLEXITY.replace("ROOT", str(tmp_path)) + "# the old build\n")
    names = []
    for build in (None, str(tmp_path / "old"), str(tmp_path / "old")):
        base = tool.judged(base_build=build).details["base"]
        assert isinstance(base, dict)
        names.append(base["kept"])
    assert names[0] != names[1] == names[2]
    assert tool.ran == ["base b.gguf", "test m.gguf"] * 2


def test_everything_a_base_is_made_from_is_in_its_name(tool: PerplexityTool) -> None:
    def kept(**settings: Any) -> Any:
        base = tool.judged(**settings).details["base"]
        assert isinstance(base, dict)
        return base["kept"]

    side = tool.spec().comparison.base
    others: list[dict[str, Any]] = [
        {"text": b"other"},
        {"context": 256, "batch": 128},
        {"batch": 64, "ubatch": 64},
        {"ubatch": 64},
        {"chunks": 3},
        {"base": replace(side, args=("-t", "1"))},
        {"base": replace(side, env=(("GGML_X", "1"),))},
        {"base": replace(side, model=Model(name="base", path=str(tool.root / "m.gguf")))},
    ]
    names = [kept(), *(kept(**other) for other in others)]
    assert len(set(names)) == len(names)
    assert kept(tries=1, seconds=99) == names[0]


def test_a_missing_model_is_an_error_with_a_hint(tool: PerplexityTool) -> None:
    (tool.root / "b.gguf").unlink()
    with pytest.raises(MissingError, match=r"model base is not at .*b\.gguf"):
        tool.judged()


class Sized(Runner):
    """A bench that knows the size of a kept file."""

    def size_of(self, kept: str) -> int | None:
        found = list(Path(self.memory).parent.rglob(kept))
        return found[0].stat().st_size if found else None


def test_a_base_of_another_size_than_it_must_have_is_invalid_and_made_again(tool: PerplexityTool) -> None:
    plain = tool.bench()
    with Sized(
        plain.engine, plain.files, observations=plain.observations, memory=plain.memory, context=plain.context
    ) as bench:
        (tool.root / "size").write_bytes(b"half")
        judgement = kl.run(tool.spec(), bench)
        assert judgement.verdict is Verdict.INVALID
        assert "the base has 4 bytes, not 111932: is the disk full?" in judgement.reason
        (tool.root / "size").write_bytes(bytes(111_932))
        assert kl.run(tool.spec(limits=Limits(same_top=97)), bench).verdict is Verdict.PASS
        (kept,) = tool.root.rglob("kl-*.base")
        kept.write_bytes(b"cut")
        assert kl.run(tool.spec(limits=Limits(same_top=97)), bench).verdict is Verdict.PASS
        assert kept.stat().st_size == 111_932, "what was cut short later is made again"
