"""However patchstack or its connection ends, its jobs are gone, its volumes stay, and the messages are clear."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.docker import owner
from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.protocol import EngineLost, EngineUnavailable
from patchstack.errors import PatchstackError
from tests.support.builders import closed
from tests.support.engines import (
    IMAGE,
    SPEC,
    Proxy,
    client,
    container_engine,
    containers_of,
    eventually,
    job,
    names,
    needs_docker,
    ran,
    raw_api,
    shell,
    volume_of,
)

CLIENT = f"""
import sys
from pathlib import Path
from patchstack.engine.choose import open_engine
from patchstack.engine.protocol import Job, Volume
engine = open_engine(sys.argv[1] if len(sys.argv) > 1 else "SPEC", root=Path("ROOT"))
def output(data):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
job = Job(what="test", argv=("/bin/sh", "-c", "SCRIPT"), image="{IMAGE}", volumes=(Volume(name="VOLUME", target="/v"),))
try:
    engine.run(job, output)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def script(spec: str, volume: str, job_script: str, root: Path = Path("/nonexistent")) -> str:
    given = {"SPEC": spec, "VOLUME": volume, "SCRIPT": job_script, "ROOT": str(root)}
    text = CLIENT
    for name, value in given.items():
        text = text.replace(name, value)
    return text


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    engine = container_engine()
    yield engine
    engine.close()


@needs_docker
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_job_is_gone_when_its_client_is_and_the_volume_is_intact(
    engine: ContainerEngine, how: signal.Signals
) -> None:
    with volume_of(engine) as volume:
        running = "echo kept >/v/x; echo begun; while :; do echo >>/v/y; sleep 0.1; done"
        with client(script(SPEC, volume.name, running)) as one:
            one.wait_for(b"begun")
            pid = one.process.pid
            assert len(containers_of(pid)) == 1
            one.end(how)
        if how == signal.SIGINT:
            assert b"interrupted" in one.said
            assert containers_of(pid) == []
        eventually(lambda: containers_of(pid) == [], "the container outlives its client", seconds=5)
        assert ran(engine, shell("cat /v/x", volumes=(volume,)))[1] == "kept\n"
        before, after = ran(engine, shell("wc -l </v/y; sleep 0.5; wc -l </v/y", volumes=(volume,)))[1].splitlines()
        assert int(before) == int(after) > 0


@needs_docker
def test_a_job_that_kills_its_watcher_only_ends_itself(engine: ContainerEngine) -> None:
    outcome, told = ran(engine, shell("echo begun; kill -9 -1; sleep 60"))
    assert told == "begun\n"
    assert outcome.code == 137 and outcome.seconds < 10


@needs_docker
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])
@pytest.mark.local_server
def test_a_connection_lost_in_the_middle_of_a_job_is_said_and_ends_the_job(
    engine: ContainerEngine, tmp_path: Path, family: socket.AddressFamily
) -> None:
    proxy = Proxy(tmp_path, family=family)
    through = container_engine(proxy.spec)
    said = bytearray()

    def output(data: bytes) -> None:
        said.extend(data)
        if b"begun" in said:
            threading.Timer(0.3, proxy.cut).start()

    with volume_of(engine) as volume:
        with pytest.raises(
            EngineLost, match=r"^(test was lost after \d s: |the connection to the engine at ).*"
        ) as lost:
            through.run(shell("echo kept >/v/x; echo begun; sleep 60", volumes=(volume,)), output)
        assert said == b"begun\n"
        assert "run the command again" in str(lost.value.hint)
        eventually(lambda: containers_of(os.getpid()) == [], "the container outlives the connection", seconds=5)
        assert ran(engine, shell("cat /v/x", volumes=(volume,)))[1] == "kept\n"
        with pytest.raises(EngineLost):
            through.about()
    through.close()


