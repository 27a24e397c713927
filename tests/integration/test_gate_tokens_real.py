"""Gates that ask a server, on a real llama.cpp with tiny models. PATCHSTACK_LLAMA_BIN is the directory of programs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import rollback, tokens
from patchstack.gates.kinds.rollback import TEST_PROGRAM, rollback_program
from patchstack.gates.kinds.tokens import TokensState
from patchstack.gates.reference.tokens import TokenReference, reference_of
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from patchstack.verdict import Verdict
from tests.support.programs import a_bench
from tests.support.tiny_gguf import ARCHITECTURES, Architecture, need_gguf, write_model

BIN = os.environ.get("PATCHSTACK_LLAMA_BIN", "")

pytestmark = pytest.mark.skipif(
    not (Path(BIN) / "llama-server").is_file(), reason="PATCHSTACK_LLAMA_BIN names no directory with llama-server"
)


@pytest.fixture
def bench(tmp_path: Path) -> Runner:
    need_gguf()
    return a_bench(Path(BIN), tmp_path / "kept", kind="tokens/1")


def a_model(directory: Path, architecture: Architecture = "llama", **more: Any) -> Model:
    name = "-".join([architecture, *map(str, more.values())])
    return Model(name=name, path=str(write_model(directory / f"{name}.gguf", architecture, **more)))


def prompting(model: Model, **more: Any) -> Prompting:
    return Prompting(model=model, prompt="The capital of France is", tokens=24, context=512, tries=2, **more)


def ids_of(judgement: Judgement) -> TokenReference:
    states: Any = judgement.details["states"]
    found = reference_of(states[0]["ids"])
    assert isinstance(found, TokenReference), judgement
    return found


def ask(bench: Runner, model: Model, reference: TokenReference | None, **more: Any) -> Judgement:
    return tokens.run(
        tokens.TokensSettings(prompting=prompting(model), states=(TokensState(reference=reference),), **more), bench
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_build_agrees_with_itself_and_a_flipped_token_is_found(
    tmp_path: Path, bench: Runner, architecture: Architecture
) -> None:
    with bench:
        model = a_model(tmp_path, architecture)
        first = ask(bench, model, None)
        reference = ids_of(first)
        assert first.verdict is Verdict.INVALID
        assert ask(bench, model, reference, runs=2).verdict is Verdict.PASS

        assert reference.ids is not None
        flipped = reference_of([*reference.ids[:7], reference.ids[7] + 1, *reference.ids[8:]])
        assert isinstance(flipped, TokenReference)
        found = ask(bench, model, flipped)

    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith(f"differs from the reference: position 7: {reference.ids[7]} ")
    assert "top-two margin 0." in found.reason


def test_a_model_of_another_seed_fails_with_position_and_margin(tmp_path: Path, bench: Runner) -> None:
    with bench:
        reference = ids_of(ask(bench, a_model(tmp_path, seed=1), None))
        found = ask(bench, a_model(tmp_path, seed=2), reference)

    assert found.verdict is Verdict.FAIL
    states: Any = found.details["states"]
    where = states[0]["divergence"]
    assert where["position"] < 24
    assert 0 < where["margin"] < 1


def test_a_context_that_is_too_short_is_not_judged(tmp_path: Path, bench: Runner) -> None:
    with bench:
        asked = replace(prompting(a_model(tmp_path)), tokens=400, context=256)
        found = tokens.run(tokens.TokensSettings(prompting=asked, repeats=1), bench)

    assert found.verdict is Verdict.INVALID
    assert "the context was too short" in found.reason


def test_a_truncated_model_is_not_judged(tmp_path: Path, bench: Runner) -> None:
    with bench:
        model = a_model(tmp_path)
        os.truncate(model.path, 500_000)
        found = ask(bench, model, None)

    assert found.verdict is Verdict.INVALID
    assert "it cannot load the model" in found.reason


@pytest.mark.parametrize("architecture", ["llama", "qwen35"])
def test_speculation_and_going_back_are_seen_to_have_happened(
    tmp_path: Path, bench: Runner, architecture: Architecture
) -> None:
    with bench:
        model, draft = a_model(tmp_path, architecture), a_model(tmp_path, seed=2)
        asked = prompting(model)
        found = rollback.run(rollback.RollbackSettings(prompting=asked, draft=draft, reuse=True, margin=0.05), bench)

    checks: Any = found.details["checks"]
    assert found.verdict is Verdict.PASS, found.reason
    assert checks[0]["drafted"] > checks[0]["accepted"]
    assert checks[1]["cached"][-1] > 0


def test_a_draft_model_without_a_kind_of_speculation_drafts_nothing(tmp_path: Path, bench: Runner) -> None:
    with bench:
        model, draft = a_model(tmp_path), a_model(tmp_path, seed=2)
        asked = prompting(model, models=(draft,))
        found = rollback.run(
            rollback.RollbackSettings(prompting=asked, speculative=("-md", f"{{model:{draft.name}}}")), bench
        )

    assert (found.verdict, found.reason[:32]) == (Verdict.INVALID, "speculative: nothing was drafted")


@pytest.mark.parametrize(("architecture", "verdict"), [("llama", Verdict.INVALID), ("qwen35", Verdict.PASS)])
def test_the_rollback_program_passes_only_where_it_tested(
    tmp_path: Path, bench: Runner, architecture: Architecture, verdict: Verdict
) -> None:
    if not (Path(BIN) / TEST_PROGRAM).is_file():
        pytest.skip(f"PATCHSTACK_LLAMA_BIN has no {TEST_PROGRAM}")
    with bench:
        model = a_model(tmp_path, architecture)
        found = rollback.run(
            rollback.RollbackSettings(
                program=rollback_program(TEST_PROGRAM, model, layers=prompting(model).gpu_layers)
            ),
            bench,
        )

    assert found.verdict is verdict, found.reason
