"""An engine over ssh: a real sshd on this machine, the real ssh program, and a real engine."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.archive import Entry, pack
from patchstack.engine.docker import ssh
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.protocol import EngineLost, EngineUnavailable
from patchstack.errors import MissingError
from tests.support.engines import (
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
from tests.support.sshd import USER, Server, an_sshd, needs_sshd

pytestmark = [needs_docker, *needs_sshd]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with an_sshd(tmp_path_factory.mktemp("sshd")) as found:
        yield found


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
            EngineUnavailable, match=r"^docker is not installed on dgx: .*docker.*not found$"
        ) as refused:
            engine.about()
        assert "install the docker program on that machine" in str(refused.value.hint)
    finally:
        server.restrict("/usr/local/bin:/usr/bin:/bin")


def test_a_host_whose_engine_is_not_running_is_said_to_be_one(engine: ContainerEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"^ssh reached dgx, but no Docker engine answers there: ") as refused:
        container_engine(f"ssh://dgx{tmp_path}/docker.sock").about()
    assert "systemctl start docker" in str(refused.value.hint)


def test_without_an_ssh_program_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"^cannot connect to the engine: ssh is not installed$") as refused:
        container_engine("ssh://dgx").about()
    assert refused.value.hint == "run 'apt-get install openssh-client'"


def test_the_command_leaves_to_the_users_configuration_what_was_not_named() -> None:
    assert ssh.arguments("ssh://dgx")[-3:] == ("--", "dgx", "docker system dial-stdio")
    assert "-p" not in ssh.arguments("ssh://dgx") and "-l" not in ssh.arguments("ssh://dgx")
    named = ssh.arguments("ssh://me@[::1]:2222/run/my docker.sock")
    assert named[-7:-3] == ("-l", "me", "-p", "2222")
    assert named[-2:] == ("::1", "docker --host 'unix:///run/my docker.sock' system dial-stdio")


def test_a_server_there_is_asked_from_beside_it_and_stopped(engine: ContainerEngine) -> None:
    listening = (
        "exec perl -MIO::Socket::INET -e '"
        + (
            '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5) or die; '
            '$| = 1; while ($c = $s->accept) { print $c "hello\\n"; close $c }'
        )
        + "'"
    )
    said = bytearray()
    with engine.start(shell(listening), lambda _: None) as running:
        assert running.wait(1.5) is None
        asking = job("/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080; cat <&3")
        with engine.start(asking, said.extend, beside=running) as one:
            outcome = one.wait(30)
        assert outcome is not None and outcome.ok and said == b"hello\n"
        assert running.stop(10).code == 128 + signal.SIGTERM
    assert not containers_of(os.getpid())
