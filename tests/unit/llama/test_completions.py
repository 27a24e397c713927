"""Answers of llama-server: reading them, refusing incomplete ones, and the first difference of two."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from patchstack.llama.client.wire import AnswerReader
from patchstack.llama.completions import Generated, Question, first_difference, read_generated
from patchstack.observe.protocol import Json, Reply
from tests.support.answering import IDS, an_answer
from tests.support.checkout import DATA

LLAMA = DATA / "llama" / "server"
QUESTION = Question(prompt="The capital of France is", tokens=12, probabilities=3)


def captured(name: str) -> Reply:
    reader = AnswerReader()
    body = reader.feed((LLAMA / f"{name}.http").read_bytes())
    assert reader.done
    return Reply(status=reader.status, body=body)


def whole(name: str) -> Generated:
    found = read_generated(captured(name), QUESTION)
    assert isinstance(found, Generated), found
    return found


# Answers


def test_a_real_answer_has_its_ids_with_their_candidates() -> None:
    found = whole("plain")

    assert len(found.ids) == len(found.steps) == 12
    assert [step[0].id for step in found.steps] == list(found.ids)  # greedy: the likeliest token is generated
    assert all(len(step) == 3 for step in found.steps)
    assert (found.ended, found.cached, found.prompt, found.drafted) == (False, 0, 24, 0)
    assert found.content == "".join(step[0].text for step in found.steps)


def test_a_real_answer_by_speculation_tells_how_much_was_drafted() -> None:
    found = whole("drafted")

    assert (found.drafted, found.accepted) == (27, 0)
    assert found.ids == whole("plain").ids


def test_a_real_end_of_text_is_whole_though_it_is_short() -> None:
    found = whole("end-of-text")

    assert (found.ids, found.ended) == ((258,), True)


@pytest.mark.parametrize(
    ("name", "tokens", "complaint"),
    [
        ("plain", 13, "12 tokens, not 13, and no end of text"),
        ("plain", 11, "12 tokens, not 11, and no end of text"),
        ("cut", 300, "the context was too short: 232 of 300 tokens"),
        ("too-long", 8, "the server answered 400: request (400 tokens) exceeds the available context size"),
    ],
)
def test_a_real_answer_that_is_not_what_was_asked_is_refused(name: str, tokens: int, complaint: str) -> None:
    found = read_generated(captured(name), replace(QUESTION, tokens=tokens))

    assert isinstance(found, str)
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply(status=200, body=b"{"), "the answer is not JSON"),
        (Reply(status=200, body=b"[" * 100_000), "the answer is not JSON"),
        (Reply(status=200, body=b"[]"), "the answer is not a JSON object"),
        (Reply(status=200, body=b"{}"), "the answer has no list of token ids"),
        (an_answer(tokens=[5, "6", 7, 8]), "the answer has no list of token ids"),
        (an_answer(tokens=[5, True, 7, 8]), "the answer has no list of token ids"),
        (an_answer(tokens=[5, 6, 7]), "the answer has 3 token ids, but tokens_predicted is 4"),
        (an_answer(timings={"predicted_n": 5}), "the answer has 4 token ids, but predicted_n is 5"),
        (
            an_answer(timings={"cache_n": 2}),
            "2 tokens of the prompt came from the cache, although cache_prompt is false",
        ),
        (an_answer(stop_type="word"), "the answer stopped by 'word'"),
        (an_answer(stop_type="none"), "the answer stopped by 'none'"),
        (an_answer(()), "0 tokens, not 4"),
        (an_answer((), stop_type="eos"), "0 tokens, not 4"),
        (an_answer((5, 6)), "2 tokens, not 4, and no end of text"),
        (Reply(status=503, body=b'{"error":{"message":"Loading model"}}'), "the server answered 503: Loading model"),
        (Reply(status=404, body=b"<html>"), "the server answered 404: '<html>'"),
    ],
)
def test_an_answer_that_lost_something_is_refused(reply: Reply, complaint: str) -> None:
    found = read_generated(reply, replace(QUESTION, tokens=4))

    assert isinstance(found, str)
    assert found.startswith(complaint)


def test_candidates_belong_to_their_token_where_the_server_left_some_out() -> None:
    """The server omits tokens that end inside a character."""
    said = json.loads(an_answer((1, 2, 3, 2)).body)["completion_probabilities"]

    found = read_generated(an_answer((1, 2, 3, 2), completion_probabilities=[said[0], said[2]]), _asking(4))
    unsure = read_generated(an_answer((1, 2, 3, 2), completion_probabilities=[said[0], said[1]]), _asking(4))

    assert isinstance(found, Generated)
    assert isinstance(unsure, Generated)
    assert [bool(step) for step in found.steps] == [True, False, True, False]
    assert [bool(step) for step in unsure.steps] == [True, False, False, False]  # it is not known which 2 it is


@pytest.mark.parametrize("logprob", [None, "nan", True, 10**400])
def test_a_probability_that_is_none_is_unknown(logprob: Json) -> None:
    top: Json = [{"id": 5, "token": "A", "logprob": logprob}, {"id": 6, "token": "B", "logprob": -1.0}]
    found = read_generated(an_answer((5,), completion_probabilities=[{"id": 5, "top_logprobs": top}]), _asking(1))

    assert isinstance(found, Generated)
    where = first_difference(found, (6,))
    assert where is not None
    assert (where.margin, where.log_margin, where.gap) == (None, None, None)


def _asking(tokens: int) -> Question:
    return replace(QUESTION, tokens=tokens)


# Differences


def test_the_first_difference_of_real_models_has_position_tokens_and_margin() -> None:
    plain, other = whole("plain"), whole("other-seed")

    where = first_difference(other, plain.ids, plain)

    assert where is not None
    assert (where.position, where.got, where.wanted) == (0, other.ids[0], plain.ids[0])
    first, second = other.steps[0][:2]
    assert first.probability is not None
    assert second.probability is not None
    assert where.margin == pytest.approx(first.probability - second.probability)
    assert where.words.startswith(f'position 0: {other.ids[0]} "')


def test_real_models_of_two_precisions_agree_for_a_while() -> None:
    assert first_difference(whole("f16"), whole("plain").ids) is None


@pytest.mark.parametrize(
    ("wanted", "position", "got", "expected"),
    [
        ((5, 6, 7, 9), 3, 8, 9),
        ((5, 6), 2, 7, None),
        ((5, 6, 7, 8, 9), 4, None, 9),
        ((), 0, 5, None),
    ],
)
def test_where_ids_part(wanted: tuple[int, ...], position: int, got: int | None, expected: int | None) -> None:
    answer = read_generated(an_answer(), _asking(4))
    assert isinstance(answer, Generated)

    where = first_difference(answer, wanted)

    assert where is not None
    assert (where.position, where.got, where.wanted) == (position, got, expected)


def test_equal_ids_do_not_part() -> None:
    answer = read_generated(an_answer(), _asking(4))
    assert isinstance(answer, Generated)
    assert first_difference(answer, IDS) is None
