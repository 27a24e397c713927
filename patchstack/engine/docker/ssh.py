"""Connections to a Docker engine behind ssh: each is an `ssh` of its own, as the `docker` program does it.

`ssh HOST docker system dial-stdio` joins its stdin and stdout to the engine's socket. Here they are one end of a
socket pair, so that the other end is a socket like any other: it can be waited on with a limit, half closed and cut.
The SDK's own way over the ssh program has none of this, forces port 22 onto an alias of ~/.ssh/config, and lets ssh's
complaints go to the terminal.
"""

from __future__ import annotations

import shlex
import socket
import tempfile
from typing import IO
from urllib.parse import urlsplit

from patchstack.causes import ProgramMissing
from patchstack.process import Child, clean_environment, start

# No answer for a minute is a lost connection, not a long silence. A RemoteCommand of ~/.ssh/config would be in the way.
_OPTIONS = {"ConnectTimeout": "30", "ServerAliveInterval": "20", "ServerAliveCountMax": "3", "RemoteCommand": "none"}


def arguments(url: str) -> tuple[str, ...]:
    """Return the command that connects to the engine of `ssh://[USER@]HOST[:PORT][/SOCKET]`; what is not given is for
    ~/.ssh/config to say."""
    parts = urlsplit(url)
    options = [option for name, value in _OPTIONS.items() for option in ("-o", f"{name}={value}")]
    user = ("-l", parts.username) if parts.username else ()
    port = ("-p", str(parts.port)) if parts.port else ()
    path = parts.path.rstrip("/")
    remote = f"docker --host {shlex.quote(f'unix://{path}')} system dial-stdio" if path else "docker system dial-stdio"
    return ("ssh", "-T", *options, *user, *port, "--", parts.hostname or "", remote)


class Tunnel:
    """Opens connections, and keeps what ssh said when the last of them failed."""

    def __init__(self, url: str) -> None:
        self._arguments = arguments(url)
        self._children: list[tuple[Child, IO[bytes]]] = []

    def open(self) -> socket.socket:
        """Return a new connection. Raises `MissingError` if there is no ssh program; that ssh failed is seen only when
        reading from it."""
        self._reap()
        ours, theirs = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the child)
        try:
            with theirs:
                # In a session of its own: Ctrl-C is for patchstack, which needs the connection to clean up.
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
                "ssh is not installed here, and the engine is behind it", hint="apt-get install openssh-client"
            ) from error
        self._children.append((child, said))
        return ours

    def complaint(self) -> str:
        """What the ssh that failed last said, empty if none did."""
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
        """Forget children that ended well."""
        for pair in [pair for pair in self._children if pair[0].poll() == 0]:
            pair[1].close()
            self._children.remove(pair)
