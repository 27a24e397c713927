"""Run the client of a server next to the server, as two jobs of one engine.

The jobs share only a loopback interface. They can use different images, so the server's image need not contain the
client. Each job has its own lifeline, so both end if patchstack dies.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchstack.causes import NoServersHere
from patchstack.engine.archive import Entry, pack, unpack
from patchstack.engine.leftovers import volume_name
from patchstack.engine.protocol import Ending, Engine, Job, Limits, Outcome, Running, RunsServers, Volume
from patchstack.errors import MissingError, PatchstackError
from patchstack.observe.layout import remove_leftovers
from patchstack.observe.protocol import OUTPUTS, Beside

PORT = 8080
"""The port of a server in a container. It is always free, because every server has its own loopback interface."""
_LOOK = 0.25
_GRACE = 15.0
_TARGET = "/patchstack/client"
Hear = Callable[[str], None]
"""Called with each line that the client prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The result of a client.

    `said` is the text that it printed, and `files` are the files that it left. `server_ended` is true if the server
    ended first. `stopped` is true if the user ended the client.
    """

    outcome: Outcome
    said: str
    files: Mapping[str, bytes]
    server_ended: bool = False
    stopped: bool = False


@dataclass(slots=True)
class _Lines:
    """Splits output into lines. Calls `hear` with each line, and stores the first 1,000 lines."""

    hear: Hear
    said: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        self._rest = self._rest[-8192:]

    def end(self) -> str:
        if self._rest:
            self._line(self._rest)
        return "\n".join(self.said)

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")[:2000]
        if len(self.said) < 1000:
            self.said.append(text)
        self.hear(text)


def listens_at(server: Running, *, isolated: bool, seconds: float) -> str | None:
    """Wait until a server listens, and return its address.

    Returns None if the server ends first, or does not listen within `seconds`. In a container the address is fixed, so
    this function only checks that the server has not ended.
    """
    if isolated:
        return f"127.0.0.1:{PORT}" if server.wait(0) is None else None
    deadline = time.monotonic() + seconds
    while server.wait(0.02) is None and time.monotonic() < deadline:
        if (address := server.address) is not None:
            return f"{address[0]}:{address[1]}"
    return None


def port_for(*, isolated: bool) -> str:
    """Return the port for a server. On a host it is 0, so that the kernel picks a free port."""
    return str(PORT) if isolated else "0"


def ask(
    engine: Engine,
    beside: Beside,
    address: str,
    hear: Hear,
    *,
    server: Running | None = None,
    image: str | None = None,
    seconds: float | None = None,
) -> ClientResult:
    """Run the client of a server until it ends, and return its result.

    `address` replaces `{address}` in the client's files. `image` is for containers, and must have Python. After
    `seconds`, the client is ended. If the server ends first, the client has `grace` seconds to notice.

    If the client is `stoppable`, the first Ctrl-C ends it. The client can then still write its results, and `stopped`
    is true in the result. Any other Ctrl-C raises `KeyboardInterrupt`. Raises `NoServersHere` if the engine cannot run
    servers.
    """
    if not isinstance(engine, RunsServers):
        raise NoServersHere("this engine cannot run servers")
    isolated = engine.about().isolated
    volume = Volume(name=volume_name("patchstack-client"), target=_TARGET)
    place = engine.place(volume)
    files = {name: data.replace(b"{address}", address.encode()) for name, data in beside.files.items()}
    job = Job(
        what=beside.what,
        argv=("python3" if isolated else sys.executable, *(text.replace("{here}", place) for text in beside.args)),
        image=image,
        env={"LC_ALL": "C.UTF-8", **beside.env},
        volumes=(volume,),
        limits=Limits(pids=256, tmp=1 << 28),
    )
    lines = _Lines(hear)
    remove_leftovers(engine)
    try:
        engine.put(volume.name, pack(Entry(path=name, data=data) for name, data in files.items()), image=image)
        try:
            with engine.start(job, lines.take, beside=server) as client:
                outcome, ended, stopped = _followed(client, server, seconds, beside)
        except PatchstackError:
            # After the server's container has ended, no client can start in its network namespace.
            if server is None or (gone := server.wait(1.0)) is None:
                raise
            return ClientResult(outcome=gone, said=lines.end(), files={}, server_ended=True)
        brought = dict(_brought(engine, volume, beside.brings, image))
    finally:
        engine.remove(volume.name)
    return ClientResult(outcome=outcome, said=lines.end(), files=brought, server_ended=ended, stopped=stopped)


def _followed(
    client: Running, server: Running | None, seconds: float | None, beside: Beside
) -> tuple[Outcome, bool, bool]:
    """Wait until the client ends. If the server ends first, the client has `grace` seconds to notice."""
    deadline = None if seconds is None else time.monotonic() + seconds
    ended, stopped = False, False
    while True:
        try:
            if (outcome := client.wait(_LOOK)) is not None:
                return outcome, ended, stopped
            if server is not None and not ended and server.wait(0) is not None:
                ended, deadline = True, min(time.monotonic() + beside.grace, deadline or float("inf"))
            if deadline is not None and time.monotonic() > deadline:
                outcome = client.stop(_GRACE)
                return Outcome(ending=Ending.TIMED_OUT, code=outcome.code, seconds=outcome.seconds), ended, stopped
        except KeyboardInterrupt:
            if stopped or not beside.stoppable:
                raise
            stopped = True
            client.terminate()
            deadline = time.monotonic() + _GRACE


def _brought(engine: Engine, volume: Volume, names: tuple[str, ...], image: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files that the client left. Missing files are skipped."""
    for name in names:
        with contextlib.suppress(MissingError), tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            unpack(engine.get(volume.name, name, image=image), Path(directory), OUTPUTS)
            found = Path(directory, name)
            if found.is_file() and not found.is_symlink():
                yield name, found.read_bytes()
