"""Jobs on this machine."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Ending, Engine, EnginePath, Limits, PlatformUnsupported
from patchstack.errors import MissingError, UsageError
from tests.integration.test_engine_death import script
from tests.support.engines import client, container_engine, eventually, job, needs_docker, ran, shell, volume_of


@pytest.fixture
def engine(tmp_path: Path) -> HostEngine:
    return HostEngine(tmp_path / "engine")


def running(mark: str) -> list[int]:
    """Return the processes, without zombies, whose command line has the mark."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes()
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in command and state != "Z" and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


def test_the_host_says_what_it_is(engine: HostEngine) -> None:
    about = engine.about()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    assert about.platform == f"linux/{machine}"
    assert (about.spec, about.local, about.isolated) == ("host", True, False)
    assert about.cpus >= 1 and about.memory > 1 << 28
    assert engine.image("whatever:1", platform="linux/amd64") is None


def test_a_job_gets_its_environment_a_path_and_a_home_of_its_own(engine: HostEngine, tmp_path: Path) -> None:
    outcome, told = ran(engine, job("/usr/bin/env", env={"A": "1"}))
    assert outcome.ok
    found = dict(line.split("=", 1) for line in told.splitlines())
    assert set(found) == {"A", "PATH", "HOME"}
    assert Path(found["HOME"]).is_relative_to(tmp_path / "engine")
    assert not Path(found["HOME"]).exists()
    assert ran(engine, job("/usr/bin/env", env={"HOME": "/h", "PATH": "/p"}))[1] in (
        "HOME=/h\nPATH=/p\n",
        "PATH=/p\nHOME=/h\n",
    )


