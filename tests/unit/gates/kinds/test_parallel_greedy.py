"""Parallel greedy: equal tokens pass, differences within the noise of new servers pass, and others are not judged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from patchstack.engine.protocol import Ending
from patchstack.gates.kinds.parallel_greedy import (
    ParallelRuns,
    SlotAnswer,
    TokenStep,
    answered,
    judgement_of_parallel,
    noise_between,
    observe_parallel,
    part,
    read_answers,
    verdict_of_parallel,
)
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Attempt, Complete, Invocation, Model, Observation, Observed, Reply
from patchstack.verdict import Verdict
from tests.support.answering import FakeObserver

A, B, C = 10, 11, 12


def step(token: int, second: int, margin: float) -> TokenStep:
    return TokenStep(token=token, second=second, margin=margin)


def told(index: int, steps: list[tuple[int, int, float]], slot: int | None = None) -> dict[str, Any]:
    """Return an answer of `/completion`."""
    return {
        "index": index,
        "id_slot": index if slot is None else slot,
        "content": "x" * len(steps),
        "tokens": [token for token, _, _ in steps],
        "completion_probabilities": [
            {"id": token, "top_logprobs": [{"id": token, "logprob": -0.1}, {"id": second, "logprob": -0.1 - margin}]}
            for token, second, margin in steps
        ],
    }


def replied(*answers: dict[str, Any], status: int = 200, code: int = 0) -> Observation:
    body = json.dumps(answers[0] if len(answers) == 1 else list(answers)).encode()
    reply = Reply(status=status, body=body if answers else b"")
    return Observation(
        key="k", ending=Ending.EXITED, code=code, stdout=b"", stderr=b"a.c:3: boom\n", seconds=1, replies=(reply,)
    )


def seen(observation: Observation | None) -> Observed:
    complaint = None if observation is not None else "it hung"
    return Observed(
        observation=observation,
        attempts=(Attempt(what="w", key="k", code=0, seconds=1.0, complaint=complaint),),
    )


SAME = [(A, B, 2.0), (B, C, 0.5), (C, A, 1.0)]
TURNED = [(A, B, 2.0), (C, B, 0.1), (A, C, 1.0)]  # at token 1 the margin went from +0.5 to -0.1


def together(
    one: list[tuple[int, int, float]],
    many: list[list[tuple[int, int, float]]],
    control: list[list[tuple[int, int, float]]],
) -> ParallelRuns:
    runs = [replied(*(told(index, steps) for index, steps in enumerate(run))) for run in ([one], many, control)]
    return ParallelRuns(alone=seen(runs[0]), together=seen(runs[1]), control=seen(runs[2]), pinned=True)


def test_equal_tokens_pass_whatever_the_margins() -> None:
    near = [(A, B, 1.9), (B, C, 0.4), (C, A, 1.1)]
    verdict, reason, details = verdict_of_parallel(together(SAME, [near, SAME], [TURNED, TURNED]))
    assert verdict is Verdict.PASS
    assert reason == "2 concurrent requests gave the tokens of a single one"
    assert (details["equal"], details["requests"], details["tokens"]) == (2, 2, 3)


@pytest.mark.parametrize(
    ("control", "verdict"),
    [
        ([TURNED, SAME], Verdict.INVALID),  # the control moved nothing: 0.6 is more than 0
        ([[(A, B, 2.0), (C, B, 0.1), (A, C, 0.4)], SAME], Verdict.PASS),  # a margin of it moved by 0.6
        ([[(A, B, 2.5), (C, B, 0.1), (A, C, 1.0)], SAME], Verdict.INVALID),  # by 0.5: not enough
        ([[(A, B, 2.0), (B, C, 0.5), (C, A, 1.0)], SAME], Verdict.PASS),  # the control turned it back: by 0.6
    ],
)
def test_a_difference_is_held_against_what_fresh_servers_differ_by(
    control: list[list[tuple[int, int, float]]], verdict: Verdict
) -> None:
    found, reason, details = verdict_of_parallel(together(SAME, [TURNED, SAME], control))
    assert found is verdict, reason
    assert "1 of 2 requests differ from the single one, first at token 1" in reason
    assert "the margin moved by 0.6" in reason
    assert (details["position"], details["expected_token"], details["actual_token"]) == (1, B, C)


def test_a_jump_to_a_token_that_was_not_near_is_never_within_noise() -> None:
    jumped = [(A, B, 2.0), (A, B, 9.0), (C, A, 1.0)]
    found, reason, details = verdict_of_parallel(together(SAME, [jumped, SAME], [SAME, SAME]))
    assert found is Verdict.INVALID
    assert "moved by inf" in reason
    assert details["shift"] is None, "JSON has no infinity"
    json.dumps(details, allow_nan=False)


def test_an_answer_that_ends_early_is_a_difference() -> None:
    parting = part(_answer(SAME), _answer(SAME[:2]))
    assert parting is not None
    assert (parting.position, parting.expected, parting.actual, parting.shift) == (2, C, None, math.inf)


def test_noise_is_counted_up_to_the_first_different_token() -> None:
    assert noise_between(_answer(SAME), _answer(TURNED)) == pytest.approx(0.6)
    assert noise_between(_answer(SAME), _answer([(A, B, 1.0), (A, B, 1.0), (C, A, 99.0)])) == pytest.approx(1.0)


def _answer(steps: list[tuple[int, int, float]]) -> SlotAnswer:
    return SlotAnswer(steps=tuple(step(*one) for one in steps), slot=0)


@pytest.mark.parametrize(
    ("observation", "complaint"),
    [
        (replied(told(0, SAME), told(1, SAME)), None),
        (replied(told(0, SAME, slot=3), told(1, SAME, slot=3)), "the server did not serve the requests at once"),
        (replied(told(0, SAME)), "the server's answer cannot be read"),
        (replied(told(0, SAME), told(1, [])), "the server gave no tokens"),
        (replied({"index": 0}, {"index": 1}), "the server's answer cannot be read"),
        (replied(status=0), "the server did not answer"),
        (replied(told(0, SAME), status=500), "the server answered 500"),
        (replied(told(0, SAME), code=137), "it was ended by SIGKILL"),
        (replied(status=0, code=134), None),  # a crash is judged: it fails
    ],
)
def test_only_whole_answers_given_at_once_are_judged(observation: Observation, complaint: str | None) -> None:
    found = answered(2, pinned=True)(observation)
    assert found is None if complaint is None else complaint in (found or "")


def test_a_server_that_crashes_fails_and_one_that_cannot_be_judged_does_not() -> None:
    crashed = ParallelRuns(
        alone=seen(replied(told(0, SAME))), together=seen(replied(status=0, code=134)), control=seen(None), pinned=True
    )
    assert verdict_of_parallel(crashed)[:2] == (Verdict.FAIL, "it crashed with SIGABRT (exit code 134): a.c:3: boom")
    lost = ParallelRuns(alone=seen(None), together=seen(replied(told(0, SAME))), control=seen(None), pinned=True)
    assert verdict_of_parallel(lost)[:2] == (Verdict.INVALID, "it hung")
    assert judgement_of_parallel([("a", crashed), ("b", lost)]).verdict is Verdict.FAIL
    assert judgement_of_parallel([]).verdict is Verdict.INVALID


def test_a_difference_without_a_control_is_not_judged() -> None:
    whole = together(SAME, [TURNED, SAME], [SAME, SAME])
    found = verdict_of_parallel(
        ParallelRuns(alone=whole.alone, together=whole.together, control=seen(None), pinned=True)
    )
    assert found[0] is Verdict.INVALID
    assert "the control could not be judged: it hung" in found[1]


@pytest.mark.parametrize("body", [b"", b"[", b"3", b'[{"index": "x"}]', b'{"tokens": 3, "id_slot": 0}', b"[" * 99_999])
def test_an_answer_of_another_shape_is_none(body: bytes) -> None:
    assert read_answers(body) is None


def test_answers_come_in_the_order_of_their_prompts() -> None:
    body = json.dumps([told(1, TURNED), told(0, SAME)]).encode()
    answers = read_answers(body)
    assert answers is not None
    assert [one.slot for one in answers] == [0, 1]


def test_three_fresh_servers_are_asked_and_differ_in_what_they_are_asked_alone() -> None:
    asked: list[tuple[Invocation, str]] = []

    class Noting(FakeObserver):
        def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
            asked.append((invocation, salt))
            return seen(None)

    prompting = Prompting(model=Model(name="tiny", path="/m"), prompt="hello", tokens=8, context=512)
    observe_parallel(prompting, 4, (("S", "1"),), "on", Noting())
    assert [salt for _, salt in asked] == ["alone", "at once", "control"]
    assert {invocation.args for invocation, _ in asked} == {
        ("-m", "{model:tiny}", "-ngl", "99", "-fa", "on", "-c", "2048", "-np", "4", "-fit", "off")
    }
    bodies = [invocation.requests[0].body or {} for invocation, _ in asked]
    assert [body["prompt"] for body in bodies] == ["hello", ["hello"] * 4, ["hello"] * 4]
    assert all((body["temperature"], body["cache_prompt"], body["n_probs"]) == (0, False, 2) for body in bodies)
