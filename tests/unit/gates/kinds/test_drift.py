"""The gate drift: one failing context fails it, and a growing divergence is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import drift, kl
from patchstack.gates.kinds.kl import Checked, KlSettings, Limits
from patchstack.llama.kl import Comparison, Measured, Side
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict
from tests.support.gate_settings import read_settings
from tests.support.perplexity_tool import PerplexityTool, measured


@pytest.fixture
def tool(tmp_path: Path) -> PerplexityTool:
    return PerplexityTool(tmp_path)


# Drift


def test_settings_of_drift_are_read(tmp_path: Path) -> None:
    spec, problems = read_settings(drift, tmp_path, "base: a\nmodel: b\ntext: t.txt\n")
    assert (problems, spec.contexts) == ([], (256, 1024, 2048, 4096))
    spec, problems = read_settings(drift, tmp_path, "base: a\nmodel: b\ntext: t.txt\ncontexts: [512, 1024]\n")
    assert (problems, spec.contexts) == ([], (512, 1024))
    for wrong, told in (
        ("contexts: []", "not a list of whole numbers"),
        ("contexts: [1024, 512]", "are not in ascending order"),
        ("contexts: [300]", "multiple"),
        ("context: 512", "perhaps you meant contexts"),
    ):
        _, problems = read_settings(drift, tmp_path, f"base: a\nmodel: b\ntext: t.txt\n{wrong}\n")
        assert any(told in problem for problem in problems), (wrong, problems)


def drifting(*means: float | None, error: float = 1e-6) -> Judgement:
    """Return the judgement over contexts of 256, 512, … with these means; None is a context that could not be
    measured."""
    checked = []
    for number, mean in enumerate(means):
        context = 256 << number
        found = (
            measured(context=context, mean=mean, mean_error=error, same_top=100.0)
            if mean is not None
            else Measured(context=context, statistics=None, fault="lost")
        )
        verdict, reason = kl.verdict_of_measurement(found, Limits())
        checked.append(Checked(measured=found, verdict=verdict, reason=reason, limits=Limits()))
    side = Side(model=Model(name="m", path="m"))
    spec = KlSettings(comparison=Comparison(base=side, test=side, text=b""))
    return drift.judgement_of_contexts([spec] * len(checked), checked)


@pytest.mark.parametrize(
    ("means", "verdict", "grows"),
    [
        ((1e-4, 1e-4, 1e-4, 1e-4), Verdict.PASS, False),
        ((1e-4, 2e-4, 3e-4, 4e-4), Verdict.PASS, True),
        ((1e-4, 2e-4, 1e-4, 4e-4), Verdict.PASS, False),
        ((1e-4, 2e-4, 4e-4, 2e-3), Verdict.FAIL, True),
        ((2e-3, 1e-4, 1e-4, 1e-4), Verdict.FAIL, False),
        ((1e-4, None, 1e-4, 1e-4), Verdict.INVALID, False),
        ((1e-4, None, 1e-4, 2e-3), Verdict.FAIL, False),
        ((1e-4, 2e-4), Verdict.PASS, False),
        ((0.0, 1e-6, 2e-6), Verdict.PASS, False),
    ],
)
def test_one_context_that_fails_fails_drift_and_growth_is_told(
    means: tuple[float | None, ...], verdict: Verdict, grows: bool
) -> None:
    judgement = drifting(*means)
    assert judgement.verdict is verdict
    assert judgement.details["grows"] is grows
    assert ("the mean grows with the context" in judgement.reason) == grows


def test_the_table_of_drift_has_a_row_a_context_and_is_json() -> None:
    judgement = drifting(1e-4, None, 2e-3)
    rows = drift.table_of(judgement).rows
    assert [list(row[:3]) for row in rows] == [["256", "PASS", "189"], ["512", "INVALID", "0"], ["1024", "FAIL", "189"]]
    assert rows[0][3] == "0.0001 ± 1e-06"
    assert {len(row) for row in rows} == {len(drift.table_of(judgement).titles)}
    assert judgement.actual == "256: 0.0001, 512: ?, 1024: 0.002"
    json.dumps(dict(judgement.details), allow_nan=False)


def test_drift_goes_on_after_a_context_that_fails(tool: PerplexityTool) -> None:
    spec = drift.DriftSettings(kl=tool.spec(batch=64, ubatch=64), contexts=(128, 256))
    tool.edit("base.err", "batch_size=128", "batch_size=64")
    tool.edit("test.err", "batch_size=128", "batch_size=64")
    with tool.bench() as bench:
        judgement = drift.run(spec, bench)
    assert judgement.verdict is Verdict.FAIL
    assert judgement.reason.startswith("at 128: the most probable token is the same")
    assert "at 256: the base was computed with a context of 128, not 256" in judgement.reason
    assert tool.ran == ["base b.gguf", "test m.gguf", "base b.gguf"]
