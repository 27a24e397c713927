"""Send requests that are not part of a run. Each request uses a new connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass

from patchstack.llama.client.connection import Address, Exchange, connect
from patchstack.llama.client.plan import Target
from patchstack.llama.client.wire import BadAnswer, Framing


class NoRun(Exception):
    """The run cannot start. The message is the reason.

    `kind` is `server` for a problem with the server, and `usage` for wrong settings.
    """

    def __init__(self, words: str, kind: str = "server") -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, or the reason why none was received.

    If there was no response, `status` is 0 and `failure` is the reason. `measured` is true if the body has a marked
    end, by `Content-Length` or by chunked encoding. Only then can a truncated response be detected.
    """

    status: int = 0
    body: bytes = b""
    failure: str = ""
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Door:
    """A server and its address. `key` is an API key, or empty if no key is used."""

    target: Target
    address: Address
    secure: ssl.SSLContext | None
    key: str

    def wire(self, method: str, path: str, body: bytes, accept: str = "*/*") -> bytes:
        """Return a request as bytes."""
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}:{self.target.port}", "Connection: close"]
        head += [f"Accept: {accept}", "Accept-Encoding: identity", "User-Agent: patchstack"]
        if self.key:
            head.append(f"Authorization: Bearer {self.key}")
        if method != "GET":
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*head, "", ""]).encode("latin-1") + body

    async def ask(self, method: str, path: str, body: bytes = b"", *, timeout: float = 60.0) -> Reply:
        """Send one request, and return the reply.

        The request fails if the reply takes more than `timeout` seconds. Does not raise.
        """
        over: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()

        def done(one: Exchange) -> None:
            if not over.done():
                over.set_result(one)

        exchange = Exchange(self.wire(method, path, body), done)
        try:
            connect(exchange, self.address, self.secure, self.target.host)
            await asyncio.wait_for(over, timeout)
        except TimeoutError:
            exchange.fail("no answer in time")
        finally:
            exchange.fail("given up")
        reader = exchange.reader
        try:
            found = b"".join(part for _, part in exchange.body())
            reader.close()
        except BadAnswer as error:
            return Reply(failure=exchange.failure or str(error))
        return Reply(reader.status, found, exchange.failure, reader.framing is not Framing.CLOSE)


async def open_door(target: Target, cacert: str = "", key: str = "") -> Door:
    """Resolve the address of a server, before the run.

    asyncio would resolve it in a thread, which may fail to start on a loaded machine. Raises `NoRun` if the host has no
    address, or if the certificates cannot be read.
    """
    secure = _context(target, cacert)
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NoRun(f"cannot resolve {target.host}: {error.strerror or error}") from error
    usable: list[Address] = [one[4] for one in found if isinstance(one[4][0], str)]
    if not usable:
        raise NoRun(f"cannot resolve {target.host}: it has no usable address")
    for one in usable:  # localhost may have two addresses, and the server may listen on only one
        if await _listens(one):
            return Door(target, one, secure, key)
    return Door(target, usable[0], secure, key)


async def _listens(address: Address) -> bool:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, address)
        except OSError:
            return False
    return True


def _context(target: Target, cacert: str) -> ssl.SSLContext | None:
    if not target.secure:
        return None
    try:
        return ssl.create_default_context(cafile=cacert or None)
    except (OSError, ssl.SSLError) as error:
        raise NoRun(f"cannot read the certificates in {cacert}: {error}", "usage") from error
