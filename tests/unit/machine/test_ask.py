"""The ways to ask a machine: here, with ssh, and from inside a container."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from patchstack.engine.protocol import About, Ending, Engine, EngineUnavailable, Job, Outcome, Output
from patchstack.errors import MissingError, UsageError
from patchstack.machine.ask import PLACES, Place, here, over_ssh, reach, through
from patchstack.machine.gpu.lock import Standing, gpu_lock, look
from patchstack.machine.hardware import hardware
from patchstack.process import ProgramTimeout
from tests.support import smi

ABOUT = About(
    spec="docker",
    kind="docker",
    endpoint="unix:///var/run/docker.sock",
    version="28",
    platform="linux/arm64",
    cpus=20,
    memory=1,
    local=True,
    isolated=True,
)


class Scripted:
    """An engine whose jobs run here and are recorded."""

    def __init__(self, about: About = ABOUT, ending: Ending = Ending.EXITED) -> None:
        self.told = about
        self.ending = ending
        self.jobs: list[Job] = []
        self.closed = 0

    def about(self) -> About:
        return self.told

    def run(self, job: Job, output: Output) -> Outcome:
        self.jobs.append(job)
        code, text = here()(job.argv)
        for letter in text.encode():
            output(bytes([letter]))
        return Outcome(ending=self.ending, code=code, seconds=0.1)

    def close(self) -> None:
        self.closed += 1

    def opener(self) -> Callable[[], Engine]:
        return lambda: cast(Engine, self)


def test_a_program_here_gives_its_code_and_all_it_printed() -> None:
    assert here()(("sh", "-c", "echo out; echo err >&2; exit 3")) == (3, "out\nerr\n")
    with pytest.raises(MissingError, match="no-such-program is not installed here"):
        here()(("no-such-program",))
    with pytest.raises(ProgramTimeout):
        here(seconds=0.2)(("sleep", "20"))


def test_ssh_gets_the_command_line_on_stdin_and_the_login_s_own_words_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'echo "$*" >{tmp_path}/said; echo "Welcome to DGX OS"; for last; do :; done; exec $last'
    monkeypatch.setenv("PATH", smi.program(tmp_path / "bin", "ssh", script)["PATH"])
    ask = over_ssh("ssh://me@spark:2222")
    assert ask(("printf", "%s|", "a b", "c'd", "$HOME\n;")) == (0, "Welcome to DGX OS\na b|c'd|$HOME\n;|")
    assert ask(("sh", "-c", "cat; exit 9")) == (9, "Welcome to DGX OS\n")  # stdin is closed
    said = (tmp_path / "said").read_text()
    assert said.endswith("-l me -p 2222 -- spark /bin/sh\n")
    assert hardware(ask).identity() == hardware(here()).identity()
    places = (Place(path=str(tmp_path / "lock")),)
    with gpu_lock(ask, "over there", places=places):
        assert look(here(), places)[0].standing is Standing.LIVE
    assert look(ask, places)[0].standing is Standing.FREE


def test_ssh_that_does_not_get_there_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "echo 'ssh: connect to host spark port 22: Connection refused' >&2; exit 255"
    monkeypatch.setenv("PATH", smi.program(tmp_path / "bin", "ssh", script)["PATH"])
    with pytest.raises(
        EngineUnavailable, match="cannot run programs on ssh://spark: ssh: connect to host spark port 22"
    ):
        over_ssh("ssh://spark")(("true",))


def test_a_container_is_a_job_with_the_gpu_and_an_engine_of_its_own(tmp_path: Path) -> None:
    engine = Scripted()
    ask = through(engine.opener(), image="cuda:13", seconds=7)
    assert hardware(ask).identity() == hardware(here()).identity()
    (job,) = engine.jobs
    assert (job.image, job.gpus, job.limits.seconds, engine.closed) == ("cuda:13", True, 7, 1)
    hanging = Scripted(ending=Ending.TIMED_OUT)
    with pytest.raises(ProgramTimeout, match="true took longer than 7 s in a container"):
        through(hanging.opener(), image="cuda:13", seconds=7)(("true",))
    assert hanging.closed == 1


def test_an_engine_s_machine_is_reached_by_the_shortest_way() -> None:
    local = Scripted()
    reached = reach(cast(Engine, local), local.opener())
    assert (reached.how, reached.places) == ("this machine", PLACES)
    assert reached.ask(("echo", "hello")) == (0, "hello\n")
    assert local.jobs == []
    remote = Scripted(replace(ABOUT, local=False, endpoint="ssh://me@spark"))
    assert reach(cast(Engine, remote), remote.opener()).how == "ssh://me@spark"
    far = Scripted(replace(ABOUT, spec="tcp://spark:2375", local=False, endpoint="tcp://spark:2375"))
    inside = reach(cast(Engine, far), far.opener(), image="cuda:13")
    assert (inside.how, inside.places) == ("a container of tcp://spark:2375", (Place(path="/lock"),))
    inside.ask(("true",))
    assert [(volume.name, volume.target) for volume in far.jobs[0].volumes] == [("patchstack-gpu-lock", "/lock")]
    with pytest.raises(UsageError, match="is reachable only from a container, and no image was named"):
        reach(cast(Engine, far), far.opener())
