"""One exchange: when it is over, and what was read until then."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.llama.client import connection
from patchstack.llama.client.answers import read_answer
from patchstack.llama.client.connection import Exchange
from patchstack.llama.client.wire import AnswerReader
from tests.support.scripted import event, text_event, usage_event

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Transport(asyncio.Transport):
    """Accepts written data."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


def exchange_of(pieces: list[bytes]) -> tuple[Exchange, Transport]:
    exchange, transport = Exchange(b"", lambda _: None), Transport()
    exchange.connection_made(transport)
    for piece in pieces:
        exchange.data_received(piece)
    return exchange, transport


def chunked(body: list[bytes]) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in body)


BODY = [one.encode() for one in (text_event("a"), text_event("b", "stop"), usage_event(2, "8"), event("[DONE]"))]


@given(st.lists(st.integers(1, 400), max_size=12), st.sampled_from(["chunked", "length", "close"]))
def test_an_answer_reads_the_same_however_it_was_split_and_looked_into(cuts: list[int], framing: str) -> None:
    body = b"".join(BODY)
    sent = {
        "chunked": chunked(BODY) + b"0\r\n\r\n",
        "length": HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        "close": HEAD + b"\r\n" + body,
    }[framing]
    places = sorted({cut % len(sent) for cut in cuts} | {0, len(sent)})
    pieces = [sent[start:end] for start, end in pairwise(places)]
    exchange, transport = exchange_of(pieces)
    assert (exchange.over, transport.aborted) == ((True, True) if framing != "close" else (False, False))
    got = read_answer(exchange.reader, exchange.body(), "")
    fresh = AnswerReader()
    assert got == read_answer(fresh, ((time, fresh.feed(data)) for time, data in exchange.pieces), "")
    assert (got.failure, got.tokens, len(got.times), got.finish) == ("", 2, 2, "stop")


def test_content_that_looks_like_an_end_is_not_one() -> None:
    """A chunk may end with the bytes that end an answer."""
    start = chunked([text_event("a").encode(), b"0\r\n\r\n"])
    exchange, _ = exchange_of([start[:-2]])
    assert not exchange.over
    exchange.data_received(b"\r\n" + b"0\r\n\r\n")
    assert exchange.over


def test_bytes_that_are_no_answer_end_the_exchange_and_are_reported_when_they_are_read() -> None:
    exchange, transport = exchange_of([HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n\r\n"])
    assert (exchange.over, exchange.failure, transport.aborted) == (True, "", True)
    got = read_answer(exchange.reader, exchange.body(), exchange.failure)
    assert got.failure == "a chunk size is not valid: b'zz'"


@pytest.mark.parametrize("head", [b"Content-Length: 99999999\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n", b"\r\n"])
def test_an_answer_is_bounded_whatever_length_it_announces(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_BYTES", 1 << 20)
    exchange, transport = exchange_of([HEAD + head, *[b"x" * (1 << 18)] * 4])
    assert transport.aborted
    assert exchange.failure == "the answer is over 1 MiB"
