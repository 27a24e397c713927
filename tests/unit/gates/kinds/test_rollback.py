"""Gate kind rollback: the output of the test program, and the conditions under which equal tokens prove something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchstack.engine.protocol import Ending
from patchstack.errors import MissingError
from patchstack.gates.kinds.rollback import (
    KIND,
    SAYS,
    TEST_PROGRAM,
    RollbackSettings,
    rollback_program,
    run,
    verdict_of_program,
)
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Model, Observation
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.answering import Scripted, an_answer, seen
from tests.support.checkout import DATA
from tests.support.programs import a_bench, program

LLAMA = DATA / "llama" / "server"
RESTORED = (LLAMA / "rollback-qwen35.err").read_bytes()
SKIPPED = (LLAMA / "rollback-llama.err").read_bytes()
TINY, DRAFT = Model(name="tiny", path="/models/tiny.gguf"), Model(name="small", path="/models/small.gguf")
PROMPTING = Prompting(model=TINY, prompt="Hello", tokens=4, tries=2)


# The program


@pytest.mark.parametrize(
    ("code", "stderr", "verdict", "reason"),
    [
        (0, RESTORED, Verdict.PASS, "main : recurrent rollback checkpoint restored successfully"),
        (0, SKIPPED, Verdict.INVALID, "nothing was tested: main : skipping for non-recurrent model"),
        (0, b"main : skipping because n_rs_seq is disabled\n", Verdict.INVALID, "nothing was tested"),
        (0, b"", Verdict.INVALID, "it exited with 0, but no line matches"),
        (1, b"main : logits mismatch at token 3 (0.1 != 0.2)\n", Verdict.FAIL, "main : logits mismatch at token 3"),
        (1, b"main : dirty-ctx logits mismatch at token 3 (1 != 2)\n", Verdict.FAIL, "main : dirty-ctx logits"),
        (1, b"main : rollback failed\n", Verdict.FAIL, "main : rollback failed"),
        (0, RESTORED + b"main : logits mismatch at token 3\n", Verdict.FAIL, "main : logits mismatch"),
        (139, RESTORED, Verdict.FAIL, "it crashed with SIGSEGV"),
        (137, RESTORED, Verdict.INVALID, "it was ended by SIGKILL"),
        (1, RESTORED, Verdict.INVALID, "it exited with 1"),
        (1, b"llama_model_load: error loading model: no file\n", Verdict.INVALID, "it cannot load the model"),
    ],
)
def test_a_test_program_is_judged_by_its_end_and_its_words(
    code: int, stderr: bytes, verdict: Verdict, reason: str
) -> None:
    ran = Observation(key="k", ending=Ending.EXITED, code=code, stdout=b"", stderr=stderr, seconds=1.0)

    found = verdict_of_program(ran, SAYS, pinned=False)

    assert (found[0], found[1][: len(reason)]) == (verdict, reason)


@pytest.mark.parametrize(
    ("script", "verdict", "tries"),
    [
        ("echo 'rollback checkpoint restored successfully' >&2", Verdict.PASS, 1),
        ("echo 'main : skipping for non-recurrent model' >&2", Verdict.INVALID, 1),
        ("echo 'main : logits mismatch at token 0' >&2; exit 1", Verdict.FAIL, 1),
        ("exit 0", Verdict.INVALID, 5),
        ("kill -SEGV $$", Verdict.FAIL, 1),
    ],
)
def test_a_program_of_the_build_is_run_with_the_model(
    tmp_path: Path, script: str, verdict: Verdict, tries: int
) -> None:
    model = Model(name="tiny", path=str(tmp_path / "tiny.gguf"))
    (tmp_path / "tiny.gguf").write_bytes(b"weights")
    program(tmp_path / "bin", TEST_PROGRAM, f'[ "$(cat "$2")" = weights ] || exit 9\n{script}')

    with a_bench(tmp_path / "bin", tmp_path / "kept") as bench:
        found = run(RollbackSettings(program=rollback_program(TEST_PROGRAM, model)), bench)

    assert found.verdict is verdict, found
    assert len(found.attempts) == tries


def test_a_program_that_the_build_lacks_is_missing(tmp_path: Path) -> None:
    program(tmp_path / "bin", "another", "exit 0")

    with (
        a_bench(tmp_path / "bin", tmp_path / "kept") as bench,
        pytest.raises(MissingError, match="test-recurrent-state-rollback is not in"),
    ):
        run(RollbackSettings(program=rollback_program(TEST_PROGRAM, TINY)), bench)


# Speculation, and going back to a prompt


def drafted(ids: Sequence[int] = (5, 6, 7, 8), made: int = 6, accepted: int = 2) -> Observation:
    return seen(an_answer(ids, timings={"draft_n": made, "draft_n_accepted": accepted}))


PLAIN = seen(an_answer())


@pytest.mark.parametrize(
    ("plain", "speculating", "margin", "verdict", "reason"),
    [
        ([PLAIN], [drafted()], 0.0, Verdict.PASS, "speculative: 4 equal tokens; 6 drafted, 2 accepted"),
        ([PLAIN], [drafted(made=0, accepted=0)], 0.0, Verdict.INVALID, "speculative: nothing was drafted"),
        ([PLAIN], [seen(an_answer())], 0.0, Verdict.INVALID, "speculative: nothing was drafted"),
        (
            [PLAIN],
            [drafted(made=6, accepted=6)],
            0.0,
            Verdict.INVALID,
            "speculative: nothing was rolled back: 6 drafted",
        ),
        ([drafted()], [drafted()], 0.0, Verdict.INVALID, "speculative: the server without speculation drafts too"),
        (
            [PLAIN],
            [drafted((5, 6, 8, 8))],
            0.0,
            Verdict.FAIL,
            "speculative: speculation changes the tokens: position 2",
        ),
        ([PLAIN], [drafted((5, 6, 8, 8))], 0.3, Verdict.INVALID, "speculative: speculation changes the tokens"),
        (
            [PLAIN],
            [drafted((5, 6, 8, 8)), drafted()],
            0.0,
            Verdict.INVALID,
            "speculative: with speculation, new servers",
        ),
        ([PLAIN, drafted((1, 2, 3, 4))], [drafted((5, 6, 8, 8))], 0.0, Verdict.INVALID, "speculative: without"),
        ([PLAIN], [seen(code=134)], 0.0, Verdict.FAIL, "speculative: with speculation: it crashed with SIGABRT"),
        ([seen()], [drafted()], 0.0, Verdict.INVALID, "speculative: without speculation: 0 answers"),
    ],
)
def test_speculation_must_change_nothing_and_must_have_been_at_work(
    plain: Sequence[Observation], speculating: Sequence[Observation], margin: float, verdict: Verdict, reason: str
) -> None:
    bench = Scripted({"": plain, "speculating": speculating})

    found = run(RollbackSettings(prompting=PROMPTING, draft=DRAFT, margin=margin), bench)

    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)


def test_a_draft_model_comes_with_the_argument_without_which_nothing_is_drafted() -> None:
    bench = Scripted({"": [PLAIN], "speculating": [drafted()]})

    run(RollbackSettings(prompting=PROMPTING, draft=DRAFT), bench)

    args = " ".join(bench.asked[1][0].args)
    assert "-md {model:small} --spec-type draft-simple" in args
    assert [model.name for model in bench.asked[1][0].models] == ["tiny", "small"]


def reused(*cached: int, last: Sequence[int] = (5, 6, 7, 8)) -> Observation:
    """Return a server that is asked three times, with that many tokens from the cache each time."""
    ids = [(5, 6, 7, 8), (5, 6, 7, 8), last]
    return seen(
        *(an_answer(one, timings={"cache_n": n, "prompt_n": 24 - n}) for one, n in zip(ids, cached, strict=True))
    )


@pytest.mark.parametrize(
    ("given", "verdict", "reason"),
    [
        ([reused(0, 20, 20)], Verdict.PASS, "reuse: 4 equal tokens; 20 of 24 of the prompt from the cache"),
        ([reused(0, 0, 0)], Verdict.INVALID, "reuse: nothing came from the cache"),
        ([reused(0, 20, 0)], Verdict.INVALID, "reuse: nothing came from the cache"),
        ([reused(4, 20, 20)], Verdict.INVALID, "reuse: 4 tokens came from the cache of a new server"),
        ([reused(0, 20, 20, last=(5, 6, 7, 1))], Verdict.FAIL, "reuse: reusing the prompt changes the tokens"),
        (
            [reused(0, 20, 20, last=(5, 6, 7, 1)), reused(0, 20, 20)],
            Verdict.INVALID,
            "reuse: new servers do not agree: position 3",
        ),
    ],
)
def test_going_back_to_a_prompt_must_change_nothing_and_must_have_happened(
    given: Sequence[Observation], verdict: Verdict, reason: str
) -> None:
    found = run(RollbackSettings(prompting=PROMPTING, reuse=True), Scripted(given))

    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)


def test_the_worst_check_counts() -> None:
    bench = Scripted({"": [reused(0, 0, 0)], "speculating": [drafted()]})

    found = run(RollbackSettings(prompting=PROMPTING, draft=DRAFT, reuse=True), bench)

    # The scripted server gives three answers to one request, which cannot be judged either.
    assert found.verdict is Verdict.INVALID
    assert found.actual == "speculative INVALID, reuse INVALID"


def test_nothing_to_check_is_no_pass() -> None:
    assert run(RollbackSettings(), Scripted([])).verdict is Verdict.INVALID


# Settings


def settings(text: str, directory: Path) -> tuple[RollbackSettings, list[str]]:
    path = directory / "patchstack.yaml"
    path.write_text(f"model: tiny\n{text}\n")
    problems: list[str] = []
    models: Mapping[str, Any] = {"tiny": TINY, "small": DRAFT}
    return KIND.read(Node(read_yaml(path), path, "", problems), models), problems


def test_the_program_alone_needs_a_model_and_no_prompt(tmp_path: Path) -> None:
    spec, problems = settings("env: {LLAMA_KV_PAGED: 1}", tmp_path)

    assert problems == []
    assert spec.program is not None
    assert (spec.program.name, spec.program.env, spec.prompting) == (TEST_PROGRAM, (("LLAMA_KV_PAGED", "1"),), None)


def test_a_model_that_drafts_makes_it_check_speculation_too(tmp_path: Path) -> None:
    spec, problems = settings("prompt: Hello\ndraft: small", tmp_path)

    assert problems == []
    assert spec.program is not None
    assert (spec.draft, spec.speculates, spec.reuse) == (DRAFT, True, False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("checks: [speculate]", "checks: 'speculate' is not one of program, speculative, reuse"),
        ("checks: []", "checks: the list is empty, so nothing would be checked"),
        (
            "checks: [speculative]\nprompt: Hello",
            "the check needs speculative (arguments of the server) or draft (a model)",
        ),
        ("checks: [reuse]", "prompt is missing"),
        ("draft: big\nprompt: Hello", "draft: there is no model 'big'"),
        ("speculative: [--port, '80']\nprompt: Hello", "speculative: --port is set by the gate"),
        ("program: ../evil", "program: '../evil' is a path"),
        ("says: '('", "says: '(' is not a regular expression"),
        ("sais: x", "sais: unknown key, perhaps you meant says"),
    ],
)
def test_settings_that_cannot_be_used_are_complained_about(tmp_path: Path, text: str, complaint: str) -> None:
    _, problems = settings(text, tmp_path)

    assert any(complaint in problem for problem in problems), problems
