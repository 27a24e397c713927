"""Create, run and remove containers on an engine.

A container either runs a job until it ends, or is a carrier that is never started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import docker.errors
import requests

from patchstack.causes import JobCannotStart
from patchstack.engine.archive import Entry, pack
from patchstack.engine.docker.connection import Connection
from patchstack.engine.docker.owner import JOB_LABEL, OWNER_LABEL, is_dead, own_label
from patchstack.engine.lifeline import Ended, Trailer, Why
from patchstack.engine.protocol import Ending, EngineLost, Job, Outcome, Output, PlatformUnsupported
from patchstack.errors import PatchstackError

_HEADER = struct.Struct(">BxxxL")
_BLOCK = 1 << 18


class Late(Exception):
    """The deadline passed."""


class Attached:
    """An attachment to a container.

    While the attachment exists, the container's stdin stays open. The attachment is made before the container starts,
    so it receives all output.
    """

    def __init__(self, stream: Any) -> None:
        """Use the result of the SDK's `attach_socket`: a socket, or a file object that wraps a socket."""
        self._stream = stream
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._received = bytearray()
        self._left = 0

    def read(self, deadline: float | None) -> bytes | None:
        """Return the next chunk of output (stdout or stderr). Return None at the end of the output.

        `deadline` is a time of the monotonic clock. Raises `Late` after the deadline, and `OSError` if the connection
        breaks.
        """
        while True:
            if out := self._frames():
                return out
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Late
            self._socket.settimeout(left)
            try:
                received = self._socket.recv(_BLOCK)
            except TimeoutError:
                continue
            if not received:
                return None
            self._received += received

    def _frames(self) -> bytes:
        """Return the contents of the received frames.

        A frame consists of a header (stream and length) and its content.
        """
        out = bytearray()
        at = 0
        while True:
            if self._left:
                piece = self._received[at : at + self._left]
                out += piece
                at += len(piece)
                self._left -= len(piece)
            if self._left or len(self._received) - at < _HEADER.size:
                break
            _, self._left = _HEADER.unpack_from(self._received, at)
            at += _HEADER.size
        del self._received[:at]
        return bytes(out)

    def close(self) -> None:
        """Close the attachment, which ends a running container."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            self._socket.close()
            self._stream.close()


MOUNTED = "/volume"
_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
GONE = (docker.errors.NotFound, docker.errors.APIError)
"""The errors of the SDK for a request to a container that has already ended."""
_KILLED = 137
_GONE_WITHIN = 60.0


def run(connection: Connection, job: Job, body: dict[str, Any], nonce: str, output: Output) -> Outcome:
    """Run a job in a new container, deliver its output, and remove the container.

    `body` is the request body from `sandbox.container`, and `nonce` is the nonce in this request body.

    Raises `EngineLost` if the connection breaks or another process ends the container. Raises `MissingError` if the
    image lacks the program or the working directory, and `PlatformUnsupported` if the engine cannot run the image's
    programs.
    """
    api, faults = connection.api, connection.faults
    name = f"patchstack-{os.getpid()}-{nonce}"
    trailer = Trailer(nonce)
    attached = None
    beginning = b""
    try:
        with faults.translated(f"create a container for {job.what}"):
            create(api, body, name)
            attached = attach(api, name)
        began = time.monotonic()
        with faults.translated(f"start {job.what}"):
            api.start(name)
        deadline = None if job.limits.seconds is None else began + job.limits.seconds
        while True:
            try:
                with faults.translated(f"run {job.what}"):
                    piece = attached.read(deadline)
            except Late:
                return Outcome(ending=Ending.TIMED_OUT, code=_KILLED, seconds=time.monotonic() - began)
            if piece is None:
                break
            beginning = beginning or piece[:200]
            if shown := trailer.feed(piece):
                output(shown)
            if trailer.whole:
                break
        seconds = time.monotonic() - began
        held, ended = trailer.end()
        if held:
            output(held)
        return outcome(connection, job, name, ended, seconds, beginning)
    except EngineLost:
        name = ""  # not removed, because the engine may not answer; the lifeline ends the container
        raise
    finally:
        if attached is not None:
            attached.close()
        if name:
            with faults.translated(f"remove the container of {job.what}"):
                remove(api, name)


def attach(api: Any, name: str) -> Attached:
    """Attach to a container that was created but is not started yet."""
    attached = Attached(api.attach_socket(name, _ATTACH))
    api.ping()  # the attachment uses the open connection; open the next connection before the job's time starts
    return attached


def outcome(
    connection: Connection, job: Job, name: str, ended: Ended | None, seconds: float, beginning: bytes
) -> Outcome:
    """Return the outcome of a container's job.

    `ended` is the last message of the container's process 1, or None if there was no message. `beginning` contains the
    first bytes of the output. Raises the errors of `run`.
    """
    if ended is None:
        return _without_trailer(connection, job, name, seconds, beginning)
    if ended.code is Why.ABSENT:
        raise JobCannotStart(
            f"{job.what} cannot start: {job.argv[0]} is not in the image {job.image}",
            hint="use an image that contains this program",
        )
    if ended.code is Why.NOWHERE:
        raise JobCannotStart(f"{job.what} cannot run in {job.workdir}: it is not a directory in the container")
    if ended.code is Why.LOST:
        raise _lost(connection, job, seconds, "the connection to the engine was closed")
    code = _KILLED if ended.code is Why.KILLED else int(ended.code)
    ending = Ending.OUT_OF_MEMORY if code and ended.oom_kills else Ending.EXITED
    return Outcome(ending=ending, code=code, seconds=seconds)


def _without_trailer(connection: Connection, job: Job, name: str, seconds: float, beginning: bytes) -> Outcome:
    """Return the outcome of a container whose process 1 ended without its last message.

    The outcome comes from the engine's events.
    """
    with connection.faults.translated(f"report the end of {job.what}"):
        code, oom = fate(connection.api, name)
    if oom:
        return Outcome(ending=Ending.OUT_OF_MEMORY, code=code or _KILLED, seconds=seconds)
    if b"exec format error" in beginning:
        raise PlatformUnsupported(
            f"{job.what} cannot start: the engine cannot run the programs of {job.image}"
            + (f" ({job.platform})" if job.platform else ""),
            hint="use an engine for the platform of the image (docker:CONTEXT, ssh://USER@HOST), or set up emulation: "
            "run 'docker run --privileged --rm tonistiigi/binfmt --install all'",
        )
    if code is None:
        raise _lost(connection, job, seconds, "its output was truncated")
    raise _lost(connection, job, seconds, f"another process ended its container (exit {code}), or the engine stopped")


def _lost(connection: Connection, job: Job, seconds: float, why: str) -> EngineLost:
    words = connection.faults.last_words()
    return EngineLost(
        f"{job.what} was lost after {seconds:.0f} s: {why}" + (f": {words}" if words else ""),
        hint="run 'patchstack doctor' to check that the engine can be reached, then run the command again",
    )


def fate(api: Any, name: str) -> tuple[int | None, bool]:
    """Return the exit code of a container, and whether it ran out of memory.

    A container ran out of memory if the engine reported that the kernel ended a process for lack of memory. The exit
    code is None if the container is still running, or if the engine has no record of its end. Both values come from the
    engine's events, because the container removes itself.
    """
    for _ in range(20):
        try:
            if not api.inspect_container(name)["State"]["Running"]:
                break
        except docker.errors.NotFound:
            break
        time.sleep(0.1)
    else:
        return None, False
    # Request events until two seconds after the engine's current time, so that the answer has the latest events.
    until = int(datetime.fromisoformat(api.info()["SystemTime"]).timestamp()) + 2
    oom = False
    with contextlib.closing(api.events(since=1, until=until, filters={"container": name}, decode=True)) as events:
        for event in events:
            oom |= event.get("status") == "oom"
            if event.get("status") == "die":
                return int(event["Actor"]["Attributes"].get("exitCode", _KILLED)), oom
    return None, oom


def create(api: Any, body: dict[str, Any], name: str) -> None:
    """Create a container.

    Ctrl-C is deferred until the engine answers. Otherwise the container could be created after the clean-up, and would
    never be removed.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        api.create_container_from_config(body, name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def remove(api: Any, name: str) -> None:
    """Kill and remove a container, and wait until it no longer exists.

    The container may be removing itself at the same time.
    """
    deadline = time.monotonic() + _GONE_WITHIN
    while True:
        try:
            api.remove_container(name, v=True, force=True)
            return
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            said = str(error.explanation)  # podman: "state improper"; Docker, after the kill: "is not running"
            ending = error.status_code == 409 or "state improper" in said or "is not running" in said
            if not ending or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def sweep(api: Any) -> None:
    """Remove the containers that belong to ended processes of this machine.

    The owner of a running container is alive, because otherwise the lifeline would have ended the container. So the age
    of a container is evidence for the end of its owner only if the container is not running.
    """
    for found in api.containers(all=True, filters={"label": OWNER_LABEL}):
        still = found.get("State") in ("created", "exited", "dead")
        silent = time.time() - float(found["Created"]) if still else 0.0
        if is_dead(found["Labels"].get(OWNER_LABEL, ""), silent=silent):
            with contextlib.suppress(docker.errors.APIError):  # another patchstack process may also remove it
                remove(api, found["Id"])


@contextlib.contextmanager
def carrier(connection: Connection, image: str, volume: str, doing: str) -> Iterator[str]:
    """Yield the name of a container that is never started and has the volume at `MOUNTED`.

    Files are copied through this container, because an engine gives access to a volume only through a container.
    `doing` describes the copy for errors.
    """
    api, faults = connection.api, connection.faults
    name = f"patchstack-{os.getpid()}-{os.urandom(8).hex()}"
    body = {
        "Image": image,
        "Entrypoint": ["/patchstack"],
        "Labels": {JOB_LABEL: "files", OWNER_LABEL: own_label()},
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [
                {"Type": "volume", "Source": volume, "Target": MOUNTED, "VolumeOptions": {"NoCopy": True}},
            ],
        },
    }
    try:
        with faults.translated(doing):
            create(api, body, name)
        yield name
    except EngineLost:
        with contextlib.suppress(PatchstackError), faults.translated(doing):
            remove(api, name)  # the engine may answer again; otherwise, a later process removes the container
        raise
    except BaseException:
        with faults.translated(doing):
            remove(api, name)
        raise
    else:
        with faults.translated(doing):
            remove(api, name)


@contextlib.contextmanager
def archive(api: Any, name: str, path: str, chunk_size: int) -> Iterator[Iterator[bytes]]:
    """Yield a file or directory of a container as the blocks of a tar stream.

    Raises `docker.errors.NotFound` if `path` does not exist. The SDK's `get_archive` is not used, because its stream
    cannot be closed early. While the engine still sends a stream, the container cannot be removed.
    """
    url = f"{api.base_url}/v{api.api_version}/containers/{name}/archive"
    headers = {"Accept-Encoding": "identity"}
    response = api.get(url, params={"path": path}, headers=headers, stream=True, timeout=(api.timeout, None))
    with contextlib.closing(response):
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            docker.errors.create_api_error_from_http_exception(error)
        yield response.iter_content(chunk_size)


def give_to_owner(api: Any, carrying: str) -> None:
    """Make the user of jobs the owner of the volume's root directory.

    The entry `.` of an archive for the volume cannot change the owner, because the engine skips this entry. So an
    archive for `/` is sent, in which the volume's directory has its own entry.
    """
    entry = pack([Entry(path=MOUNTED.removeprefix("/"))])
    api.put_archive(carrying, "/", entry)
