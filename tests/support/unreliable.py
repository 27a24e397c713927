"""A test git server on this machine whose connections break in the middle."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.builders import run_git

DAEMON = Path(run_git("--exec-path", cwd=Path("/")).stdout.decode().strip()) / "git-daemon"
needs_daemon = pytest.mark.skipif(not DAEMON.is_file(), reason="git daemon is not installed")
_PIECE = 64  # bytes forwarded at a time, so that a connection can break anywhere


class Server:
    """Serves the repositories below a directory with `git daemon`. When `left` bytes have been sent, every connection
    breaks, and new ones end at once; None means never. `sent` counts the sent bytes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.left: int | None = None
        self.sent = 0

    def url(self, name: str) -> str:
        return f"git://127.0.0.1:{self._listening.getsockname()[1]}/{name}"

    def serve(self) -> None:
        """Accept connections until it is closed."""
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def close(self) -> None:
        # Closing the socket does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _answer(self, connection: socket.socket) -> None:
        command = [str(DAEMON), "--inetd", "--export-all", f"--base-path={self._root}", str(self._root)]
        with connection, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None and child.stdout is not None
            asking = threading.Thread(target=_pass_on, args=(connection, child.stdin), daemon=True)
            asking.start()
            while (piece := os.read(child.stdout.fileno(), _PIECE)) and self._may_send(len(piece)):
                with contextlib.suppress(OSError):
                    connection.sendall(piece)
            child.kill()
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            asking.join()

    def _may_send(self, count: int) -> bool:
        with self._lock:
            if self.left is not None:
                if self.left < count:
                    self.left = 0
                    return False
                self.left -= count
            self.sent += count
            return True


def _pass_on(connection: socket.socket, to: IO[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while piece := connection.recv(4096):
            to.write(piece)
            to.flush()
    with contextlib.suppress(OSError):
        to.close()


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Server]:
    """Start a server for the repositories below a directory."""
    server = Server(root)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(timeout=10)
