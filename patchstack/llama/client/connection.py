"""Send one request on one connection, and record when each part of the response arrives.

The response is parsed after the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from time import monotonic_ns

from patchstack.llama.client.loop import ClientLoop
from patchstack.llama.client.wire import AnswerReader, BadAnswer, Framing

MOST_BYTES = 256 << 20
"""The maximum size of a response in bytes. If a response is larger, the connection is closed."""
_END = b"\r\n\r\n"
Address = tuple[str, int] | tuple[str, int, int, int]
_PIECE = 16 << 10
"""The read size in bytes.

With asyncio's read size of 256 KiB, a read would take longer than all other work on the data.
"""


class Exchange(asyncio.Protocol):
    """A request and its response.

    Times are in ns on the monotonic clock. They are 0 for events that did not happen. `began` is the time at which the
    client began to connect. `connected` is the time at which the connection was open. `sent` is the time at which the
    request was given to the kernel. `ended` is the time at which the exchange ended. `pieces` contains the result of
    each read: its time and its data. `failure` is the reason why the exchange ended early. It is empty if the response
    is complete, or if the server closed the connection. It is also empty for an invalid response, because `body`
    reports this error.

    During the run, received data is parsed until the headers are complete. After that, it is parsed only if it ends
    with an empty line, which may be the end of a chunked body. `parts` contains the parts of the body that `reader` has
    parsed so far. `hang_up` ends the connection, or the attempt to open it.
    """

    __slots__ = (
        *("began", "connected", "ended", "failure", "hang_up", "over", "parts", "pieces", "reader", "request", "sent"),
        *("size", "_done", "_framed", "_left", "_started", "_tail"),
    )

    def __init__(self, request: bytes, done: Callable[[Exchange], None]) -> None:
        self.request = request
        self.began = monotonic_ns()
        self.connected = self.sent = self.ended = 0
        self.failure = ""
        self.over = False
        self.pieces: list[tuple[int, bytes]] = []
        self.size = 0
        self.reader = AnswerReader()
        self.parts: list[tuple[int, bytes]] = []
        self.hang_up: Callable[[], object] = lambda: None
        self._done = done
        self._started = False  # whether the headers are complete
        self._framed = False  # whether the body is not chunked, so that its end needs no search
        self._left = -1  # bytes still to come of a body with `Content-Length`, otherwise -1
        self._tail = b""

    def open(self) -> None:
        """Record that the connection is open. The caller sends the request immediately afterwards."""
        self.connected = self.sent = monotonic_ns()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        with contextlib.suppress(AttributeError):
            transport.max_size = _PIECE  # type: ignore[attr-defined]
        if self.over:
            transport.abort()
            return
        self.hang_up = transport.abort
        self.open()
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = monotonic_ns()
        if self.over:
            return
        self.pieces.append((now, data))
        self.size += len(data)
        if self.size > MOST_BYTES:
            self._finish(f"the answer is over {MOST_BYTES >> 20} MiB")
        elif self._left > 0:
            self._left -= len(data)
            if self._left <= 0:
                self._finish("")
        elif len(data) > 3:
            self._tail = data
            if data.endswith(_END) or not self._started:
                self._look()
        else:
            self._tail = (self._tail[-3:] + data)[-4:]
            if self._tail == _END or not self._started:
                self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over:
            self._finish(f"the connection broke: {exc}" if exc is not None else "")

    def fail(self, why: str) -> None:
        """End the exchange with this failure, unless it has already ended."""
        if not self.over:
            self._finish(why)

    def body(self) -> Iterator[tuple[int, bytes]]:
        """Yield the parts of the body with their arrival times.

        Call this once, after the exchange is over. After each part, `reader` contains the state of the response. Raises
        `BadAnswer` if the response is invalid.
        """
        yield from self.parts
        for time, data in self.pieces[len(self.parts) :]:
            yield time, self.reader.feed(data)

    def _look(self) -> None:
        """Parse the data that arrived since the last call. Finish the exchange if the response is complete."""
        reader = self.reader
        if self._framed:
            return
        try:
            for time, data in self.pieces[len(self.parts) :]:
                self.parts.append((time, reader.feed(data)))
        except BadAnswer:
            self.reader, self.parts = AnswerReader(), []
            self._finish("")  # the error is reported when the response is read
            return
        self._started = bool(reader.status)
        if reader.done:
            self._finish("")
        elif reader.status and reader.framing is not Framing.CHUNKED:
            self._framed = True
            self._left = reader.left() if reader.framing is Framing.LENGTH else -1

    def _finish(self, failure: str) -> None:
        self.ended = monotonic_ns()
        self.failure, self.over = failure, True
        self.hang_up()
        self._done(self)


class _Plain:
    """The connection of an exchange, without TLS and without asyncio's transports."""

    __slots__ = ("_exchange", "_left", "_receive", "_socket", "_wait")

    def __init__(self, exchange: Exchange, loop: ClientLoop, address: Address) -> None:
        """Begin to connect. Raises `OSError` if this fails immediately."""
        self._exchange, self._wait = exchange, loop.wait
        self._left = memoryview(b"")
        self._socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        self._receive = self._socket.recv
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(BlockingIOError):
                self._socket.connect(address)
            self._wait.add(self._socket.fileno(), select.EPOLLOUT, self._connected)
        except OSError:
            self._socket.close()
            raise
        exchange.hang_up = self.close

    def close(self) -> None:
        """Close the connection. Data that was not sent or not read is lost."""
        self._wait.remove(self._socket.fileno())
        self._socket.close()

    def _connected(self, _: int) -> None:
        problem = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self._exchange.fail(f"no connection: {os.strerror(problem)}")
            return
        self._exchange.open()
        self._left = memoryview(self._exchange.request)
        self._wait.change(self._socket.fileno(), select.EPOLLIN | select.EPOLLOUT, self._sending)
        self._send()

    def _sending(self, events: int) -> None:
        """Receive and send data. The server may respond before it has read the whole request."""
        if events & ~select.EPOLLOUT:
            self._read(events)
        if events & select.EPOLLOUT and not self._exchange.over:
            self._send()

    def _send(self) -> None:
        try:
            self._left = self._left[self._socket.send(self._left) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._exchange.connection_lost(error)
            return
        if not self._left:
            self._wait.change(self._socket.fileno(), select.EPOLLIN, self._read)

    def _read(self, _: int) -> None:
        try:
            data = self._receive(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._exchange.connection_lost(error)
            return
        if data:
            self._exchange.data_received(data)
        else:
            self._exchange.connection_lost(None)


def connect(exchange: Exchange, address: Address, secure: ssl.SSLContext | None, name: str) -> None:
    """Begin to open the connection of an exchange. Does not raise.

    If the connection cannot be opened, the exchange fails later. On a `ClientLoop`, connections without TLS do not use
    asyncio's transports.
    """
    loop = asyncio.get_running_loop()
    if secure is not None or not isinstance(loop, ClientLoop):
        exchange.hang_up = loop.create_task(_transport(exchange, address, secure, name)).cancel
        return
    try:
        _Plain(exchange, loop, address)
    except OSError as error:
        loop.call_soon(exchange.fail, f"no connection: {error.strerror or error}")


async def _transport(exchange: Exchange, address: Address, secure: ssl.SSLContext | None, name: str) -> None:
    """Open a connection through asyncio."""
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(
            lambda: exchange, address[0], address[1], ssl=secure, server_hostname=name if secure else None
        )
    except ssl.SSLCertVerificationError as error:
        exchange.fail(f"the certificate of {name} is not trusted: {error.verify_message}")
    except ssl.SSLError as error:
        exchange.fail(f"no TLS connection to {name}: {error.reason or error}")
    except OSError as error:
        exchange.fail(f"no connection: {error.strerror or error}")
