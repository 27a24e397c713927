"""An engine behind ssh: a real sshd on this machine, the real ssh program, and the real engine behind them."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchstack.engine import ssh
from patchstack.engine.archive import Entry, pack
from patchstack.engine.container import ContainerEngine
from patchstack.engine.protocol import EngineLost, EngineUnavailable
from patchstack.errors import MissingError
from tests.engines import (
    IMAGE,
    container_engine,
    containers_of,
    eventually,
    job,
    names,
    needs_docker,
    ran,
    shell,
    volume_of,
)

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin") or ""
USER = getpass.getuser()
pytestmark = [
    needs_docker,
    pytest.mark.skipif(os.getuid() != 0, reason="only root may log in with a key of root's to an sshd of its own"),
    pytest.mark.skipif(
        not SSHD or not shutil.which("ssh"), reason="openssh-server and openssh-client are not installed"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An sshd of our own. `directory` has its keys, `bin` goes first on PATH: an `ssh` that reads our configuration, as
    ssh takes the home directory from the password database and not from HOME."""

    directory: Path
    bin: Path
    port: int
    daemon: int

    def restrict(self, path: str) -> None:
        """Give sessions another PATH."""
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
        """The processes of sshd that serve somebody."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == self.daemon:
                    found.append(int(stat.parent.name))
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("sshd")
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


@pytest.fixture
def engine(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerEngine]:
    monkeypatch.setenv("PATH", f"{server.bin}:{os.environ['PATH']}")
    engine = container_engine("ssh://dgx")
    yield engine
    engine.close()


def test_files_go_there_a_job_runs_there_and_its_files_come_back(engine: ContainerEngine, tmp_path: Path) -> None:
    about = engine.about()
    assert (about.kind, about.endpoint, about.local) == ("docker", "ssh://dgx", False)
    big = os.urandom(3 << 20)
    with volume_of(engine) as volume:
        engine.put(
            volume.name, pack([Entry(path="in", data=big), Entry(path="x", data=b"", executable=True)]), image=IMAGE
        )
        outcome, told = ran(engine, shell("cat /v/in /v/in >/v/out; seq 50000", volumes=(volume,)))
        assert outcome.ok
        assert told.split() == [str(n) for n in range(1, 50001)]
        (info,) = names(engine.get(volume.name, "out", image=IMAGE)).values()
        assert info.size == 2 * len(big)
    assert not containers_of(os.getpid())


def test_user_and_port_can_be_named_too(server: Server, engine: ContainerEngine) -> None:
    named = container_engine(f"ssh://{USER}@127.0.0.1:{server.port}")
    assert named.about().kind == "docker"
    named.close()


def test_ssh_that_dies_in_the_middle_is_said_and_ends_the_job(engine: ContainerEngine, server: Server) -> None:
    said = bytearray()

    def cut() -> None:
        for session in server.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)

    def output(data: bytes) -> None:
        said.extend(data)
        threading.Timer(0.2, cut).start()

    with pytest.raises(
        EngineLost, match=r"^(test was lost after \d s|the connection to the engine at ssh://dgx was lost)"
    ):
        engine.run(shell("echo begun; sleep 60"), output)
    assert said == b"begun\n"
    eventually(lambda: not containers_of(os.getpid()), "the container outlives the connection", seconds=5)
    assert ran(engine, job("echo", "again"))[1] == "again\n"


def test_no_ssh_is_left_behind(engine: ContainerEngine, server: Server) -> None:
    assert ran(engine, job("true"))[0].ok
    engine.close()
    eventually(lambda: not server.sessions(), "somebody is still connected")


@pytest.mark.parametrize(
    ("host", "words", "hint"),
    [
        ("stranger", "Permission denied (publickey)", "ssh-copy-id stranger"),
        ("unknown", "Host key verification failed", "ssh unknown true"),
        ("root@127.0.0.1:1", "Connection refused", "ssh -p 1 root@127.0.0.1 docker version"),
        ("no-such-host.invalid", "Could not resolve hostname", "ssh no-such-host.invalid docker version"),
    ],
)
def test_what_ssh_says_is_passed_on_with_what_to_do(engine: ContainerEngine, host: str, words: str, hint: str) -> None:
    with pytest.raises(EngineUnavailable, match=f"^ssh cannot reach the engine at ssh://{host} ") as refused:
        container_engine(f"ssh://{host}").about()
    assert words in refused.value.message
    assert hint in str(refused.value.hint)


def test_a_host_without_docker_is_said_to_be_one(engine: ContainerEngine, server: Server) -> None:
    server.restrict("/usr/sbin")
    try:
        with pytest.raises(
            EngineUnavailable, match=r"^there is no docker program on dgx: .*docker.*not found$"
        ) as refused:
            engine.about()
        assert "install docker there" in str(refused.value.hint)
    finally:
        server.restrict("/usr/local/bin:/usr/bin:/bin")


def test_a_host_whose_engine_is_not_running_is_said_to_be_one(engine: ContainerEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"^ssh reached dgx, but no Docker engine there: ") as refused:
        container_engine(f"ssh://dgx{tmp_path}/docker.sock").about()
    assert "systemctl start docker" in str(refused.value.hint)


def test_without_an_ssh_program_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"^ssh is not installed here, and the engine is behind it$") as refused:
        container_engine("ssh://dgx").about()
    assert refused.value.hint == "apt-get install openssh-client"


def test_the_command_leaves_to_the_users_configuration_what_was_not_named() -> None:
    assert ssh.arguments("ssh://dgx")[-3:] == ("--", "dgx", "docker system dial-stdio")
    assert "-p" not in ssh.arguments("ssh://dgx") and "-l" not in ssh.arguments("ssh://dgx")
    named = ssh.arguments("ssh://me@[::1]:2222/run/my docker.sock")
    assert named[-7:-3] == ("-l", "me", "-p", "2222")
    assert named[-2:] == ("::1", "docker --host 'unix:///run/my docker.sock' system dial-stdio")
