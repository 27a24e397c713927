"""A real llama-server on this machine, asked over HTTP by tests and benchmarks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers. `log` is what it has printed."""

    url: str
    log: Path

    def post(self, path: str, body: Any) -> Any:
        """Return the answer to a request."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})  # noqa: S310  (loopback)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=120) as answer:
            return json.loads(answer.read())

    def get(self, path: str) -> Any:
        """Return the answer to a request without a body."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=10) as answer:
            return json.loads(answer.read())


@contextmanager
def llama_server(binaries: Path, model: Path, log: Path, *options: str, threads: int = 2) -> Iterator[Server]:
    """Start a server of a build and wait until it answers. It ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command: Sequence[str] = [
        str(binaries / "llama-server"),
        *("-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-t", str(threads), "--no-webui"),
        *options,
    ]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        server = Server(url=f"http://127.0.0.1:{port}", log=log)
        for _ in range(600):
            if child.poll() is not None:
                raise RuntimeError(
                    f"the server ended with {child.returncode}: {log.read_text(errors='replace')[-2000:]}"
                )
            try:
                if server.get("/health").get("status") == "ok":
                    break
            except OSError:
                time.sleep(0.05)
        yield server
    finally:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
