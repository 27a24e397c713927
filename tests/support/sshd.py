"""A test sshd on this machine, for engines that are reached by ssh."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.engines import eventually

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin") or ""
USER = getpass.getuser()
needs_sshd = (
    pytest.mark.skipif(os.getuid() != 0, reason="only root may log in with a key of root's to an sshd of its own"),
    pytest.mark.skipif(
        not SSHD or not shutil.which("ssh"), reason="openssh-server and openssh-client are not installed"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A test sshd. `directory` has its keys. Put `bin` first on PATH: it has an `ssh` that reads our configuration,
    because ssh takes the home directory from the password database and not from HOME."""

    directory: Path
    bin: Path
    port: int
    daemon: int

    def restrict(self, path: str) -> None:
        """Give sessions a different PATH."""
        config = self.directory / "sshd_config"
        lines = [line for line in config.read_text().splitlines() if not line.startswith("SetEnv")]
        config.write_text("\n".join([*lines, f"SetEnv PATH={path}", ""]))
        os.kill(self.daemon, signal.SIGHUP)
        eventually(self.answers, "sshd does not come back")

    def answers(self) -> bool:
        asked = subprocess.run(
            ["/usr/bin/ssh", "-F", str(self.directory / "config"), "dgx", "true"], capture_output=True, timeout=20
        )
        return asked.returncode == 0

    def sessions(self) -> list[int]:
        """Return the sshd processes that serve a session."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == self.daemon:
                    found.append(int(stat.parent.name))
        return found


@contextlib.contextmanager
def an_sshd(directory: Path) -> Iterator[Server]:
    """Start an sshd that accepts our key, and stop it after the block. Its keys and configuration are in the
    directory."""
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for key in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key)], check=True)
    (directory / "known").write_text(f"[127.0.0.1]:{port} {(directory / 'host.pub').read_text()}")
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/user.pub\nPermitRootLogin yes\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nSetEnv PATH=/usr/local/bin:/usr/bin:/bin\n"
    )
    common = f"  HostName 127.0.0.1\n  IdentitiesOnly yes\n  UserKnownHostsFile {directory}/known\n"
    (directory / "config").write_text(
        f"Host dgx\n  Port {port}\n  User {USER}\n  IdentityFile {directory}/user\n{common}"
        f"Host stranger\n  Port {port}\n  User {USER}\n  IdentityFile {directory}/stranger\n{common}"
        f"Host unknown\n  Port {port}\n  HostName 127.0.0.1\n  UserKnownHostsFile /dev/null\n"
        f"Host 127.0.0.1\n  IdentityFile {directory}/user\n{common}"
    )
    own = directory / "bin"
    own.mkdir()
    (own / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/config "$@"\n')
    (own / "ssh").chmod(0o755)
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", str(directory / "sshd_config")], stderr=subprocess.DEVNULL)
    found = Server(directory=directory, bin=own, port=port, daemon=daemon.pid)
    try:
        eventually(found.answers, "sshd does not answer")
        yield found
    finally:
        daemon.terminate()
        daemon.wait()
