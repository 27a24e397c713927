"""Gate kind tokens: the verdict on ids, on servers that failed, and on states; and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.tokens import KIND, TokensSettings, TokensState, run
from patchstack.gates.reference.tokens import TokenReference, reference_of
from patchstack.llama.completions import digest_of_ids
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Model, Observation, Reply
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.answering import IDS, Scripted, an_answer, seen

PROMPTING = Prompting(model=Model(name="tiny", path="/models/tiny.gguf"), prompt="Hello", tokens=4, tries=2)


# Verdicts


GOOD = seen(an_answer(), an_answer())
OTHER = seen(an_answer((5, 6, 7, 9)), an_answer((5, 6, 7, 9)))


def judged(*given: Observation, wanted: Sequence[int] | str | None = IDS, **more: Any) -> Judgement:
    reference = None
    if wanted is not None:
        found = reference_of(wanted if isinstance(wanted, str) else list(wanted))
        assert isinstance(found, TokenReference)
        reference = found
    spec = TokensSettings(prompting=PROMPTING, states=(TokensState(reference=reference),), **more)
    return run(spec, Scripted(given))


@pytest.mark.parametrize("wanted", [IDS, digest_of_ids(IDS)])
def test_equal_ids_pass(wanted: Sequence[int] | str) -> None:
    found = judged(GOOD, wanted=wanted)

    assert (found.verdict, found.reason) == (Verdict.PASS, "4 tokens, equal to the last with the reference")
    assert found.actual == found.expected == f"4 tokens {digest_of_ids(IDS)}"


def test_another_token_fails_with_its_place_and_margin_after_a_fresh_server_said_the_same() -> None:
    found = judged(GOOD, wanted=(5, 6, 8, 8))

    assert found.verdict is Verdict.FAIL
    assert (
        found.reason == 'differs from the reference: position 2: 7 "C", not 8 "D"; top-two margin 0.2 (logprob 0.405)'
    )
    assert [attempt.what for attempt in found.attempts] == ["server 1", "server 2"]


def test_a_digest_alone_fails_and_says_that_the_ids_would_tell_where() -> None:
    found = judged(GOOD, wanted="0" * 64)

    assert found.verdict is Verdict.FAIL
    assert "expect_file" in found.reason


@pytest.mark.parametrize(
    ("given", "more", "verdict", "reason"),
    [
        ((GOOD,), {"wanted": None}, Verdict.INVALID, "no reference yet"),
        ((GOOD, OTHER), {"wanted": (5, 6, 8, 8)}, Verdict.INVALID, "new servers do not agree: position 3"),
        ((GOOD, OTHER), {"runs": 2}, Verdict.INVALID, "new servers do not agree: position 3"),
        ((GOOD,), {"wanted": (5, 6, 8, 8), "margin": 0.3}, Verdict.INVALID, "differs from the reference: position 2"),
        ((GOOD,), {"wanted": (5, 6, 8, 8), "margin": 0.1}, Verdict.FAIL, "differs from the reference: position 2"),
        (
            (seen(an_answer(), an_answer((5, 6, 7, 9))),),
            {},
            Verdict.FAIL,
            "the same server gave a different answer when asked again: position 3",
        ),
        ((seen(an_answer()),), {}, Verdict.INVALID, "1 answers to 2 requests"),
        ((seen(an_answer(), an_answer((5, 6))),), {}, Verdict.INVALID, "request 2: 2 tokens, not 4"),
        ((seen(an_answer(), Reply(status=0, body=b"")),), {}, Verdict.INVALID, "no complete answer to request 2"),
        ((seen(an_answer(), Reply(status=503, body=b"")),), {}, Verdict.INVALID, "request 2: the server answered 503"),
        ((seen(an_answer(), Reply(status=500, body=b"")),), {}, Verdict.FAIL, "the server answered 500"),
        (
            (seen(an_answer(), Reply(status=0, body=b""), code=139, stderr=b"a.cu:7: GGML_ASSERT(x)\n"),),
            {},
            Verdict.FAIL,
            "it crashed with SIGSEGV (exit code 139): a.cu:7: GGML_ASSERT(x)",
        ),
        ((seen(an_answer(), an_answer(), code=134),), {}, Verdict.FAIL, "it crashed with SIGABRT"),
        ((seen(an_answer(), an_answer(), code=3),), {}, Verdict.INVALID, "it exited with 3"),
    ],
)
def test_what_else_came_has_its_verdict(
    given: tuple[Observation, ...], more: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    found = judged(*given, **more)

    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)


def test_ids_that_are_not_steady_are_not_told_as_a_reference() -> None:
    found = judged(GOOD, OTHER, runs=2)

    assert isinstance(states := found.details["states"], list)
    assert isinstance(state := states[0], dict)
    assert (state["ids"], state["sha256"]) == (None, None)


def in_states(given: Mapping[str, Sequence[Observation]], *states: TokensState) -> Judgement:
    return run(TokensSettings(prompting=PROMPTING, states=states), Scripted(given))


OFF = TokensState(name="off")
ON = TokensState(name="on", env=(("SWITCH", "1"),), same_as="off")


def test_a_state_that_must_be_like_another_passes_where_it_is() -> None:
    found = in_states({"": [GOOD], "SWITCH=1": [GOOD]}, OFF, ON)

    assert found.verdict is Verdict.PASS
    assert "on: 4 tokens, equal to the last with off" in found.reason


@pytest.mark.parametrize(
    ("given", "verdict", "reason"),
    [
        ({"": [GOOD], "SWITCH=1": [OTHER]}, Verdict.FAIL, "on: differs from off: position 3: 9"),
        ({"": [GOOD], "SWITCH=1": [OTHER, GOOD]}, Verdict.INVALID, "on: new servers do not agree"),
        ({"": [GOOD, OTHER], "SWITCH=1": [OTHER]}, Verdict.INVALID, "off: new servers do not agree"),
        ({"": [seen()], "SWITCH=1": [GOOD]}, Verdict.INVALID, "off: 0 answers to 2 requests; on: off gives nothing"),
    ],
)
def test_a_state_that_is_unlike_another_has_its_verdict(
    given: Mapping[str, Sequence[Observation]], verdict: Verdict, reason: str
) -> None:
    found = in_states(given, OFF, ON)

    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)


def test_the_server_is_asked_greedily_alone_and_without_a_cache() -> None:
    bench = Scripted([GOOD])
    run(TokensSettings(prompting=PROMPTING), bench)
    invocation, salt = bench.asked[0]

    assert (invocation.program, salt) == ("llama-server", "")
    args = " ".join(invocation.args)
    assert "-np 1" in args
    assert "-fit off" in args
    body = invocation.requests[0].body
    assert body is not None
    assert (body["temperature"], body["cache_prompt"], body["return_tokens"], body["seed"]) == (0, False, True, 1)
    assert len(invocation.requests) == 2


# Settings


def settings(text: str, directory: Path) -> tuple[TokensSettings, list[str]]:
    path = directory / "patchstack.yaml"
    path.write_text(f"model: tiny\nprompt: Hello\n{text}\n")
    problems: list[str] = []
    spec = KIND.read(Node(read_yaml(path), path, "", problems), {"tiny": PROMPTING.model})
    return spec, problems


def test_a_reference_is_read_from_a_file_beside_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text("[5, 6, 7, 8]\n")

    spec, problems = settings(f"expect: {digest_of_ids(IDS)}\nexpect_file: ids.json\nmargin: 0.01", tmp_path)

    assert problems == []
    assert spec.states[0].reference == TokenReference(sha256=digest_of_ids(IDS), ids=IDS)
    assert spec.margin == 0.01


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("expect: abc", "expect: neither 64 lower-case hexadecimal digits nor a list of token ids"),
        ("expect: []", "expect: not a list of token ids"),
        ("expect: [1, -2]", "expect: not a list of token ids"),
        ("expect_file: nowhere.json", "No such file"),
        ("expect_file: 7", "expect_file: not the name of a file"),
        ("expect_file: patchstack.yaml", "not JSON"),
        ("margin: 1", "margin: '1' is not a difference in probability"),
        ("margin: .nan", "margin: 'nan' is not a difference in probability"),
        ("repeats: 0", "repeats: must be from 1 to 16, not 0"),
        ("args: [-np, '4']", "args: -np is set by the gate"),
        ("args: [--port=80]", "args: --port=80 is set by the gate"),
        ("tokens: 2\nexpect: [1, 2, 3]", "2 tokens are requested, but the reference has 3"),
        ("states: {}", "the list is empty, so nothing would be checked"),
        ("states: {on: {same_as: off}}", "on: there is no other state 'off'"),
        ("states: {on: {same_as: 'plain'}, plain: {}}", "on and plain have the same environment"),
        ("expect: [1]\nstates: {on: {expect: [1]}}", "each state has its own expect"),
        ("expct: [1]", "expct: unknown key, perhaps you meant expect"),
    ],
)
def test_settings_that_cannot_be_used_are_complained_about(tmp_path: Path, text: str, complaint: str) -> None:
    _, problems = settings(text, tmp_path)

    assert any(complaint in problem for problem in problems), problems


def test_a_file_that_is_not_of_the_digest_is_complained_about(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text("[5]")

    _, problems = settings(f"expect: {digest_of_ids(IDS)}\nexpect_file: ids.json", tmp_path)

    assert len(problems) == 1
    assert "the ids of the file do not match expect" in problems[0]
