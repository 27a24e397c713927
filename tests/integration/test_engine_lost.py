"""An engine that is lost in the middle of build, gate run and accept: their messages, and that they give no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_accept import SUITES
from tests.support.checkout import ROOT
from tests.support.engines import Proxy, containers_of, eventually, needs_docker, raw_api
from tests.support.programs import program
from tests.support.toy import IMAGE, Toy, a_toy

pytestmark = needs_docker


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    made = a_toy(tmp_path, "docker")
    workspace = tmp_path / "patchstack.yaml"
    fork = f"    variant: cpu\n    fork: {made.fork.repo.path}\n    fork_ref: product\n"
    workspace.write_text(workspace.read_text().replace("    variant: cpu\n", fork) + SUITES)
    program(tmp_path / "bin", "toy", "echo version: 0; sleep 60")
    return made


def running_of(pid: int) -> list[str]:
    """Return the running containers of a process. The next command removes one that was created but not started."""
    made = set(containers_of(pid))
    with raw_api() as api:
        return [one["Id"] for one in api.containers() if one["Id"] in made]


@pytest.mark.parametrize(
    "command",
    [
        ["build", "toy", "--json"],
        ["gate", "run", "--bin", "bin", "--image", IMAGE, "--json"],
        ["accept", "product", "--dry-run", "--json"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_loses_its_engine_says_so_and_draws_no_verdict(toy: Toy, command: list[str]) -> None:
    if command[0] == "accept":
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        exported = [sys.executable, "-m", "patchstack", "export"]
        subprocess.run(exported, cwd=toy.root, env=environment, check=True, capture_output=True)
        toy.fork.repo.commit("One more", {"more.h": "int more;\n"})
    # The only job of a dry run is over in an instant, so it is lost at its start. The other two are lost as they run.
    proxy = Proxy(toy.root, cut_at=b"/start " if command[0] == "accept" else None)
    child = subprocess.Popen(
        [sys.executable, "-m", "patchstack", *command, "--engine", "docker"],
        cwd=toy.root,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DOCKER_HOST": proxy.spec.removeprefix("docker:")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if command[0] != "accept":
        eventually(lambda: containers_of(child.pid) != [] or child.poll() is not None, "no container", seconds=60)
        proxy.cut()
    stdout, stderr = child.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert child.returncode == 3, (stdout, stderr)
    assert " was lost" in stderr
    assert "hint: run 'patchstack doctor' to check that the engine can be reached, then run the command again" in stderr
    assert not any(json.loads(line).get("holds") for line in stdout.splitlines() if line.startswith("{"))
    eventually(lambda: running_of(child.pid) == [], "a job outlives the connection", seconds=20)