@needs_docker
def test_a_connection_lost_while_files_travel_is_said(engine: ContainerEngine, tmp_path: Path) -> None:
    from patchstack.engine.archive import Entry, pack

    with volume_of(engine) as volume:
        proxy = Proxy(tmp_path)
        through = container_engine(proxy.spec)

        def cut_in_the_middle() -> Iterator[bytes]:
            blocks = b"".join(pack([Entry(path=f"{n}", data=bytes(1 << 20)) for n in range(20)]))
            for at in range(0, len(blocks), 1 << 20):
                if at >> 20 == 10:
                    proxy.cut(for_good=False)
                yield blocks[at : at + (1 << 20)]

        with pytest.raises(EngineLost, match=r"was lost, so the engine could not write files into the volume"):
            through.put(volume.name, cut_in_the_middle(), image=IMAGE)
        through.close()
        assert containers_of(os.getpid()) == []  # the engine was reachable again, and removed it on request

        engine.put(volume.name, pack([Entry(path="big", data=bytes(40 << 20))]), image=IMAGE)
        proxy = Proxy(tmp_path / "again")
        through = container_engine(proxy.spec)
        stream = through.get(volume.name, "big", image=IMAGE)
        next(stream)
        proxy.cut()
        with pytest.raises(EngineLost, match=r"was lost, so the engine could not read big from the volume"):
            for _ in stream:
                pass
        through.close()
        with raw_api() as api:  # left for the sweep of a later process
            for found in containers_of(os.getpid()):
                api.remove_container(found, force=True)


@needs_docker
def test_an_engine_that_ends_a_container_itself_is_not_taken_for_the_job(engine: ContainerEngine) -> None:
    def kill() -> None:
        with raw_api() as api:
            api.kill(containers_of(os.getpid())[0])

    said = bytearray()

    def output(data: bytes) -> None:
        said.extend(data)
        threading.Timer(0.1, kill).start()

    with pytest.raises(
        EngineLost, match=r"^test was lost after \d s: another process ended its container \(exit 137\)"
    ):
        engine.run(shell("echo begun; sleep 60"), output)


@needs_docker
def test_what_dead_processes_left_is_swept_and_what_the_living_use_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    here, _, _ = owner.own_label().partition(":")
    host = os.uname().nodename
    labels = {
        "of the dead": f"{here}:{dead.pid}:1",
        "of a pid used again": f"{here}:{os.getpid()}:1",
        "of this process": owner.own_label(),
        "of another machine": f"elsewhere:{dead.pid}:1",
        "of another container": f"{host}/0123abcd:{dead.pid}:1",
        "of an earlier version": f"{host}:{dead.pid}:1",
    }
    with raw_api() as api:
        made = {
            name: api.create_container(IMAGE, ["true"], labels={owner.OWNER_LABEL: label})["Id"]
            for name, label in labels.items()
        }
        try:
            engine = container_engine()
            engine.about()
            engine.close()
            left = {one["Id"] for one in api.containers(all=True)}
            assert {name for name, container in made.items() if container in left} == {
                "of this process",
                "of another machine",
                "of another container",
                "of an earlier version",
            }
        finally:
            for container in made.values():
                if container in {one["Id"] for one in api.containers(all=True)}:
                    api.remove_container(container, force=True)


@needs_docker
def test_output_is_whole_and_in_order(engine: ContainerEngine) -> None:
    counting = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo out $i; echo err $i >&2; done"
    outcome, told = ran(engine, shell(counting))
    assert outcome.ok
    assert told == "".join(f"out {n}\nerr {n}\n" for n in range(1, 100001))


@needs_docker
def test_output_comes_while_the_job_runs(engine: ContainerEngine) -> None:
    came: list[tuple[float, bytes]] = []
    began = time.monotonic()
    engine.run(
        shell("echo first; sleep 1; printf unfinished; sleep 1; echo last"),
        lambda data: came.append((time.monotonic() - began, data)),
    )
    assert b"".join(data for _, data in came) == b"first\nunfinishedlast\n"
    first, middle, last = (next(at for at, data in came if word in data) for word in (b"first", b"unfin", b"last"))
    assert first + 0.8 < middle < last - 0.8


