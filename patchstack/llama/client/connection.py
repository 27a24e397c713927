"""Send one request on one connection and record the time of every piece. The pieces are parsed after the run."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator
from time import monotonic_ns

from patchstack.llama.client.wire import AnswerReader, BadAnswer, Framing

MOST_BYTES = 256 << 20
"""The largest answer in bytes. The connection is closed beyond it."""
_END = b"\r\n\r\n"
_PIECE = 16 << 10
"""The read size in bytes. asyncio's 256 KiB would cost more than all other work on a chunk."""


class Exchange(asyncio.Protocol):
    """A request and its answer. Times are of the monotonic clock in ns, 0 if not reached: `began` (connecting),
    `connected`, `sent` (the request was handed to the kernel), `ended`. `pieces` are the received bytes, each with its
    time. `failure` is why the exchange ended early, empty if the server ended it. During the run only a piece that may
    be the last one is parsed: a chunked body ends with an empty line. What was read by then is in `parts`, with the
    reader that read it.
    """

    __slots__ = (
        *("began", "connected", "ended", "failure", "over", "parts", "pieces", "reader", "request", "sent", "size"),
        *("_done", "_framed", "_left", "_tail", "_transport"),
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
        self._done = done
        self._framed = False  # the end needs no further look: a body by length, or to the close
        self._left = -1  # bytes left of a body with a length; -1 for other framings
        self._tail = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.connected = monotonic_ns()
        with contextlib.suppress(AttributeError):
            transport.max_size = _PIECE  # type: ignore[attr-defined]
        if self.over:
            transport.abort()
            return
        self.sent = monotonic_ns()
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
        else:
            self._tail = tail = data[-4:] if len(data) > 3 else (self._tail + data)[-4:]
            if tail == _END or not self.reader.status:
                self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over:
            self._finish(f"the connection broke: {exc}" if exc is not None else "")

    def fail(self, why: str) -> None:
        """End the exchange here."""
        if not self.over:
            self._finish(why)

    def body(self) -> Iterator[tuple[int, bytes]]:
        """Yield the parts of the body with the times of their pieces, once, after the exchange is over. `reader` has
        the state of the answer after each. Raises `BadAnswer`."""
        yield from self.parts
        for time, data in self.pieces[len(self.parts) :]:
            yield time, self.reader.feed(data)

    def _look(self) -> None:
        """Parse the pieces since the last call, to find out whether the answer is complete."""
        reader = self.reader
        if self._framed:
            return
        try:
            for time, data in self.pieces[len(self.parts) :]:
                self.parts.append((time, reader.feed(data)))
        except BadAnswer:
            self.reader, self.parts = AnswerReader(), []
            self._finish("")  # the error is reported when the answer is read
            return
        if reader.done:
            self._finish("")
        elif reader.status and reader.framing is not Framing.CHUNKED:
            self._framed = True
            self._left = reader.left() if reader.framing is Framing.LENGTH else -1

    def _finish(self, failure: str) -> None:
        self.ended = monotonic_ns()
        self.failure, self.over = failure, True
        if self._transport is not None:
            self._transport.abort()
        self._done(self)


async def connect(exchange: Exchange, address: tuple[str, int], secure: ssl.SSLContext | None, name: str) -> None:
    """Open the connection of an exchange. If it cannot be opened, the exchange fails. Does not raise."""
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
