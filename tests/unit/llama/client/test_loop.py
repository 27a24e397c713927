"""Connections that are read inside the loop's wait, on real sockets. Timers, signals and asyncio's own descriptors are
served as on any loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from time import monotonic
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchstack.llama.client.answers import read_answer
from patchstack.llama.client.connection import Exchange, connect
from patchstack.llama.client.loop import ClientLoop, run
from tests.support.scripted import event, text_event, usage_event

pytestmark = pytest.mark.local_server
_Result = TypeVar("_Result")
BODY = (text_event("a") + text_event("b", "stop") + usage_event(2, "8") + event("[DONE]")).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
Serve = Callable[[socket.socket], None]


@contextmanager
def server(*answers: Serve) -> Iterator[tuple[str, int]]:
    """Answer the first connections in this order, each in a thread."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=len(answers))

    def one(answer: Serve, connection: socket.socket) -> None:
        with closing(connection):
            answer(connection)

    def accept() -> None:
        threads = []
        for answer in answers:
            threads.append(threading.Thread(target=one, args=(answer, listening.accept()[0])))
            threads[-1].start()
        for thread in threads:
            thread.join()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield listening.getsockname()[:2]
    finally:
        thread.join(timeout=20)
        listening.close()
    assert not thread.is_alive()


def answering(*pieces: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for piece in pieces:
            connection.sendall(piece)

    return serve


class Question:
    """An exchange with its end."""

    def __init__(self, address: tuple[str, int], request: bytes = b"ask") -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.exchange = Exchange(request, lambda _: self.ended.set_result(None))
        connect(self.exchange, address, None, "localhost")

    async def answer(self) -> tuple[str, int | None]:
        await asyncio.wait_for(self.ended, 20)
        got = read_answer(self.exchange.reader, self.exchange.body(), self.exchange.failure)
        return got.failure, got.tokens


def on_loop(main: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    async def checked() -> _Result:
        assert isinstance(asyncio.get_running_loop(), ClientLoop)
        return await main()

    return run(checked())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, len(ANSWER) - 1), max_size=6))
def test_an_answer_is_read_however_the_server_splits_it(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(ANSWER)]
    with server(answering(*(ANSWER[a:b] for a, b in pairwise(places)))) as address:
        assert on_loop(lambda: Question(address).answer()) == ("", 2)


def test_times_are_in_order_and_the_server_sees_that_an_ended_connection_is_closed() -> None:
    seen = []

    def serve(connection: socket.socket) -> None:
        answering(ANSWER)(connection)
        seen.append(connection.recv(1))

    async def main() -> Exchange:
        asked = Question(address)
        await asked.answer()
        return asked.exchange

    with server(serve) as address:
        got = on_loop(main)
    assert 0 < got.began <= got.connected <= got.sent <= got.pieces[0][0] <= got.ended
    assert seen == [b""]


def test_an_address_where_nothing_listens_fails_the_exchange_and_not_its_caller() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()[:2]

    async def main() -> tuple[bool, str]:
        asked = Question(address)
        at_once = asked.ended.done()
        await asked.answer()
        return at_once, asked.exchange.failure

    assert on_loop(main) == (False, "no connection: Connection refused")


def test_a_process_without_descriptors_fails_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> socket.socket:
        raise OSError(24, os.strerror(24))

    async def main() -> str:
        monkeypatch.setattr(socket, "socket", full)
        asked = Question(("127.0.0.1", 9))
        await asked.answer()
        return asked.exchange.failure

    assert on_loop(main) == "no connection: Too many open files"


def test_a_request_larger_than_the_kernels_buffers_is_sent_whole() -> None:
    size, read = 32 << 20, []

    def slow(connection: socket.socket) -> None:
        left = size
        while left:
            left -= len(connection.recv(1 << 20))
        read.append(size)
        connection.sendall(ANSWER)

    with server(slow) as address:
        assert on_loop(lambda: Question(address, b"x" * size).answer()) == ("", 2)
    assert read == [size]


