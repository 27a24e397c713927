"""Real engines for the tests, and ways to break the connection to them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from patchstack.builds.inputs.images import recipe_image
from patchstack.engine.docker.endpoint import resolve
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.docker.owner import OWNER_LABEL
from patchstack.engine.protocol import Engine, ImageMissing, Job, Limits, Outcome, Volume
from patchstack.errors import PatchstackError
from tests.support.checkout import ROOT
from tests.support.daemon import no_engine

SOCKET = os.environ.get("PATCHSTACK_TEST_SOCKET", "/var/run/docker.sock")
"""The socket of a Docker engine, or of podman."""
SPEC = f"unix://{SOCKET}"
IMAGE = "patchstack-test-base:bookworm"
CLIENT = "patchstack-test-client"
"""The repository of the client's image."""


PODMAN = "podman" in SOCKET
_WHY_NOT = no_engine(SOCKET, IMAGE)
needs_docker = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "there is one")


def client_image() -> str:
    """Return the image of the recipe `client` on the tests' base. It is made once, and stays."""
    recipe = ROOT / "builders" / "client"
    tag = recipe_image(CLIENT, recipe)
    engine = container_engine()
    try:
        platform = engine.about().platform
        with contextlib.suppress(ImageMissing):
            engine.image(tag, platform=platform)
            return tag
        engine.build_image(
            recipe, tag=tag, platform=platform, args={"BASE": IMAGE}, output=bytearray().extend, network="host"
        )
        return tag
    finally:
        engine.close()


def container_engine(spec: str = SPEC) -> ContainerEngine:
    return ContainerEngine(resolve(spec, {"HOME": "/nonexistent"}))


@contextlib.contextmanager
def raw_api() -> Iterator[Any]:
    """Open the SDK itself, to see what exists."""
    api = docker.APIClient(base_url=SPEC, version="1.41", timeout=60)
    try:
        yield api
    finally:
        api.close()


def load_image(reference: str, *, architecture: str, files: dict[str, bytes]) -> None:
    """Load an image of one layer, for any architecture, with `docker load`."""

    def archive(contents: dict[str, bytes]) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as written:
            for name, data in contents.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o755
                written.addfile(info, io.BytesIO(data))
        return stream.getvalue()

    layer = archive(files)
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = {"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs}
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    documents = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    with raw_api() as api:
        for told in api.load_image(archive({**documents, "layer.tar": layer})):
            assert "error" not in told, told


@contextlib.contextmanager
def volume_of(engine: Engine, target: str = "/v") -> Iterator[Volume]:
    """Yield the name of a volume that does not exist yet, and remove it afterwards."""
    volume = Volume(name=f"patchstack-test-{uuid.uuid4().hex}", target=target)
    try:
        yield volume
    finally:
        eventually(lambda: _removed(engine, volume.name), "the volume is still in use")


def _removed(engine: Engine, name: str) -> bool:
    try:
        engine.remove(name)
    except PatchstackError:
        return False
    return True


def job(*argv: str, image: str | None = IMAGE, what: str = "test", limits: Limits | None = None, **fields: Any) -> Job:
    return Job(what=what, argv=argv, image=image, limits=limits or Limits(seconds=60), **fields)


def shell(script: str, **fields: Any) -> Job:
    return job("/bin/sh", "-c", script, **fields)


def ran(engine: Engine, what: Job) -> tuple[Outcome, str]:
    """Return the outcome of a job, and all it printed."""
    said = bytearray()
    outcome = engine.run(what, said.extend)
    return outcome, said.decode()


def names(blocks: Iterator[bytes]) -> dict[str, tarfile.TarInfo]:
    """Return the entries of a tar stream."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as archive:
        return {info.name: info for info in archive}


def eventually(is_so: Callable[[], bool], otherwise: str, *, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def containers_of(pid: int) -> list[str]:
    """Return the ids of the containers that a process made."""
    with raw_api() as api:
        found = api.containers(all=True, filters={"label": OWNER_LABEL})
    return [one["Id"] for one in found if one["Labels"][OWNER_LABEL].split(":")[1] == str(pid)]


class Client:
    """A separate Python process that runs `script`. Tests can wait for its output."""

    def __init__(self, script: str, *, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.said = bytearray()

    def wait_for(self, word: bytes, *, seconds: float = 30.0) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while word not in self.said:
                assert selector.select(max(0.0, deadline - time.monotonic())), f"it never said {word!r}: {self.said!r}"
                block = os.read(self.process.stdout.fileno(), 65536)
                assert block, f"it ended without {word!r}: {self.said!r}"
                self.said += block

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end. Return the exit status."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=30)
        self.said += rest
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def client(script: str, **environment: str) -> Iterator[Client]:
    found = Client(script, environment=environment)
    try:
        yield found
    finally:
        found.close()


class Proxy:
    """A socket between a client and the engine that can be cut. With `cut_at`, it cuts itself: when the engine answers
    the first request that contains these bytes. That answer does not reach the client."""

    def __init__(self, directory: Path, *, family: int = socket.AF_UNIX, cut_at: bytes | None = None) -> None:
        self._cut_at = cut_at
        directory.mkdir(exist_ok=True)
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind(str(directory / "p") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        self._listener.listen()
        self.spec = f"unix://{directory / 'p'}"
        if family != socket.AF_UNIX:
            self.spec = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(SOCKET)
                self._pairs += [near, far]
                awaited = threading.Event()  # the request with `cut_at` was sent on this connection
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other, one is near, awaited), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, asks: bool, awaited: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while block := one.recv(65536):
                if asks and self._cut_at is not None and self._cut_at in block:
                    awaited.set()
                elif not asks and awaited.is_set():
                    self.cut()
                    return
                other.sendall(block)
            other.shutdown(socket.SHUT_WR)

    def cut(self, *, for_good: bool = True) -> None:
        """Break every connection, and accept no more."""
        if for_good:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for end in self._pairs:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._pairs.clear()
