"""The client's reading of real servers' streams, and of every irregularity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchstack.llama.client.answers import Answer
from patchstack.llama.client.answers import read_answer as read_parts
from patchstack.llama.client.wire import AnswerReader

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"


def event(document: Any) -> str:
    return f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n"


def text(words: str = "a", finish: str | None = None, **more: Any) -> str:
    return event({"choices": [{"index": 0, "text": words, "finish_reason": finish}], **more})


def delta(finish: str | None = None, **content: Any) -> str:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 7, cached: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return found if cached is None else {**found, "prompt_tokens_details": {"cached_tokens": cached}}


DONE = event("[DONE]")


def read_answer(pieces: Sequence[tuple[int, bytes]], ended: str) -> Answer:
    wire = AnswerReader()
    return read_parts(wire, ((time, wire.feed(data)) for time, data in pieces), ended)


def answer(*events: str, head: str = HEAD, ended: str = "") -> Answer:
    """Return an answer with each event in a separate piece, at 1, 2, 3, … ns; the head at 0."""
    pieces = [(0, head.encode())] + [(at, one.encode("utf-8", "surrogateescape")) for at, one in enumerate(events, 1)]
    return read_answer(pieces, ended)


def test_a_completion_of_llama_server() -> None:
    """Content events, one of empty text with the finish and usage, [DONE]."""
    got = answer(text(), text(), text("", "length", usage=usage(2, 64, 0)), DONE)
    assert got == Answer(
        status=200, times=[1, 2], counts=[None, None], tokens=2, prompt=64, cached=0, finish="length", odd={"empty": 1}
    )


def test_a_chat_of_llama_server_starts_with_a_role_that_is_no_token() -> None:
    timings = {"prompt_n": 5, "cache_n": 2, "predicted_n": 2, "draft_n": 4, "draft_n_accepted": 3}
    got = answer(
        delta(role="assistant", content=None),
        delta(content="a"),
        delta(content="b"),
        delta("length"),
        event({"choices": [], "usage": usage(2), "timings": timings}),
        DONE,
    )
    assert (got.times, got.tokens, got.prompt, got.cached) == ([2, 3], 2, 7, 2)
    assert (got.drafted, got.accepted, got.failure) == (4, 3, "")
    assert got.odd == {"role": 1, "empty": 1, "usage": 1}


def test_a_role_chunk_with_empty_content_is_no_token() -> None:
    got = answer(delta(role="assistant", content=""), delta(content="a"), delta("stop"), DONE)
    assert got.times == [2] and got.odd == {"role": 1, "empty": 1}


@pytest.mark.parametrize(
    "content",
    [
        {"content": "a"},
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"refusal": "a"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
    ],
)
def test_reasoning_and_tool_calls_are_content(content: dict[str, Any]) -> None:
    assert answer(delta(role="assistant", **content), delta("stop"), DONE).times == [1]


def test_usage_in_every_chunk_counts_the_tokens_of_chunks() -> None:
    got = answer(text(usage=usage(1)), text(usage=usage(3)), text("", "stop", usage=usage(3)), DONE)
    assert (got.counts, got.tokens) == ([1, 3], 3)


def test_timings_in_every_chunk_do_as_well() -> None:
    got = answer(text(timings={"predicted_n": 1}), text("b", "stop", timings={"predicted_n": 2}), DONE)
    assert (got.counts, got.tokens) == ([1, 2], 2)


def test_usage_that_is_null_or_comes_twice() -> None:
    got = answer(text(usage=None), text("b", "length", usage=usage(2)), event({"choices": [], "usage": usage(2)}), DONE)
    assert (got.tokens, got.failure) == (2, "")
    assert "decreased from 2 to 1" in answer(text(usage=usage(2)), text(usage=usage(1)), DONE).failure


def test_tokens_are_never_counted_by_chunks() -> None:
    got = answer(text(), text("b", "length"), DONE)
    assert (got.tokens, len(got.times)) == (None, 2)


def test_comments_and_other_fields_are_no_content() -> None:
    got = answer(": keep-alive\n\n", "id: 4\nretry: 10\n\n", text("a", "stop"), DONE)
    assert (got.times, got.odd) == ([3], {"comment": 1})


def test_events_of_one_piece_have_its_time() -> None:
    assert answer(text() + text() + text("", "stop") + DONE).times == [1, 1]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([text()], "ended without a finish"),
        ([text(), 'data: {"choices": [{"te'], "middle of an event"),
        ([text(), "event: error\n" + event({"message": "out of memory"})], "out of memory"),
        ([text(), event({"error": {"message": "no more room", "code": 500}})], "no more room"),
        ([text(), event({"error": "short"})], "short"),
        ([text(), event("not JSON")], "an event is not a JSON object"),
        ([text(), event("[1, 2]")], "an event is not a JSON object"),
        ([text(), event("[" * 100_000)], "an event is not a JSON object"),
        ([text(), 'data: {"choices": [{"text": "\udcc3"}]}\n\n'], "an event is not a JSON object"),
        ([text("a", "stop"), text("b"), DONE], "content came after the finish"),
        ([event({"choices": [], "usage": usage(0)}), DONE], "no generated content"),
        ([DONE], "no generated content"),
        ([event({"choices": [{"index": 1, "text": "a"}]}), DONE], "several choices"),
        ([event({"choices": ["a"]}), DONE], "not an object"),
    ],
)
def test_a_stream_that_is_not_whole_fails_and_what_came_is_kept(events: list[str], words: str) -> None:
    got = answer(*events)
    assert words in got.failure
    assert len(got.times) == sum('"text": "a"' in one and "index" in one for one in events if "1" not in one[:30])


def test_a_stream_without_done_but_with_a_finish_is_whole() -> None:
    got = answer(text("a", "stop"))
    assert (got.failure, got.odd) == ("", {"no [DONE]": 1})


def test_a_stream_of_which_nothing_came() -> None:
    assert read_answer([], "").failure == "no answer was received"
    assert read_answer([], "no connection: refused").failure == "no connection: refused"
    assert answer(text(), ended="it took over 5 s").failure == "it took over 5 s"


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        ("HTTP/1.1 429 Too Many\r\n\r\n", '{"error": {"message": "slow down"}}', "the server answered 429: slow down"),
        ("HTTP/1.1 503 No\r\n\r\n", "busy", "the server answered 503: 'busy'"),
        ("HTTP/1.1 404 No\r\n\r\n", '{"object": "error", "message": "no model x"}', "no model x"),
        ("HTTP/1.1 307 To\r\nLocation: http://b/\r\n\r\n", "", "redirects to http://b/"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n", "x", "compressed"),
        ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", "{}", "not a stream of events"),
        ("HTTP/1.1 200 OK\r\n\r\n", "<html>", "not a stream of events: '<html>'"),
    ],
)
def test_an_answer_that_is_no_stream_is_told_in_the_servers_words(head: str, body: str, words: str) -> None:
    assert words in answer(body, head=head).failure


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=80)), st.booleans())
def test_no_input_gives_a_traceback(pieces: list[bytes], headed: bool) -> None:
    start = [(0, HEAD.encode())] if headed else []
    assert isinstance(read_answer([*start, *enumerate(pieces)], ""), Answer)


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["choices", "usage", "timings", "delta", "text", "error", "index", "completion_tokens"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(_JSON, max_size=5))
def test_no_document_gives_a_traceback(documents: list[Any]) -> None:
    assert isinstance(answer(*map(event, documents)), Answer)


@given(st.lists(st.integers(0, 700), max_size=10))
def test_however_a_stream_is_split_it_says_the_same(cuts: list[int]) -> None:
    chunk = text().encode()
    body = b"".join(
        b"%x\r\n%s\r\n" % (len(one), one) for one in (chunk, chunk, text("b", "stop").encode(), DONE.encode())
    )
    whole = HEAD.encode()[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
    places = sorted(min(cut, len(whole)) for cut in cuts)
    pieces = [(1, whole[a:b]) for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    got = read_answer(pieces, "")
    assert (got.failure, len(got.times), got.finish) == ("", 3, "stop")
