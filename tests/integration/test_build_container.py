"""Tests that need containers: the sandbox of a build, and that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.toy import Toy, a_toy, docker_says, interrupt, need_docker, wait_for

HEAD = "cmake_minimum_required(VERSION 3.18)\nproject(toy C)\n"


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    need_docker()
    return a_toy(tmp_path, "docker")


def work_volumes() -> set[str]:
    return {name for name in docker_says("volume", "ls", "-q") if name.startswith("patchstack-work-")}


def containers_of(volumes: set[str], *options: str) -> list[str]:
    """Return the containers that use one of the volumes, because other builds may run at the same time."""
    return [one for name in volumes for one in docker_says("ps", "-q", *options, "--filter", f"volume={name}")]


def a_build_under_way(toy: Toy) -> tuple[subprocess.Popen[str], set[str]]:
    """Return a running build that is compiling in a container, and its volume."""
    child = toy.start()

    def own() -> set[str]:
        return {name for name in work_volumes() if f"-{child.pid}-" in name}

    assert wait_for(lambda: containers_of(own()), 30)
    assert child.stderr is not None
    for line in child.stderr:
        if line == "compiling\n":
            break
    return child, own()


def slow(toy: Toy) -> None:
    """Add a patch that makes compiling take a minute."""
    text = toy.fork.repo.git("show", f"{toy.fork.commits[-1]}:CMakeLists.txt")
    toy.commit("Sleep", {"CMakeLists.txt": text + "\nadd_custom_command(TARGET toy PRE_BUILD COMMAND sleep 60)\n"})


def test_a_build_that_wants_the_network_fails_and_says_so(toy: Toy) -> None:
    fetch = (
        "include(FetchContent)\n"
        "FetchContent_Declare(other GIT_REPOSITORY https://example.com/other.git GIT_TAG main)\n"
        "FetchContent_MakeAvailable(other)\n"
    )
    toy.commit("Fetch", {"CMakeLists.txt": HEAD + fetch})
    built = toy.build()
    assert built.code == 1
    assert "the build needs the network, but has no access to it" in built.stderr
    assert "hint: find the option that needs the network, and turn it off" in built.stderr


@pytest.mark.parametrize("place", ["/etc/passwd", "/usr/bin/cc", "/patchstack/other", "/root/x"])
def test_a_build_that_writes_elsewhere_fails(toy: Toy, place: str) -> None:
    toy.commit("Write elsewhere", {"CMakeLists.txt": f'{HEAD}file(WRITE {place} "mine")\n'})
    built = toy.build()
    assert built.code in (1, 4)
    assert "Read-only file system" in built.told or "Permission denied" in built.told or "No such" in built.told


def test_a_build_has_no_privileges_and_no_docker_socket(toy: Toy) -> None:
    probe = (
        'execute_process(COMMAND sh -c "id -u; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status;'
        ' ls /var/run/docker.sock /run/docker.sock 2>&1" OUTPUT_VARIABLE said)\n'
        'message(FATAL_ERROR "${said}")\n'
    )
    toy.commit("Look around", {"CMakeLists.txt": HEAD + probe})
    built = toy.build("--json")
    log = Path(built.document["log"]).read_text()
    assert "\n  1000\n" in log
    assert "0000000000000000" in log
    assert "NoNewPrivs:\t1" in log
    assert log.count("No such file or directory") == 2


def test_a_build_that_runs_out_of_memory_says_so_and_what_helps(toy: Toy) -> None:
    eat = 'execute_process(COMMAND sh -c "head -c 600m /dev/zero | tail -c 500m | wc -c" COMMAND_ERROR_IS_FATAL ANY)\n'
    toy.commit("Eat", {"CMakeLists.txt": HEAD + eat})
    built = toy.build("--memory", "256MiB", "--jobs", "2")
    assert built.code == 4
    assert "the build ran out of memory of 256 MiB (--memory) with 2 jobs" in built.stderr
    assert "hint: use --jobs 1 to need less memory; use --memory to allow more" in built.stderr


def test_ctrl_c_leaves_no_container_and_no_volume_and_the_cache_as_it_was(toy: Toy) -> None:
    slow(toy)
    caches = {name for name in docker_says("volume", "ls", "-q") if "ccache" in name}
    child, volumes = a_build_under_way(toy)
    interrupt(child)
    _, stderr = child.communicate(timeout=30)
    assert child.returncode == 130, stderr
    assert "interrupted" in stderr
    assert containers_of(volumes, "-a") == []
    assert not volumes & work_volumes()
    assert caches <= set(docker_says("volume", "ls", "-q"))


def test_a_killed_patchstack_leaves_no_container_and_the_next_build_clears_up(toy: Toy) -> None:
    slow(toy)
    child, volumes = a_build_under_way(toy)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    assert wait_for(lambda: not containers_of(volumes))
    assert "no builds yet" in toy.build("--list").stderr
    toy.build("--at", "2", check=True)
    assert not volumes & work_volumes()
    assert containers_of(volumes, "-a") == []


def test_of_two_builds_of_one_key_one_builds_and_the_other_waits(toy: Toy) -> None:
    text = toy.fork.repo.git("show", f"{toy.fork.commits[-1]}:CMakeLists.txt")
    tag = os.urandom(4).hex()
    wait = f"\nadd_custom_command(TARGET toy PRE_BUILD COMMAND sleep 3 && echo {tag})\n"
    toy.commit("Take a while", {"CMakeLists.txt": text + wait})
    children = [toy.start("--json"), toy.start("--json")]
    ended = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], ended
    assert sorted('"hit": true' in stdout for stdout, _ in ended) == [False, True]
    assert sum("which makes the same build" in stderr for _, stderr in ended) == 1


def test_an_image_that_is_not_there_is_told_offline(toy: Toy) -> None:
    built = toy.build("--image", "nobody/nothing:1", "--offline")
    assert built.code == 3
    assert "nobody/nothing:1" in built.stderr
    assert "hint: " in built.stderr


def kept_volumes() -> set[str]:
    return {name for name in docker_says("volume", "ls", "-q") if name.startswith("patchstack-kept-")}


def test_what_is_kept_can_be_looked_into_and_outlives_the_next_build(toy: Toy) -> None:
    before = kept_volumes()
    built = toy.build("--compile-define", "TOY_ROWS=3", "--keep-container")
    kept = kept_volumes() - before
    try:
        (name,) = kept
        line = next(line.strip() for line in built.stderr.splitlines() if line.strip().startswith("docker "))
        assert name in line
        toy.build(check=True)
        assert name in kept_volumes()
        look = subprocess.run(
            ["sh", "-c", line.replace(" -it ", " -i ").replace(" --tty", "")],
            input="ls /patchstack/work/src\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "rows.h" in look.stdout, (line, look)
    finally:
        for name in kept:
            docker_says("volume", "rm", name)