@needs_docker
def test_output_of_any_bytes_and_what_looks_like_a_trailer_arrives(engine: ContainerEngine) -> None:
    fake = "printf '\\036patchstack 0123 0 0\\n\\036'; head -c 300000 /dev/urandom | tee /v/x; printf '\\036pat'"
    with volume_of(engine) as volume:
        said = bytearray()
        assert engine.run(shell(fake, volumes=(volume,)), said.extend).ok
        (info,) = names(engine.get(volume.name, "x", image=IMAGE)).values()
    head, tail = b"\x1epatchstack 0123 0 0\n\x1e", b"\x1epat"
    assert said.startswith(head) and said.endswith(tail)
    assert len(said) == len(head) + info.size + len(tail)


@needs_docker
def test_an_error_in_what_takes_the_output_ends_the_job(engine: ContainerEngine) -> None:
    def output(data: bytes) -> None:
        raise OSError(28, "the log's disk is full")

    with pytest.raises(OSError, match=r"the log's disk is full"):
        engine.run(shell("echo begun; sleep 60"), output)
    assert containers_of(os.getpid()) == []


@needs_docker
def test_processes_that_a_job_leaves_behind_end_with_it(engine: ContainerEngine) -> None:
    with volume_of(engine) as volume:
        left = "(setsid sh -c 'while :; do echo >>/v/x; sleep 0.1; done' >/dev/null 2>&1 &); sleep 0.3; echo done"
        outcome, told = ran(engine, shell(left, volumes=(volume,)))
        assert outcome.ok and told == "done\n"
        assert outcome.seconds < 5
        before, after = ran(engine, shell("wc -l </v/x; sleep 0.5; wc -l </v/x", volumes=(volume,)))[1].splitlines()
        assert int(before) == int(after) > 0


def test_no_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable) as refused:
        container_engine(f"unix://{tmp_path}/docker.sock").about()
    assert refused.value.message == (
        f"no Docker engine at unix://{tmp_path}/docker.sock (named directly): the socket does not exist"
    )
    assert "systemctl start docker" in str(refused.value.hint)


def test_a_dead_socket_is_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
    with pytest.raises(EngineUnavailable, match=r"^no Docker engine at unix://.*: nothing listens there$"):
        ran(container_engine(f"unix://{tmp_path}/s"), job("true"))


def test_a_socket_of_somebody_elses_gives_the_group_as_hint(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        asking = script(f"unix://{tmp_path}/s", "v", "true").replace(
            "except KeyboardInterrupt:", "except Exception as e:"
        )
        asking = asking.replace('print("interrupted", flush=True)', "print(e.render())")
        if os.getuid() == 0:
            for directory in (tmp_path, *tmp_path.parents):
                if directory.stat().st_uid == 0 and directory != Path("/"):
                    directory.chmod(directory.stat().st_mode | 0o111)
            first = "import docker, os, patchstack.engine.choose, patchstack.engine.docker.engine"
            asking = f"{first}\nos.setuid(65534)\n{asking}"
        with closed(tmp_path / "s"), client(asking) as one:
            one.wait_for(b"log in again")
    assert b"permission denied\n\nhint: run 'sudo usermod -aG docker $USER'" in one.said
    assert b"the Docker engine at" in one.said and b"cannot be used" in one.said


@pytest.mark.local_server
def test_what_is_no_docker_engine_is_said_to_be_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(2):
                try:
                    one, _ = listener.accept()
                except OSError:  # the test is over, and the listener closed
                    return
                with one:
                    one.recv(4096)
                    one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\r\nhello")

        threading.Thread(target=answer, daemon=True).start()
        spec = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(PatchstackError, match=f"^no Docker engine answers at {spec}"):
            container_engine(spec).about()
