"""The reader of HTTP answers, compared with h11, for every split of an answer."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.llama.client.wire import MOST_HEAD, AnswerReader, BadAnswer, Framing

_BODY = st.binary(max_size=200)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Draw a complete answer: chunked, by length or until the close, with interim answers, extensions and trailers."""
    out = b"".join(draw(st.lists(st.just(b"HTTP/1.1 100 Continue\r\n\r\n"), max_size=2)))
    status = draw(st.sampled_from([200, 404, 429, 503]))
    head = [b"HTTP/1.1 %d Words" % status, b"Content-Type: text/event-stream", b"X-A:  b \t"]
    kind, body = draw(st.sampled_from(list(Framing))), draw(st.lists(_BODY, max_size=6))
    if kind is Framing.CHUNKED:
        head.append(b"Transfer-Encoding: Chunked")
        pieces = []
        for one in filter(None, body):
            extension = draw(st.sampled_from([b"", b";a=b", b";a"]))
            pieces.append(b"%x%s\r\n%s\r\n" % (len(one), extension, one))
        trailer = draw(st.sampled_from([b"", b"X-Sum: 1\r\n"]))
        whole = b"".join(pieces) + b"0\r\n" + trailer + b"\r\n"
    else:
        whole = b"".join(body)
        if kind is Framing.LENGTH:
            head.append(b"Content-Length: %d" % len(whole))
    return out + b"\r\n".join([*head, b"", b""]) + whole


@st.composite
def split(draw: st.DrawFn) -> list[bytes]:
    """Draw an answer, split anywhere."""
    whole = draw(answers())
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def read(pieces: list[bytes]) -> tuple[int, bytes, bool]:
    """Return status, body, and whether the answer was complete before the close."""
    reader = AnswerReader()
    body = b"".join(reader.feed(piece) for piece in pieces)
    done = reader.done
    reader.close()
    return reader.status, body, done


def judged(pieces: list[bytes]) -> tuple[int, bytes]:
    """Return h11's reading."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a"), ("Connection", "close")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    for piece in [*pieces, b""]:
        connection.receive_data(piece)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, body
            elif event is h11.NEED_DATA:
                break
    raise AssertionError("h11 saw no end")


@given(split())
def test_every_answer_is_what_h11_says(pieces: list[bytes]) -> None:
    status, body, _ = read(pieces)
    assert (status, body) == judged([piece for piece in pieces if piece])


@given(answers())
def test_the_end_is_told_byte_by_byte_as_at_once(whole: bytes) -> None:
    assert read([whole[at : at + 1] for at in range(len(whole))]) == read([whole])


@given(answers(), st.data())
def test_an_answer_cut_short_is_not_whole(whole: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, max(0, len(whole) - 1)))
    reader = AnswerReader()
    reader.feed(whole[:cut])
    if reader.done or (reader.framing is Framing.CLOSE and reader.status):
        return
    with pytest.raises(BadAnswer):
        reader.close()


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([b"HTTP/1.1 200 OK\r\n", b"\r\n", b"0\r\n\r\n"]))))
def test_no_input_gives_anything_but_an_answer_or_its_error(pieces: list[bytes]) -> None:
    reader = AnswerReader()
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.close()
    except BadAnswer as error:
        assert str(error)


_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no answer was received"),
        (b"HTTP/1.1 20", "before the headers were complete"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP/1"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "status line"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "header line"),
        (b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "header line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "Content-Length is not valid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length is not valid"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer coding"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * MOST_HEAD + b"\r\n\r\n", "the headers are larger than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "before the answer was complete"),
        (_HEAD + b"5\r\nabc", "before the answer was complete"),
        (_HEAD + b"g\r\n", "a chunk size is not valid"),
        (_HEAD + b"-5\r\n", "a chunk size is not valid"),
        (_HEAD + b"1\r\nab\r\n", "longer than its stated size"),
        (_HEAD + b"1" * 5000, "a line with a chunk size or a trailer is too long"),
        (_HEAD + b"0\r\n" + (b"X: " + b"y" * 4000 + b"\r\n") * 20, "trailers"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(answer: bytes, words: str) -> None:
    for size in (1, 7, len(answer) or 1):
        reader = AnswerReader()
        with pytest.raises(BadAnswer, match=words):
            for at in range(0, len(answer), size):
                reader.feed(answer[at : at + size])
            reader.close()


def test_a_lone_line_feed_ends_a_header_line() -> None:
    assert read([b"HTTP/1.0 200 OK\nA: b\n\nbody"]) == (200, b"body", False)


def test_an_answer_without_a_body_is_whole_at_once() -> None:
    assert read([b"HTTP/1.1 204 No Content\r\n\r\n"]) == (204, b"", True)
    assert read([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]) == (200, b"", True)
