"""Serve bare repositories over HTTP on this machine, with git's own `http-backend`, and count the sent bytes."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.generate import git_environment

_CHUNK = 1 << 16


class Served:
    """A running server: its URL, and the bytes of the bodies that it sent since `reset`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent = 0
        self._lock = threading.Lock()

    def reset(self) -> None:
        self.sent = 0

    def count(self, size: int) -> None:
        with self._lock:
            self.sent += size


@contextmanager
def served(root: Path) -> Iterator[Served]:
    """Serve every repository below a directory during the block."""
    counter: list[Served] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
            """Print nothing."""

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            environment = {
                **git_environment(),
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            with subprocess.Popen(
                ["git", "http-backend"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as backend:
                assert backend.stdin is not None and backend.stdout is not None
                threading.Thread(target=_feed, args=(backend, body), daemon=True).start()
                self._head(backend)
                while chunk := os.read(backend.stdout.fileno(), _CHUNK):
                    counter[0].count(len(chunk))
                    self.wfile.write(chunk)
            self.close_connection = True

        def _head(self, backend: subprocess.Popen[bytes]) -> None:
            """Read the head byte by byte, so that no byte of the body is consumed."""
            assert backend.stdout is not None
            head = b""
            while not head.endswith((b"\r\n\r\n", b"\n\n")):
                byte = os.read(backend.stdout.fileno(), 1)
                if not byte:
                    break
                head += byte
            fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    counter.append(Served(f"http://127.0.0.1:{server.server_address[1]}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield counter[0]
    finally:
        server.shutdown()
        server.server_close()


def _feed(backend: subprocess.Popen[bytes], body: bytes) -> None:
    assert backend.stdin is not None
    try:
        backend.stdin.write(body)
        backend.stdin.close()
    except BrokenPipeError:
        return