def test_an_answer_that_comes_before_the_request_was_read_is_taken() -> None:
    def early(connection: socket.socket) -> None:
        connection.sendall(ANSWER)
        connection.settimeout(0)

    with server(early) as address:
        words, tokens = on_loop(lambda: Question(address, b"x" * (32 << 20)).answer())
    assert (words, tokens) == ("", 2) or words.startswith("the connection broke: ")


def test_a_connection_that_breaks_is_told_in_words() -> None:
    def broken(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with server(broken) as address:
        words, _ = on_loop(lambda: Question(address).answer())
    assert words == "the connection broke: [Errno 104] Connection reset by peer"


def test_an_exchange_that_is_given_up_closes_its_connection_at_any_time() -> None:
    """While it is connecting (nobody accepts), and after."""

    async def main() -> list[str]:
        asked = [Question(address) for _ in range(2)]
        asked[0].exchange.fail("given up at once")
        await asyncio.sleep(0.05)
        asked[1].exchange.fail("given up")
        return [one.exchange.failure for one in asked]

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()[:2]
        assert on_loop(main) == ["given up at once", "given up"]
        ends = [listening.accept()[0] for _ in range(2)]
        got = sorted(end.recv(10) for end in ends)
        for end in ends:
            end.close()
    assert got == [b"", b"ask"]


def test_the_next_exchange_may_begin_where_another_one_ends() -> None:
    """It gets the descriptor that was just closed, perhaps among other events of the same wait."""

    async def main() -> list[int | None]:
        answers: list[int | None] = []
        over = asyncio.get_running_loop().create_future()
        left = 60

        def ended(one: Exchange) -> None:
            answers.append(read_answer(one.reader, one.body(), one.failure).tokens)
            if len(answers) == 80:
                over.set_result(None)
            begin()

        def begin() -> None:
            nonlocal left
            if left:
                left -= 1
                connect(Exchange(b"ask", ended), address, None, "x")

        for _ in range(20):
            connect(Exchange(b"ask", ended), address, None, "x")
        await asyncio.wait_for(over, 20)
        return answers

    with server(*[answering(ANSWER)] * 80) as address:
        assert on_loop(main) == [2] * 80


def test_pieces_that_never_stop_do_not_keep_timers_waiting() -> None:
    """One server writes as fast as it can; a timer of 5 ms runs beside."""
    enough = threading.Event()

    def flood(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(CHUNKED)
        try:
            while not enough.is_set():
                connection.sendall(b"1\r\nx\r\n" * 50)
        except OSError:
            return

    async def main() -> tuple[int, int]:
        asked, ticks, until = Question(address), 0, monotonic() + 0.5
        while monotonic() < until:
            await asyncio.sleep(0.005)
            ticks += 1
        enough.set()
        asked.exchange.fail("enough")
        return ticks, len(asked.exchange.pieces)

    with server(flood) as address:
        ticks, pieces = on_loop(main)
    assert pieces > 100
    assert ticks > 5


def test_asyncios_own_connections_and_signals_are_served_in_the_same_wait() -> None:
    async def main() -> tuple[bytes, tuple[str, int | None], list[str]]:
        heard: list[str] = []
        loop = asyncio.get_running_loop()
        signalled = loop.create_future()

        def hear() -> None:
            heard.append("signal")
            signalled.set_result(None)

        loop.add_signal_handler(signal.SIGUSR1, hear)
        asked = Question(address)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"x")
        first = await reader.read()
        writer.close()
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await asyncio.wait_for(signalled, 20)
        return first, await asked.answer(), heard

    with server(answering(ANSWER), answering(ANSWER)) as address:
        assert on_loop(main) == (ANSWER, ("", 2), ["signal"])


def test_the_loop_closes_what_it_opened() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    before = len(os.listdir("/proc/self/fd"))
    on_loop(main)
    assert len(os.listdir("/proc/self/fd")) == before
