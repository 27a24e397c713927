"""The permissions of a job in a container, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from patchstack.engine.docker.engine import ContainerEngine
from patchstack.engine.protocol import Ending, EnginePath, ImageMissing, Limits, Outcome, PlatformUnsupported
from patchstack.errors import MissingError, UsageError
from tests.support.engines import (
    IMAGE,
    PODMAN,
    SPEC,
    container_engine,
    job,
    load_image,
    needs_docker,
    ran,
    raw_api,
    shell,
    volume_of,
)

pytestmark = needs_docker


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    engine = container_engine()
    yield engine
    engine.close()


def said(engine: ContainerEngine, script: str) -> str:
    outcome, text = ran(engine, shell(script))
    assert outcome.ok, (outcome, text)
    return text


def test_a_job_has_no_network(engine: ContainerEngine) -> None:
    script = "ls /sys/class/net; bash -c '</dev/tcp/127.0.0.1/22' 2>&1; bash -c '</dev/tcp/10.0.0.1/80' 2>&1; true"
    told = said(engine, script)
    assert told.splitlines()[0] == "lo"
    assert "Connection refused" in told
    assert "Network is unreachable" in told


def test_a_job_is_nobody_special_and_cannot_become_it(engine: ContainerEngine) -> None:
    told = said(engine, "id -u; id -g; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; cp /bin/su /v 2>/dev/null; true")
    lines = told.splitlines()
    assert lines[:2] == ["1000", "1000"]
    capabilities = dict(line.split(":\t") for line in lines[2:])
    assert capabilities.pop("NoNewPrivs") == "1"
    assert set(capabilities) == {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
    assert {int(value, 16) for value in capabilities.values()} == {0}


def test_a_job_can_write_to_its_volumes_and_to_tmp_and_nowhere_else(engine: ContainerEngine) -> None:
    with volume_of(engine) as volume:
        script = """
            for place in / /root /usr/bin /etc /var/tmp /home /dev /dev/shm /sys /proc/sys /run /opt
            do touch $place/x 2>/dev/null && echo "could write to $place"
            done
            touch /v/x /tmp/x && echo these two
        """
        in_memory = "could write to /var/tmp\n" * PODMAN  # it always has a tmpfs there
        assert ran(engine, shell(script, volumes=(volume,)))[1] == f"{in_memory}these two\n"


def test_nothing_can_be_run_from_tmp(engine: ContainerEngine) -> None:
    outcome, told = ran(engine, shell("cp /bin/true /tmp && /tmp/true"))
    assert outcome.code == 126
    assert "Permission denied" in told


def test_tmp_is_no_larger_than_it_may_be(engine: ContainerEngine) -> None:
    outcome, told = ran(engine, shell("head -c 2000000 /dev/zero >/tmp/x", limits=Limits(tmp=1 << 20)))
    assert outcome == Outcome(ending=Ending.EXITED, code=1, seconds=outcome.seconds)  # known though /tmp is full
    assert "No space left on device" in told


def test_a_read_only_volume_can_be_read_and_not_written(engine: ContainerEngine) -> None:
    with volume_of(engine) as volume:
        assert ran(engine, shell("echo kept >/v/x", volumes=(volume,)))[0].ok
        outcome, told = ran(engine, shell("cat /v/x; echo y >/v/x", volumes=(replace(volume, read_only=True),)))
        assert outcome.code != 0
        assert told.startswith("kept\n") and "Read-only file system" in told


def test_memory_that_runs_out_is_said_to_have_run_out(engine: ContainerEngine) -> None:
    hungry = """perl -e '$x = "a" x 400000000; print length $x'"""
    for script in (hungry, f"{hungry} || exit 7", f"exec {hungry}"):  # the killed process is not always the started one
        outcome, _ = ran(engine, shell(script, limits=Limits(memory=64 << 20)))
        assert outcome.ending is Ending.OUT_OF_MEMORY, (script, outcome)
        assert not outcome.ok
    outcome, told = ran(engine, shell(hungry, limits=Limits(memory=1 << 30)))
    assert outcome.ok and told == "400000000"


def test_a_job_that_survives_a_killed_process_has_not_run_out_of_memory(engine: ContainerEngine) -> None:
    script = """perl -e '$x = "a" x 400000000'; echo went on"""
    outcome, told = ran(engine, shell(script, limits=Limits(memory=64 << 20)))
    assert outcome.ok and told.endswith("went on\n")


def test_a_fork_bomb_is_stopped(engine: ContainerEngine) -> None:
    bomb = "i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); done; echo $i"
    outcome, told = ran(engine, shell(bomb, limits=Limits(pids=20, seconds=20)))
    assert not outcome.ok
    assert outcome.seconds < 15
    assert "fork" in told


def test_a_job_ends_when_its_time_is_up(engine: ContainerEngine) -> None:
    outcome, told = ran(engine, shell("echo begun; sleep 60", limits=Limits(seconds=1)))
    assert outcome.ending is Ending.TIMED_OUT
    assert 1 <= outcome.seconds < 3
    assert told == "begun\n"


def test_a_job_gets_exactly_the_environment_it_was_given(engine: ContainerEngine) -> None:
    with raw_api() as api:
        holder = api.create_container(IMAGE, ["true"])
        made = api.commit(holder["Id"], "patchstack-test-env", changes="ENV LD_PRELOAD_PATH=/evil CUDA=13")
        api.remove_container(holder["Id"])
    try:
        script = 'print "$_=$ENV{$_};" for sort keys %ENV'
        given = {"A": "two words\n$x", "B": ""}
        outcome, told = ran(engine, job("perl", "-e", script, image="patchstack-test-env:latest", env=given))
        assert outcome.ok
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        assert told == f"A=two words\n$x;B=;HOME=/tmp;PATH={path};"
    finally:
        with raw_api() as api:
            api.remove_image(made["Id"], force=True)


def test_a_path_of_the_engines_machine_is_seen_and_cannot_be_written(
    engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    toolkit = tmp_path_factory.mktemp("toolkit")
    (toolkit / "nvcc").write_text("13.0\n")
    toolkit.chmod(0o777)
    path = EnginePath(source=str(toolkit), target="/usr/local/cuda")
    outcome, told = ran(engine, shell("cat /usr/local/cuda/nvcc; touch /usr/local/cuda/x", paths=(path,)))
    assert outcome.code == 1
    assert told.startswith("13.0\n") and "Read-only file system" in told


@pytest.mark.parametrize(
    "source", ["/var/run/docker.sock", "/", "/var", "/etc/ssl", "/proc/1/root", "a/b", "/usr/../etc"]
)
def test_what_a_job_may_never_see_is_refused(engine: ContainerEngine, source: str) -> None:
    with pytest.raises(UsageError) as refused:
        ran(engine, job("true", paths=(EnginePath(source=source, target="/x"),)))
    assert source in refused.value.render()


def test_a_link_to_what_a_job_may_never_see_is_refused_too(
    engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("link") / "cuda"
    link.symlink_to("/var/run")
    with pytest.raises(UsageError, match=r"cannot be run") as refused:
        ran(engine, job("true", paths=(EnginePath(source=str(link), target="/x"),)))
    assert refused.value.problems == ("a job must not see /run of the engine's machine",)


def test_a_path_that_is_not_there_is_named_and_not_made(engine: ContainerEngine) -> None:
    with pytest.raises(MissingError, match=r"^test cannot start: /no/such does not exist on the engine's machine$"):
        ran(engine, job("true", paths=(EnginePath(source="/no/such", target="/x"),)))


def test_an_engine_without_gpus_says_so(engine: ContainerEngine) -> None:
    words = r"podman's Docker socket cannot give a GPU" if PODMAN else r"^the engine has no GPU runtime"
    with pytest.raises(MissingError, match=words) as refused:
        ran(engine, job("true", gpus=True))
    assert "nvidia-container-toolkit" in str(refused.value.hint)


def test_a_program_that_is_not_in_the_image_is_named(engine: ContainerEngine) -> None:
    with pytest.raises(MissingError, match=f"^test cannot start: nvcc is not in the image {IMAGE}$"):
        ran(engine, job("nvcc", "--version"))


def test_a_directory_that_is_not_there_is_named(engine: ContainerEngine) -> None:
    with pytest.raises(MissingError, match=r"^test cannot run in /no/where: it is not a directory in the container$"):
        ran(engine, job("true", workdir="/no/where"))


def test_a_job_runs_where_it_is_told(engine: ContainerEngine) -> None:
    assert ran(engine, job("pwd", workdir="/usr/share"))[1] == "/usr/share\n"


def test_an_image_that_is_not_there_is_named_with_what_to_do(engine: ContainerEngine) -> None:
    with pytest.raises(ImageMissing, match=r"^the engine at unix://.* has no image no-such:1$") as refused:
        engine.image("no-such:1", platform="linux/amd64")
    assert refused.value.hint == f"run 'docker --host {SPEC} pull no-such:1', or build it there"
    with pytest.raises(ImageMissing, match=r"has no image no-such:1$"):
        ran(engine, job("true", image="no-such:1"))


def test_an_image_without_a_shell_is_named_for_what_it_lacks(engine: ContainerEngine) -> None:
    load_image("patchstack-test-bare:latest", architecture="amd64", files={"etc/nothing": b""})
    try:
        with pytest.raises(UsageError, match=r"^the image has no /bin/sh, which every job needs$"):
            ran(engine, job("true", image="patchstack-test-bare:latest"))
    finally:
        with raw_api() as api:
            api.remove_image("patchstack-test-bare:latest", force=True)


def test_a_job_without_an_image_is_refused(engine: ContainerEngine) -> None:
    with pytest.raises(UsageError, match=r"has no image"):
        ran(engine, job("true", image=None))


def test_an_image_of_another_platform_is_not_taken_and_cannot_run(engine: ContainerEngine) -> None:
    program = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xb7\0\x01\0\0\0" + bytes(40)  # an aarch64 executable
    load_image("patchstack-test-arm:latest", architecture="arm64", files={"bin/sh": program})
    try:
        found = engine.image("patchstack-test-arm:latest", platform="linux/arm64")
        assert found is not None and found.platform == "linux/arm64"
        with pytest.raises(PlatformUnsupported, match=r"is for linux/arm64, not for linux/amd64$") as refused:
            engine.image("patchstack-test-arm:latest", platform="linux/amd64")
        assert "--platform linux/amd64" in str(refused.value.hint)
        with pytest.raises(PlatformUnsupported, match=r"cannot run the programs of patchstack-test-arm:latest"):
            ran(engine, job("true", image="patchstack-test-arm:latest", platform="linux/arm64"))
    finally:
        with raw_api() as api:
            api.remove_image("patchstack-test-arm:latest", force=True)
