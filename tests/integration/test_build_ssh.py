"""`patchstack build` on an engine behind ssh: a whole build, and a connection that is lost in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import needs_docker
from tests.support.sshd import Server, an_sshd, needs_sshd
from tests.support.toy import Toy, a_toy, need_docker, wait_for

pytestmark = [needs_docker, *needs_sshd]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with an_sshd(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def toy(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    need_docker()
    monkeypatch.setenv("PATH", f"{server.bin}:{os.environ['PATH']}")
    return a_toy(tmp_path, "ssh://dgx")


def test_a_series_is_built_over_there_and_proven_and_the_binaries_are_here(toy: Toy) -> None:
    first = toy.build("--json", check=True).document
    assert first["engine"]["endpoint"] == "ssh://dgx"
    assert {proof["verdict"] for proof in first["proofs"]} == {"PASS"}
    assert (Path(first["out_dir"]) / "bin" / "toy").is_file()
    assert toy.build("--json", check=True).document["hit"] is True


def test_docker_host_names_it_as_well(toy: Toy) -> None:
    here = Toy(root=toy.root, fork=toy.fork, engine="docker")
    built = here.build("--json", "--at", "1", check=True, DOCKER_HOST="ssh://dgx").document
    assert built["engine"]["endpoint"] == "ssh://dgx"


def test_a_connection_that_is_lost_is_said_and_the_next_build_goes_on(toy: Toy, server: Server) -> None:
    text = toy.fork.repo.git("show", f"{toy.fork.commits[-1]}:CMakeLists.txt")
    toy.commit("Sleep", {"CMakeLists.txt": text + "\nadd_custom_command(TARGET toy PRE_BUILD COMMAND sleep 60)\n"})
    child = toy.start()
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("[1/2]"):  # the job runs, on a separate connection
            break
    assert wait_for(server.sessions)
    for session in server.sessions():
        os.kill(session, signal.SIGKILL)
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 3, (stdout, stderr)
    assert "was lost" in stderr
    assert "the log is in" in stderr
    assert "hint: " in stderr
    assert toy.build("--at", "2", check=True).code == 0