def test_output_is_one_stream_in_order_and_whole(engine: HostEngine) -> None:
    outcome, told = ran(engine, shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo o $i; echo e $i >&2; done"))
    assert outcome.ok
    assert told == "".join(f"o {n}\ne {n}\n" for n in range(1, 100001))


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -SEGV $$", 139), ("kill -9 $$", 137)])
def test_an_exit_code_is_the_jobs_and_nothing_is_said_of_signals(engine: HostEngine, script: str, code: int) -> None:
    outcome, told = ran(engine, shell(script))
    assert (outcome.ending, outcome.code, told) == (Ending.EXITED, code, "")


def test_stdin_is_closed(engine: HostEngine) -> None:
    assert ran(engine, shell("cat; readlink /proc/self/fd/0"))[1] == "/dev/null\n"


def test_a_job_ends_with_all_it_started_when_its_time_is_up(engine: HostEngine, tmp_path: Path) -> None:
    mark = f"{tmp_path}/mark"
    left = f"timeout 99 sh -c 'sleep 99; : {mark}' & (sh -c 'sleep 99; : {mark}' &) ; sleep 99; : {mark}"
    outcome, _ = ran(engine, shell(left, limits=Limits(seconds=1)))
    assert outcome.ending is Ending.TIMED_OUT
    assert 1 <= outcome.seconds < 2
    eventually(lambda: not running(mark), "something of the job runs on", seconds=2)


def test_what_a_job_leaves_in_the_background_ends_with_it(engine: HostEngine, tmp_path: Path) -> None:
    mark = f"{tmp_path}/mark"
    left = f"sh -c 'sleep 99; : {mark}' & timeout 99 sh -c 'sleep 99; : {mark}' & echo done"
    outcome, told = ran(engine, shell(left))
    assert outcome.ok and told == "done\n" and outcome.seconds < 2
    eventually(lambda: not running(mark), "something of the job runs on", seconds=2)


def test_what_forks_while_it_is_ended_ends_as_well(engine: HostEngine, tmp_path: Path) -> None:
    """Each of these forks again and again, always into a new group: a single pass over the process table misses the
    newest."""
    hop = "os.setpgid(0, 0); time.sleep(0.01)"
    hops = f"import os, time; end = time.time() + 4\nwhile time.time() < end and not os.fork(): {hop}"
    hopping = f'{sys.executable} -c "{hops}" {tmp_path}/mark'
    outcome, _ = ran(engine, shell(f"for n in 1 2 3 4 5 6 7 8; do {hopping} & done; sleep 1"))
    assert outcome.ok and len(running(f"{tmp_path}/mark")) == 0


def test_what_takes_a_group_of_its_own_while_it_is_ended_ends_as_well(engine: HostEngine, tmp_path: Path) -> None:
    """`timeout` leaves the job's group soon after its start, possibly between a pass over the process table and the
    kill."""
    mark = f"{tmp_path}/mark"
    leaving = f"for n in 1 2 3 4 5 6 7 8; do timeout 99 sh -c 'sleep 99; : {mark}' & done"
    for _ in range(25):
        assert ran(engine, shell(leaving))[0].ok
        assert running(mark) == []


def test_a_job_that_closes_its_output_is_waited_for(engine: HostEngine) -> None:
    outcome, told = ran(engine, shell("echo said; exec >/dev/null 2>&1; sleep 1; exit 3"))
    assert (outcome.code, told) == (3, "said\n")
    assert outcome.seconds >= 1


def test_a_daemon_that_gets_away_does_not_hold_up_the_answer(engine: HostEngine) -> None:
    outcome, told = ran(engine, shell("setsid sleep 3 & echo done"))
    assert outcome.ok and told == "done\n" and outcome.seconds < 2


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_job_is_gone_when_its_client_is(tmp_path: Path, how: signal.Signals) -> None:
    mark = f"{tmp_path}/mark"
    job_script = f"timeout 99 sh -c 'sleep 99; : {mark}' & echo begun; sleep 99; : {mark}"
    with client(script("host", "v", job_script, root=tmp_path / "engine")) as one:
        one.wait_for(b"begun")
        assert len(running(mark)) >= 3
        one.end(how)
    eventually(lambda: not running(mark), "something of the job outlives its client", seconds=3)


def test_an_error_in_what_takes_the_output_ends_the_job(engine: HostEngine, tmp_path: Path) -> None:
    def output(data: bytes) -> None:
        raise OSError(28, "the log's disk is full")

    with pytest.raises(OSError, match="the log's disk is full"):
        engine.run(shell(f"echo begun; sleep 99; : {tmp_path}/mark"), output)
    eventually(lambda: not running(f"{tmp_path}/mark"), "the job runs on", seconds=2)


def test_what_is_not_here_is_named(engine: HostEngine) -> None:
    with pytest.raises(MissingError, match=r"^test cannot start: no-such-program is not installed here$") as refused:
        ran(engine, job("no-such-program"))
    assert refused.value.hint == "install no-such-program and put it on PATH"
    with pytest.raises(MissingError, match=r"^test cannot run in /no/where: it is not a directory$"):
        ran(engine, job("true", workdir="/no/where"))
    with pytest.raises(MissingError, match=r"^test cannot start: /no/cuda does not exist on this machine$"):
        ran(engine, job("true", paths=(EnginePath(source="/no/cuda", target="/cuda"),)))
    with pytest.raises(PlatformUnsupported, match=r"^test is for linux/riscv64, and this machine is linux/"):
        ran(engine, job("true", platform="linux/riscv64"))


def test_what_cannot_be_run_is_refused(engine: HostEngine) -> None:
    with pytest.raises(UsageError, match=r"^test cannot start: the job has no command$"):
        ran(engine, job())
    with pytest.raises(UsageError, match=r"^test cannot be run: embedded null byte$"):
        ran(engine, job("echo", "a\0b"))


def typed(argv: tuple[str, ...], what: str) -> str:
    """Return the output of a shell on a terminal for one line."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)  # noqa: S606
    said = b""
    try:
        os.write(terminal, f"{what}; exit\n".encode())
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    block = os.read(terminal, 65536)
                except OSError:
                    break
                if not block:
                    break
                said += block
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGHUP)
        os.waitpid(pid, 0)
    return said.decode()


@pytest.fixture(params=["host", pytest.param("docker", marks=needs_docker)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine: HostEngine | ContainerEngine
    engine = HostEngine(tmp_path / "engine") if request.param == "host" else container_engine()
    yield engine
    engine.close()


def test_a_shell_is_where_the_job_runs(either: Engine) -> None:
    with volume_of(either) as volume:
        place = either.place(volume)
        assert ran(either, shell(f"echo kept >{place}/file", volumes=(volume,)))[0].ok
        line = either.shell(job("true", volumes=(volume,), workdir=place, env={"MARK": "m-1"}))
        told = typed(line, "cat file; pwd; echo $MARK $((40+2))-$(id -u)")
        assert "kept" in told and place in told
        assert f"m-1 42-{1000 if isinstance(either, ContainerEngine) else os.getuid()}" in told


@needs_docker
def test_a_shell_in_a_container_has_no_network() -> None:
    engine = container_engine()
    assert "devices: lo." in typed(engine.shell(job("true")), "echo devices: $(ls /sys/class/net).")
    engine.close()
