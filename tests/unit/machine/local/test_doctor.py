"""The doctor's findings on a machine, and its advice."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from patchstack.engine.protocol import About, Engine, EngineUnavailable
from patchstack.errors import Exit, MissingError, UsageError
from patchstack.installed import By, Installed
from patchstack.machine.local.doctor import Check, State, checkup_of
from patchstack.machine.local.facts import EngineReply, Facts, Gpu, ask_together, gather, read_gpus
from patchstack.machine.local.toolchain import Tool
from patchstack.report.doctor import advice_lines, doctor_table
from patchstack.report.documents.doctor import doctor_document


def tool(name: str, version: str, found_by: str = "PATH") -> Tool:
    return Tool(name=name, path=Path(f"/usr/bin/{name}"), version=version, found_by=found_by)


HOST = About(
    spec="host",
    kind="host",
    endpoint="lab",
    version="Linux 6.1",
    platform="linux/amd64",
    cpus=1,
    memory=8 << 30,
    local=True,
    isolated=False,
)
DOCKER = replace(
    HOST, spec="docker", kind="docker", endpoint="unix:///x", version="28.1", cpus=16, memory=128 << 30, isolated=True
)
DOWN = EngineReply(spec="docker", problem="no Docker engine answers at unix:///x", hint="start it")
ALL = Facts(
    tools={
        "git": tool("git", "2.39.5"),
        "c++": tool("c++", "13.3.0"),
        "cmake": tool("cmake", "3.28.3"),
        "ninja": tool("ninja", "1.11.1"),
        "ccache": tool("ccache", "4.9"),
    },
    nvcc=tool("nvcc", "13.0.88", "CUDACXX"),
    nvcc_problem="",
    cuobjdump=tool("cuobjdump", "13.0.85"),
    packages={"docker": True, "in_toto_attestation": True, "elftools": True},
    installed=Installed(
        by=By.PIP,
        source="file:///dist/patchstack-1.whl",
        pip_install="pip install",
        program=Path("/venv/bin/patchstack"),
        python=Path("/venv/bin/python"),
    ),
    engines=(EngineReply(spec="docker", about=DOCKER), EngineReply(spec="host", about=HOST)),
    contexts=("default", "spark"),
    current="unix:///x (docker's default socket)",
    contexts_problem="",
    buildx="v0.17.1",
    podman_socket="/run/podman/podman.sock",
    gpus=(Gpu(name="NVIDIA GB10", capability="12.1", driver="580.95", memory="[N/A]"),),
    gpu_problem="",
    cache="/home/me/.cache/patchstack",
    cache_free=50 << 30,
    engine_free=40 << 30,
)
NOTHING = replace(
    ALL,
    tools=dict.fromkeys(ALL.tools),
    nvcc=None,
    cuobjdump=None,
    packages=dict.fromkeys(ALL.packages, False),
    engines=(DOWN, EngineReply(spec="host", about=HOST)),
    contexts=("default",),
    buildx=None,
    podman_socket=None,
    gpus=None,
    cache_free=None,
    engine_free=None,
)


def without(facts: Facts, *names: str) -> Facts:
    return replace(facts, tools={**facts.tools, **dict.fromkeys(names)})


def check(facts: Facts, name: str) -> Check:
    return next(found for found in checkup_of(facts).checks if found.name == name)


def states(facts: Facts) -> dict[str, str]:
    return {found.name: found.state.value for found in checkup_of(facts).checks if found.state is not State.OK}


def test_a_machine_that_has_it_all_needs_nothing() -> None:
    checkup = checkup_of(ALL)
    assert states(ALL) == {}
    assert (checkup.verify, checkup.builds, checkup.exit_code) == (True, ("docker", "host"), Exit.HOLDS)
    assert [found.name for found in checkup.checks] == [
        *("git", "cache", "docker", "host", "docker contexts", "buildx", "podman"),
        *("patchstack[docker]", "patchstack[build]", "c++", "cmake", "ninja", "ccache", "nvcc", "cuobjdump", "gpu 0"),
    ]
    assert check(ALL, "docker").found == "docker 28.1 at unix:///x: linux/amd64, 16 CPUs, 128.0 GiB, 40.0 GiB free"
    assert check(ALL, "host").found == "Linux 6.1 at lab: linux/amd64, 1 CPU, 8.0 GiB"
    assert check(ALL, "nvcc").found == "13.0.88 (/usr/bin/nvcc, by CUDACXX); supports sm_121"
    assert check(ALL, "gpu 0").found == "NVIDIA GB10, compute capability 12.1, driver 580.95, [N/A]"


def test_a_machine_that_has_nothing_is_told_how_to_get_it() -> None:
    checkup = checkup_of(NOTHING)
    assert (checkup.verify, checkup.builds, checkup.exit_code) == (False, (), Exit.MISSING)
    assert states(NOTHING) == {
        "git": "missing",
        "cache": "optional",
        "docker": "missing",
        "host": "missing",
        "buildx": "optional",
        "podman": "optional",
        "patchstack[docker]": "optional",
        "patchstack[build]": "missing",
        "c++": "missing",
        "cmake": "missing",
        "ninja": "missing",
        "ccache": "optional",
        "nvcc": "optional",
        "cuobjdump": "optional",
        "gpu": "optional",
    }
    assert all(found.get for found in checkup.checks if found.state is not State.OK)
    assert list(advice_lines(checkup)) == [
        "missing: git, for all commands, to read repositories and decide which patches apply: apt install git",
        "missing: docker, for builds, in a sandbox: start it",
        "missing: host, for builds on this machine, without a sandbox: apt install g++ cmake ninja-build",
        "missing: patchstack[build], for proofs and provenance of every build: "
        "pip install 'patchstack[build] @ file:///dist/patchstack-1.whl'",
        "missing: c++, for builds on this machine (--engine host): apt install g++",
        "missing: cmake, for builds on this machine (--engine host): apt install cmake",
        "missing: ninja, for builds on this machine (--engine host): apt install ninja-build",
        "optional: cache, for fetched repositories, and the builds of the host: "
        "10 GiB are usually enough; set PATCHSTACK_CACHE to use a different disk",
        "optional: buildx, for images for other platforms (without buildx, the engine's own builder is used): "
        "apt install docker-buildx (docker-buildx-plugin in Docker's own packages)",
        "optional: podman, for builds without Docker: --engine unix://SOCKET: "
        "systemctl --user enable --now podman.socket",
        "optional: patchstack[docker], for builds in containers: "
        "pip install 'patchstack[docker] @ file:///dist/patchstack-1.whl'",
        "optional: ccache, for faster repeated builds on this machine: apt install ccache",
        "optional: nvcc, for CUDA builds on this machine (--engine host, or --toolkit): "
        "https://developer.nvidia.com/cuda-downloads; images for container builds include the toolkit",
        "optional: cuobjdump, for proofs of the GPUs that CUDA binaries support: "
        "pip install 'patchstack[cuda] @ file:///dist/patchstack-1.whl'",
        "optional: gpu, for running CUDA builds here: if this machine has a GPU, install NVIDIA's driver: "
        "https://www.nvidia.com/drivers",
        "verify cannot run; builds can run nowhere",
    ]


@pytest.mark.parametrize(
    ("facts", "builds", "missing"),
    [
        (without(ALL, "c++"), ("docker",), []),
        (without(ALL, "ccache"), ("docker", "host"), []),
        (replace(ALL, engines=(DOWN, ALL.engines[1])), ("host",), []),
        (replace(without(ALL, "ninja"), engines=(DOWN, ALL.engines[1])), (), ["docker", "host", "ninja"]),
        (replace(ALL, engines=(DOWN,)), (), ["docker"]),
        (replace(without(ALL, "c++"), engines=ALL.engines[1:]), (), ["host", "c++"]),
        (replace(without(ALL, "c++", "cmake", "ninja"), engines=ALL.engines[:1]), ("docker",), []),
        (replace(ALL, packages={**ALL.packages, "elftools": False}), (), ["patchstack[build]"]),
    ],
)
def test_builds_need_one_engine_that_can_and_no_more(facts: Facts, builds: tuple[str, ...], missing: list[str]) -> None:
    checkup = checkup_of(facts)
    assert checkup.builds == builds
    assert checkup.exit_code == (Exit.HOLDS if builds else Exit.MISSING)
    assert [found.name for found in checkup.checks if found.state is State.MISSING] == missing


@pytest.mark.parametrize(
    ("version", "state", "verify"), [("2.32.0", "ok", True), ("2.31.8", "missing", False), ("", "missing", False)]
)
def test_git_must_not_be_too_old(version: str, state: str, verify: bool) -> None:
    facts = replace(ALL, tools={**ALL.tools, "git": tool("git", version)})
    assert (check(facts, "git").state.value, checkup_of(facts).verify) == (state, verify)
    if not verify:
        assert check(facts, "git").found.endswith("; 2.32 or newer is needed")
        assert checkup_of(facts).exit_code is Exit.MISSING


def test_a_cmake_that_knows_no_cuda_architectures_cannot_build_on_the_host() -> None:
    facts = replace(ALL, tools={**ALL.tools, "cmake": tool("cmake", "3.16.3")}, engines=ALL.engines[1:])
    assert checkup_of(facts).builds == ()
    assert check(facts, "cmake").found == "3.16.3 (/usr/bin/cmake); 3.18 or newer is needed"
    assert check(facts, "host").found == "Linux 6.1 at lab: linux/amd64, 1 CPU, 8.0 GiB; cmake missing or too old"


def test_an_nvcc_too_old_for_gb10_is_said_to_be() -> None:
    found = check(replace(ALL, nvcc=tool("nvcc", "12.8.93")), "nvcc")
    assert (found.state, found.found) == (
        State.OPTIONAL,
        "12.8.93 (/usr/bin/nvcc); too old for sm_121, which needs CUDA 12.9",
    )


def test_a_wrong_cudacxx_and_a_driver_that_is_not_loaded_are_told() -> None:
    facts = replace(
        ALL, nvcc=None, nvcc_problem="CUDACXX names /x, which cannot be run", gpus=None, gpu_problem="it fails"
    )
    assert check(facts, "nvcc").found == "CUDACXX names /x, which cannot be run"
    assert check(facts, "gpu").found == "it fails"
    assert check(replace(ALL, gpus=()), "gpu").found == "nvidia-smi lists no GPUs"


def test_what_hangs_is_not_said_to_be_absent() -> None:
    facts = replace(NOTHING, late=("git", "nvcc", "ninja"))
    assert {name: check(facts, name).found for name in ("git", "nvcc", "ninja", "cmake")} == {
        "git": "no answer in time",
        "nvcc": "no answer in time",
        "ninja": "no answer in time",
        "cmake": "not found",
    }


def test_a_full_disk_is_said_to_be() -> None:
    found = check(replace(ALL, cache_free=1 << 30), "cache")
    assert (found.state, found.found) == (State.OPTIONAL, "1.0 GiB free at /home/me/.cache/patchstack")


def test_the_document_holds_all_of_it() -> None:
    document = json.loads(doctor_document(checkup_of(ALL)).line)
    assert {key: document[key] for key in ("schema", "verify", "builds", "exit_code")} == {
        "schema": "patchstack.doctor/1",
        "verify": True,
        "builds": ["docker", "host"],
        "exit_code": 0,
    }
    docker = document["checks"][2]
    assert docker["details"] == {
        "kind": "docker",
        "endpoint": "unix:///x",
        "version": "28.1",
        "platform": "linux/amd64",
        "cpus": 16,
        "memory": 128 << 30,
        "free": 40 << 30,
    }
    assert document["checks"][0]["details"] == {"path": "/usr/bin/git", "version": "2.39.5", "found_by": "PATH"}
    assert set(doctor_table(checkup_of(ALL)).rows[0]) == {"verify", "git", "ok", "2.39.5 (/usr/bin/git)"}


# Asking the machine


class FakeEngine:
    """Answers, or does not."""

    def __init__(self, about: Callable[[], About]) -> None:
        self.about = about
        self.closed = False

    def close(self) -> None:
        self.closed = True


def ask(tmp_path: Path, opened: Callable[[str], Any], *specs: str, **env: str) -> Facts:
    return gather(
        specs,
        {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), **env},
        cache=tmp_path / "not" / "yet" / "there",
        open_engine=lambda spec: cast("Engine", opened(spec)),
        roots=[tmp_path],
    )


def test_with_everything_absent_it_still_answers(tmp_path: Path) -> None:
    def opened(spec: str) -> Any:
        raise MissingError("no docker package", hint="pip install it")

    facts = ask(tmp_path, opened, "docker")
    assert set(facts.tools.values()) == {None}
    assert (facts.nvcc, facts.gpus, facts.buildx) == (None,) * 3
    assert facts.engines == (EngineReply(spec="docker", problem="no docker package", hint="pip install it"),)
    assert facts.contexts == ("default",)
    assert facts.cache_free is not None
    assert facts.late == ()
    assert checkup_of(facts).exit_code is Exit.MISSING
    assert not (tmp_path / "not").exists()


def test_engines_that_fail_are_told_with_their_reason_and_let_go(tmp_path: Path) -> None:
    def fails() -> About:
        raise EngineUnavailable("no Docker engine answers", hint="start it")

    engines = {"docker": FakeEngine(lambda: DOCKER), "ssh://spark": FakeEngine(fails)}
    facts = ask(tmp_path, engines.__getitem__, "docker", "ssh://spark")
    assert facts.engines == (
        EngineReply(spec="docker", about=DOCKER),
        EngineReply(spec="ssh://spark", problem="no Docker engine answers", hint="start it"),
    )
    assert all(engine.closed for engine in engines.values())


def test_a_spec_that_names_no_engine_is_wrong_usage_but_dockers_own_configuration_is_a_finding(tmp_path: Path) -> None:
    def opened(spec: str) -> Any:
        raise UsageError(f"{spec!r} names no engine")

    with pytest.raises(UsageError, match="'dcoker' names no engine"):
        ask(tmp_path, opened, "dcoker")
    assert ask(tmp_path, opened, "docker").engines[0].problem == "'docker' names no engine"


def test_a_broken_docker_configuration_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{")
    facts = ask(tmp_path, lambda spec: FakeEngine(lambda: DOCKER), "docker")
    assert "config.json" in facts.contexts_problem
    assert check(facts, "docker contexts").state is State.OPTIONAL
    facts = ask(tmp_path, lambda spec: FakeEngine(lambda: DOCKER), "docker", DOCKER_CONTEXT="nowhere")
    assert facts.contexts_problem == "docker context 'nowhere' does not exist (DOCKER_CONTEXT)"


def test_programs_that_answer_are_read(tmp_path: Path) -> None:
    def program(name: str, script: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    program("docker", "echo 'github.com/docker/buildx v0.17.1 abcdef'")
    program("nvidia-smi", "echo 'NVIDIA GB10, 12.1, 580.95.05, [N/A]'")
    program("git", "echo git version 2.47.1")
    facts = ask(tmp_path, lambda spec: FakeEngine(lambda: DOCKER), "docker", PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin")
    assert facts.buildx == "v0.17.1"
    assert facts.gpus == (Gpu(name="NVIDIA GB10", capability="12.1", driver="580.95.05", memory="[N/A]"),)
    assert facts.tools["git"] == Tool(name="git", path=tmp_path / "bin" / "git", version="2.47.1", found_by="PATH")
    program("nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
    program("docker", "echo unknown command >&2; exit 1")
    facts = ask(tmp_path, lambda spec: FakeEngine(lambda: DOCKER), "docker", PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin")
    assert (facts.gpus, facts.buildx) == (None, None)
    assert facts.gpu_problem == "nvidia-smi exists, but fails: is the driver loaded?"


@pytest.mark.parametrize(
    ("said", "count"),
    [("", 0), ("No devices were found", 0), ("a, 9.0, 1, 2\nb, 9.0, 1, 2\n", 2), (", , ,", 0), ("a, b, c, d, e", 0)],
)
def test_only_lines_of_gpus_are_gpus(said: str, count: int) -> None:
    assert len(read_gpus(said)) == count


def test_questions_are_asked_at_once_and_none_holds_the_others_up() -> None:
    began = time.monotonic()
    answers, late = ask_together(
        {
            "slow": (lambda: time.sleep(0.4), 5.0),
            "slow too": (lambda: time.sleep(0.4), 5.0),
            "hanging": (lambda: time.sleep(30), 0.5),
            "quick": (lambda: 7, 0.5),
        }
    )
    assert (answers["quick"], set(answers), late) == (7, {"slow", "slow too", "quick"}, ("hanging",))
    assert time.monotonic() - began < 5


def test_a_bug_in_a_question_is_not_swallowed() -> None:
    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask_together({"bug": (bug, 5.0)})


def test_it_looks_where_the_environment_says_and_nowhere_else(tmp_path: Path) -> None:
    facts = ask(tmp_path, lambda spec: FakeEngine(lambda: DOCKER), "docker", CUDACXX="/nowhere/nvcc")
    assert facts.nvcc_problem == "CUDACXX names /nowhere/nvcc, which cannot be run"
    assert os.environ["PATH"] != str(tmp_path / "empty")
