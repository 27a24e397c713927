"""Connect to a Docker engine over ssh. Each connection has its own `ssh` process, as with the `docker` program.

`ssh HOST docker system dial-stdio` connects its stdin and stdout to the engine's socket. Here, stdin and stdout are one
end of a socket pair. The other end is an ordinary socket, which supports timeouts, half-close and close. The SDK's own
ssh connection does not support them. It also forces port 22 for an alias from ~/.ssh/config, and lets ssh print to the
terminal.
"""

from __future__ import annotations

import shlex
import socket
import tempfile
from typing import IO
from urllib.parse import urlsplit

from patchstack.causes import ProgramMissing
from patchstack.process import Child, clean_environment, start

# A connection without an answer for one minute is lost. A RemoteCommand in ~/.ssh/config would replace patchstack's
# command.
_OPTIONS = {"ConnectTimeout": "30", "ServerAliveInterval": "20", "ServerAliveCountMax": "3", "RemoteCommand": "none"}


def arguments(url: str) -> tuple[str, ...]:
    """Return the command that connects to the engine at `ssh://[USER@]HOST[:PORT][/SOCKET]`.

    A missing user or port comes from ~/.ssh/config. Without SOCKET, `docker` on the remote machine chooses the socket.
    """
    parts = urlsplit(url)
    options = [option for name, value in _OPTIONS.items() for option in ("-o", f"{name}={value}")]
    user = ("-l", parts.username) if parts.username else ()
    port = ("-p", str(parts.port)) if parts.port else ()
    path = parts.path.rstrip("/")
    remote = f"docker --host {shlex.quote(f'unix://{path}')} system dial-stdio" if path else "docker system dial-stdio"
    return ("ssh", "-T", *options, *user, *port, "--", parts.hostname or "", remote)


class Tunnel:
    """Opens connections over ssh, and stores the error messages of the ssh processes."""

    def __init__(self, url: str) -> None:
        self._arguments = arguments(url)
        self._children: list[tuple[Child, IO[bytes]]] = []

    def open(self) -> socket.socket:
        """Return a new connection. Raises `MissingError` if ssh is not installed.

        If ssh fails, the error appears only when the connection is used.
        """
        self._reap()
        ours, theirs = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the child)
        try:
            with theirs:
                # `start` creates a new session, so Ctrl-C does not end ssh: the clean-up still needs the connection.
                child = start(
                    self._arguments,
                    env=clean_environment(network=True),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                )
        except FileNotFoundError as error:
            ours.close()
            said.close()
            raise ProgramMissing(
                "cannot connect to the engine: ssh is not installed", hint="run 'apt-get install openssh-client'"
            ) from error
        self._children.append((child, said))
        return ours

    def complaint(self) -> str:
        """Return the message of the last ssh process that failed. Return an empty string if none failed."""
        for child, said in reversed(self._children):
            code = child.wait_at_most(2)
            said.seek(0)
            words = said.read(1 << 16).decode("utf-8", "replace").strip()
            if code and words:
                return words
        return ""

    def close(self) -> None:
        for child, said in self._children:
            if child.poll() is None:
                child.terminate()
            if child.wait_at_most(5) is None:
                child.kill()
                child.wait()
            said.close()
        self._children.clear()

    def _reap(self) -> None:
        """Forget the ssh processes that ended without an error."""
        for pair in [pair for pair in self._children if pair[0].poll() == 0]:
            pair[1].close()
            self._children.remove(pair)
