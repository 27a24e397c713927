"""A server that `bench serve` started, on this host, in Docker and behind ssh: however patchstack ends, nothing runs
afterwards, and the next run removes the files that were left."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.engines import IMAGE, client_image, containers_of, eventually, needs_docker, raw_api
from tests.support.minillm import Programs, built_upstream
from tests.support.sshd import an_sshd, needs_sshd
from tests.support.thorough import steps

pytestmark = [
    pytest.mark.local_server,
    pytest.mark.skipif(
        shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
    ),
]

# `patchstack` kills itself before or after its N-th call of an engine; with 0 it runs to its end. Of repeated waits for
# a job, only the first and the last count. It writes the number of steps.
KILLED = """
import functools, os, signal, sys
left, counted = int(sys.argv[1]), [0]
sys.argv = ["patchstack", *sys.argv[3:]]

def step():
    counted[0] += 1
    if counted[0] == left:
        os.kill(os.getpid(), signal.SIGKILL)

def stepping(owner, name):
    real = getattr(owner, name)
    @functools.wraps(real)
    def call(*args, **more):
        step()
        found = real(*args, **more)
        step()
        return found
    setattr(owner, name, call)

def waiting(owner):
    real, seen = owner.wait, set()
    def wait(self, seconds):
        if id(self) not in seen:
            seen.add(id(self))
            step()
        found = real(self, seconds)
        if found is not None:
            step()
        return found
    owner.wait = wait

from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.docker.running import ContainerJob
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.host.session import HostJob
for owner in (HostEngine, ContainerEngine):
    for name in ("put", "get", "run", "remove", "start"):
        stepping(owner, name)
for owner in (HostJob, ContainerJob):
    stepping(owner, "stop")
    waiting(owner)
from patchstack.cli.main import main
try:
    main()
finally:
    with open(WHERE, "w") as file:
        file.write(str(counted[0]))
"""


@dataclasses.dataclass(slots=True)
class Place:
    """Where a server runs: options, a PATH, and where this test keeps files. `mark` is a variable of its server."""

    options: tuple[str, ...]
    path: str
    directory: Path
    programs: Programs
    mark: str

    def start(self, kill: int = 0, *load: str) -> subprocess.Popen[str]:
        """Start a run that is killed at a step."""
        script = KILLED.replace("WHERE", repr(str(self.directory / "count")))
        asked = ("--requests", "2", "--concurrency", "2", "--prompt-tokens", "16", "--max-tokens", "8", *load)
        server = ("--server", self.programs.bin, "--model", self.programs.work / "seed-1.mllm")
        words = ("bench", "serve", *server, *asked, "--env", f"MARK={self.mark}", "--allow", "cpu-load", "--json")
        return subprocess.Popen(
            [sys.executable, "-c", script, str(kill), "-", *map(str, words), *self.options],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": self.path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def count(self) -> int:
        """Run to the end, and return the number of steps."""
        child = self.start()
        _, said = child.communicate(timeout=180)
        assert child.returncode in (0, 4), said
        return int((self.directory / "count").read_text())

    def running(self, pid: int) -> list[str]:
        """Return what still runs of a patchstack: local processes with the mark or one of its files, and its
        containers."""
        here = [f"process {path.name}" for path in Path("/proc").glob("[0-9]*") if self._own(path, pid)]
        isolated = self.options and self.options[1] != "host"
        return here + (containers_of(pid) if isolated else [])

    def _own(self, process: Path, pid: int) -> bool:
        if process.name in (str(pid), str(os.getpid())):
            return False
        with contextlib.suppress(OSError):
            words, variables = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            return self.mark.encode() in variables or (b"client.pyz" in words and str(self.cache).encode() in words)
        return False

    @property
    def cache(self) -> Path:
        return Path(os.environ["PATCHSTACK_CACHE"])


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(built_upstream(tmp_path_factory), tmp_path_factory.mktemp("models"))


@pytest.fixture(
    params=["host", pytest.param("docker", marks=needs_docker), pytest.param("ssh", marks=[needs_docker, *needs_sshd])]
)
def place(request: pytest.FixtureRequest, programs: Programs, tmp_path: Path) -> Iterator[Place]:
    mark = uuid.uuid4().hex
    found = Place(("--engine", "host"), os.environ["PATH"], tmp_path, programs, mark)
    with contextlib.ExitStack() as held:
        if request.param != "host":
            found.options = ("--engine", "docker", "--image", IMAGE, "--client-image", client_image())
        if request.param == "ssh":
            (tmp_path / "sshd").mkdir()
            server = held.enter_context(an_sshd(tmp_path / "sshd"))
            found.options = ("--engine", "ssh://dgx", *found.options[2:])
            found.path = f"{server.bin}:{found.path}"
        yield found


def test_killed_at_any_step_nothing_is_left_running(place: Place) -> None:
    count = place.count()
    host = place.options[1] == "host"
    assert count > 20
    every = 8 if host else count  # in containers a run takes seconds: in `make thorough` all of them
    for step in steps(count, every=every, also=() if host else (count // 3, count // 2, 2 * count // 3)):
        child = place.start(step)
        child.communicate(timeout=180)
        assert child.returncode == -signal.SIGKILL, step
        pid = child.pid
        eventually(lambda pid=pid: not place.running(pid), f"something runs after step {step}", seconds=30)  # type: ignore[misc]
    assert place.count() >= count, "the next run does the same, and removes what was left"
    _no_volumes_are_left(host=host, cache=place.cache)


def _no_volumes_are_left(*, host: bool, cache: Path) -> None:
    if host:
        left = [path.name for path in cache.rglob("volumes/*")]
    else:
        with raw_api() as api:
            left = [one["Name"] for one in api.volumes()["Volumes"] or ()]
    gone = [name for name in left if name.startswith(("patchstack-gate-", "patchstack-client-")) and not _alive(name)]
    assert gone == []


def _alive(name: str) -> bool:
    """Return whether the process in a volume's name still runs: then the volume belongs to another test."""
    return any(Path("/proc", word).exists() for word in name.split("-") if word.isdigit())


def test_ctrl_c_while_it_measures_keeps_what_came_and_leaves_nothing_running(place: Place) -> None:
    child = place.start(0, "--max-tokens", "200", "--env", "MINILLM_FAULT=slow:50")
    wanted = 2 if place.options[1] == "host" else 3
    eventually(lambda: len(place.running(child.pid)) >= wanted, "it never measured", seconds=60)
    time.sleep(2.0)
    child.send_signal(signal.SIGINT)
    out, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    document = json.loads(out)
    assert not document["valid"] and "the run was interrupted" in document["problems"]
    eventually(lambda: not place.running(child.pid), "something runs", seconds=30)
