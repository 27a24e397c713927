"""Jobs that run at the same time: a server and its client. However patchstack ends, nothing is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Job, RunsServers
from patchstack.errors import PatchstackError, UsageError
from patchstack.files import processes
from tests.support.engines import IMAGE, SPEC, client, container_engine, containers_of, eventually, needs_docker, shell

LISTEN = """
import socket, sys, time
one = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    near, _ = one.accept()
    near.sendall(b"hello"); near.close()
"""


@pytest.fixture
def host(tmp_path: Path) -> HostEngine:
    return HostEngine(tmp_path / "engine")


@pytest.fixture(scope="module")
def containers() -> Iterator[ContainerEngine]:
    engine = container_engine()
    yield engine
    engine.close()


def python(script: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *args)


def test_a_server_of_this_host_is_found_by_its_own_sockets_and_ends_when_told(host: HostEngine) -> None:
    said = bytearray()
    with host.start(Job(what="serve", argv=python(LISTEN, "0")), said.extend) as server:
        eventually(lambda: server.address is not None, "it never listened")
        assert server.address is not None and server.address[0] == "127.0.0.1"
        assert server.wait(0) is None
        with host.start(
            Job(
                what="ask",
                argv=python(
                    "import socket, sys; print(socket.create_connection(('127.0.0.1', "
                    "int(sys.argv[1]))).recv(9).decode())",
                    str(server.address[1]),
                ),
            ),
            said.extend,
            beside=server,
        ) as asking:
            outcome = asking.wait(30)
        assert outcome is not None and outcome.ok
        ended = server.stop(10)
    assert ended.code == 128 + signal.SIGTERM and b"hello" in said


@pytest.mark.parametrize("script", ["trap '' TERM; while :; do sleep 0.1; done", "sleep 600 & sleep 600 & wait"])
def test_a_server_that_ignores_the_signal_or_forks_is_gone_after_the_grace(host: HostEngine, script: str) -> None:
    with host.start(shell(script, image=None), lambda _: None) as server:
        assert server.wait(0.5) is None
        began = time.monotonic()
        outcome = server.stop(0.5)
        assert time.monotonic() - began < 10
    assert outcome.code in (128 + signal.SIGKILL, 128 + signal.SIGTERM)


def test_a_server_that_ends_by_itself_says_how(host: HostEngine) -> None:
    with host.start(shell("exit 3", image=None), lambda _: None) as server:
        outcome = server.wait(10)
        assert outcome is not None and outcome.code == 3
        assert server.stop(5) == outcome


STARTS = """
import sys, time
from pathlib import Path
from patchstack.engine.choose import open_engine
from patchstack.engine.protocol import Job
engine = open_engine("SPEC", root=Path("ROOT"))
server = Job(what="serve", argv=("/bin/sh", "-c", "echo begun; sleep 600 & sleep 600"), image="IMAGE")
asking = Job(what="ask", argv=("/bin/sh", "-c", "sleep 600"), image="IMAGE")
with engine.start(server, lambda data: None) as one:
    print("started", flush=True)
    one.wait(WAIT)
    with engine.start(asking, lambda data: None, beside=one) as two:
        print("asking", flush=True)
        two.wait(0.5)
        print("stopping", flush=True)
        one.terminate()
        one.wait(600)
"""


@pytest.mark.parametrize("step", [b"started", b"asking", b"stopping"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_any_step_nothing_is_left_running_on_the_host(
    tmp_path: Path, step: bytes, how: signal.Signals
) -> None:
    with client(_script("host", tmp_path)) as one:
        one.wait_for(b"started")
        sessions = _children(one.process.pid)
        assert sessions
        if step != b"started":
            one.wait_for(step)
            sessions |= _children(one.process.pid)  # in the last step, they may have ended already
        one.end(how)
        eventually(
            lambda: not any(found.session in sessions and not found.ended for _, found in processes.visible()),
            "processes are left",
        )


@needs_docker
@pytest.mark.parametrize("step", [b"started", b"asking", b"stopping"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_any_step_no_container_is_left(tmp_path: Path, step: bytes, how: signal.Signals) -> None:
    with client(_script(SPEC, tmp_path)) as one:
        pid = one.process.pid
        one.wait_for(b"started", seconds=60)
        assert containers_of(pid)
        one.wait_for(step, seconds=60)
        one.end(how)
        eventually(lambda: not containers_of(pid), "containers are left", seconds=30)


def _script(spec: str, root: Path) -> str:
    found = STARTS
    for name, value in {"SPEC": spec, "ROOT": str(root), "IMAGE": IMAGE, "WAIT": "0.5"}.items():
        found = found.replace(name, value)
    return found


def _children(parent: int) -> set[int]:
    """Return the sessions of the processes that a process started."""
    found = set()
    for pid, one in processes.visible():
        fields = processes.stat_text(pid).rpartition(")")[2].split()
        if len(fields) > 1 and fields[1] == str(parent) and one.session != os.getsid(0):
            found.add(one.session)
    return found


@needs_docker
def test_a_job_beside_shares_the_loopback_and_nothing_else(containers: ContainerEngine) -> None:
    """The server has a file in its /tmp, and processes. The other job sees neither, and only the loopback interface."""
    said = bytearray()
    listening = (
        "echo here >/tmp/mine; exec perl -MIO::Socket::INET -e '"
        + (
            '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5) or die; print "listening\\n"; '
            '$| = 1; while ($c = $s->accept) { print $c "hello\\n"; close $c }'
        )
        + "'"
    )
    with containers.start(shell(listening), said.extend) as server:
        assert server.wait(1.5) is None
        look = (
            "exec 3<>/dev/tcp/127.0.0.1/8080; cat <&3; ls /tmp; cat /proc/net/dev | tail -n +3 | cut -d: -f1; "
            "ls -d /proc/[0-9]* | wc -l"
        )
        job = Job(what="ask", argv=("/bin/bash", "-c", look), image=IMAGE)
        with containers.start(job, said.extend, beside=server) as asking:
            outcome = asking.wait(30)
        assert outcome is not None and outcome.ok, said
        lines = said.decode().split()
        assert "hello" in lines and "mine" not in lines
        assert [line for line in lines if line in ("lo", "eth0")] == ["lo"]
        ended = server.stop(10)
        assert ended.code == 128 + signal.SIGTERM


@needs_docker
def test_a_container_that_ignores_the_signal_is_gone_after_the_grace(containers: ContainerEngine) -> None:
    with containers.start(shell("trap '' TERM; echo begun; while :; do sleep 0.1; done"), lambda _: None) as server:
        assert server.wait(1) is None
        assert server.stop(0.5).code == 128 + signal.SIGKILL


@needs_docker
def test_a_job_of_another_engine_is_no_company(containers: ContainerEngine, host: HostEngine) -> None:
    assert isinstance(containers, RunsServers)
    assert isinstance(host, RunsServers)
    with (
        host.start(shell("sleep 60", image=None), lambda _: None) as server,
        pytest.raises(UsageError, match="a different engine"),
        containers.start(shell("true"), lambda _: None, beside=server),
    ):
        pass
    with pytest.raises(PatchstackError), containers.start(shell("true", image="no/such"), lambda _: None):
        pass
