"""The options of a container, refused requests, and the errors for an engine's refusals."""

from __future__ import annotations

from typing import Any

import pytest

from patchstack.causes import EngineRefused, GpuNotGiven, JobRefused
from patchstack.engine.docker import images
from patchstack.engine.docker.faults import base_unavailable, refusal
from patchstack.engine.docker.images import Progress
from patchstack.engine.docker.sandbox import HOME, Surroundings, check, container, shell_arguments
from patchstack.engine.protocol import EnginePath, ImageMissing, Job, Limits, OutOfSpace, PlatformUnsupported, Volume
from patchstack.errors import PatchstackError, UsageError

AROUND = Surroundings(image="sha256:1", image_env={"PATH": "", "CUDA_HOME": "", "WANTED": ""}, cpus=8)


def job(**fields: Any) -> Job:
    return Job(**{"what": "build", "argv": ("ninja",), "image": "x"} | fields)


def told(**fields: Any) -> dict[str, Any]:
    return container(job(**fields), AROUND, nonce="0", owner="me")


def test_the_sandbox_is_closed_whatever_the_job() -> None:
    for body in (told(), told(gpus=True), told(volumes=(Volume(name="patchstack-x", target="/src"),))):
        host = body["HostConfig"]
        assert host["NetworkMode"] == "none" and body["NetworkDisabled"]
        assert host["CapDrop"] == ["ALL"] and "CapAdd" not in host
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["ReadonlyRootfs"] and not host["Privileged"]
        assert body["User"] == "1000:1000"
        assert "Binds" not in host and "Devices" not in host and "PidMode" not in host
        assert host["Tmpfs"] == {HOME: "rw,noexec,nosuid,nodev,mode=1777,size=536870912"}
        assert body["StdinOnce"] and host["AutoRemove"]


def test_limits_are_the_jobs_and_swap_gives_no_more_memory() -> None:
    host = told(limits=Limits(memory=1 << 30, cpus=2.5, pids=100))["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (
        1 << 30,
        1 << 30,
        2500000000,
        100,
    )
    assert told(limits=Limits(cpus=64))["HostConfig"]["NanoCpus"] == 8 * 10**9  # no engine takes more than it has
    unlimited = told(limits=Limits(pids=None))["HostConfig"]
    assert not {"Memory", "NanoCpus", "PidsLimit"} & unlimited.keys()


def test_only_volumes_can_be_written_and_no_path_is_made() -> None:
    volumes = (Volume(name="patchstack-x", target="/src"), Volume(name="patchstack-y", target="/ref", read_only=True))
    mounts = told(volumes=volumes, paths=(EnginePath(source="/opt/cuda", target="/cuda"),))["HostConfig"]["Mounts"]
    assert [(mount["Type"], mount["Source"], mount["ReadOnly"]) for mount in mounts] == [
        ("volume", "patchstack-x", False),
        ("volume", "patchstack-y", True),
        ("bind", "/opt/cuda", True),
    ]


def test_variables_of_the_image_are_dropped_but_for_its_path() -> None:
    body = told(env={"WANTED": "1"})
    assert body["Cmd"][2].split() == ["CUDA_HOME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "container"]
    assert body["Env"] == ["HOME=/tmp", "WANTED=1"]


def test_a_shell_is_in_the_same_sandbox() -> None:
    arguments = shell_arguments(
        job(
            volumes=(Volume(name="patchstack-x", target="/src", read_only=True),),
            limits=Limits(memory=1 << 30, cpus=2),
            env={"A": "b c"},
            workdir="/src",
        ),
        AROUND,
    )
    line = " ".join(arguments)
    for option in (
        "--network none",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--read-only",
        "--user 1000:1000",
        "--memory 1073741824 --memory-swap 1073741824",
        "--cpus 2",
        "--mount type=volume,source=patchstack-x,target=/src,readonly,volume-nocopy",
        "--env A=b c",
    ):
        assert option in line
    assert arguments[0] == "run" and arguments[-1] == "/src"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"argv": ()}, "it has no command"),
        ({"argv": ("a\0b",)}, "its command or environment contains a NUL byte"),
        ({"env": {"A=B": "1"}}, "'A=B' is not a variable name"),
        ({"env": {"A": "\0"}}, "its command or environment contains a NUL byte"),
        ({"workdir": "src"}, "the working directory is not absolute: src"),
        ({"volumes": (Volume(name="a", target="src"),)}, "'src' cannot be a mount point"),
        ({"volumes": (Volume(name="a", target="/"),)}, "'/' cannot be a mount point"),
        ({"volumes": (Volume(name="a", target="/a/../b"),)}, "'/a/../b' cannot be a mount point"),
        (
            {"volumes": (Volume(name="a", target="/a"), Volume(name="b", target="/a"))},
            "more than one volume or path is mounted at /a",
        ),
        (
            {"paths": (EnginePath(source="/srv/engine.sock", target="/a"),)},
            "a job must not reach the engine itself: /srv/engine.sock",
        ),
        ({"paths": (EnginePath(source="/srv", target="/a"),)}, "a job must not see /srv of the engine's machine"),
        ({"paths": (EnginePath(source="/etc", target="/a"),)}, "a job must not see /etc of the engine's machine"),
        ({"paths": (EnginePath(source="//", target="/a"),)}, "a job must not see // of the engine's machine"),
        (
            {"paths": (EnginePath(source="cuda", target="/a"),)},
            "a path on the engine's machine must be absolute, without '..': cuda",
        ),
    ],
)
def test_a_job_that_must_not_run_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=r"^the job 'build' cannot be run$") as refused:
        check(job(**fields), "/srv/docker/engine")
    assert problem in refused.value.problems


@pytest.mark.parametrize(
    "source",
    ["/usr/local/cuda-13.0", "/home/me/models", "/root/models", "/run/media/me/disk", "/dev/shm/model"],  # noqa: S108
)
def test_toolkits_and_models_may_be_seen(source: str) -> None:
    check(job(paths=(EnginePath(source=source, target="/m"),)), "/var/run/docker.sock")


@pytest.mark.parametrize(
    ("status", "words", "becomes", "says"),
    [
        (500, "write /volume/big: no space left on device", OutOfSpace, "its disk is full"),
        (500, "mkdir: disk quota exceeded", OutOfSpace, "its disk is full"),
        (400, "exec /bin/sh: exec format error", PlatformUnsupported, "exec format error"),
        (
            404,
            "image with reference x was found but does not match the specified platform",
            PlatformUnsupported,
            "does not match",
        ),
        (
            500,
            'could not select device driver "" with capabilities: [[gpu]]',
            GpuNotGiven,
            "the engine has no GPU runtime",
        ),
        (
            400,
            "invalid mount config: bind source path does not exist: /opt/cuda",
            GpuNotGiven,
            "/opt/cuda does not exist",
        ),
        (404, "No such image: x:1", ImageMissing, "No such image"),
        (
            400,
            'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
            JobRefused,
            "the image has no /bin/sh",
        ),
        (
            400,
            'runc: level=error msg="runc create failed: exec: \\"/bin/sh\\": stat /bin/sh: no such file or directory"',
            JobRefused,
            "the image has no /bin/sh",
        ),
        (409, "remove x: volume is in use - [abc]", JobRefused, "a container still uses the volume"),
        (400, "Minimum memory limit allowed is 6MB", JobRefused, "the engine refuses to try: Minimum memory limit"),
        (500, "driver failed", EngineRefused, "the engine cannot try: driver failed"),
    ],
)
def test_what_an_engine_refuses_is_said_in_words(
    status: int, words: str, becomes: type[PatchstackError], says: str
) -> None:
    error = refusal(status, words, "try")
    assert isinstance(error, becomes)
    assert says in error.message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host", "its registry cannot be reached"),
        (
            'Head "https://nvcr.io/v2/x/manifests/1": dial tcp 1.2.3.4:443: i/o timeout',
            "its registry cannot be reached",
        ),
        (
            "pull access denied for x, repository does not exist",
            "its registry does not contain it, or denies access",
        ),
        (
            "manifest for debian:nope not found: manifest unknown",
            "its registry does not contain it, or denies access",
        ),
        ("The command '/bin/sh -c apt-get update' returned a non-zero code: 100", None),
        ("executor failed running [/bin/sh -c nvcc]: exit code: 127: not found", None),
    ],
)
def test_a_base_that_cannot_be_had_is_told_from_a_step_that_fails(words: str, why: str | None) -> None:
    assert base_unavailable(words) == why


@pytest.mark.parametrize(
    ("recipe", "base"),
    [
        ("FROM debian:12\n", "debian:12"),
        ("# syntax=x\nfrom --platform=linux/arm64 debian@sha256:12 as a\n", "debian@sha256:12"),
        ("ARG V=12\nFROM debian:$V\n", "debian:12"),
        ("ARG V\nFROM debian:${V:-13}\n", "debian:13"),
        ("ARG GIVEN=a\nFROM x/${GIVEN}\n", "x/theirs"),
        ("FROM a AS one\nARG V=1\nFROM b\nFROM one\n", "a"),
        ("FROM a AS One\nFROM one AS two\nFROM two\n", "a"),
        ("FROM \\\n  debian:12\n", "debian:12"),
        ("FROM scratch\n", None),
        ("RUN x\n", None),
        ("", None),
    ],
)
def test_the_base_of_a_recipe_is_that_of_its_last_stage(recipe: str, base: str | None) -> None:
    assert images.base_image(recipe, {"GIVEN": "theirs"}) == base


def test_documents_between_other_lines_are_found_on_one_line_or_on_many() -> None:
    lines = [
        b"WARNING: x\n",
        b'{"vertexes": []}\n',
        b"{\n",
        b'  "logs": [\n',
        b"  ]\n",
        b"}\n",
        b"ERROR: no\n",
        b"{ torn",
    ]
    assert list(images.events(lines)) == ["WARNING: x\n", {"vertexes": []}, {"logs": []}, "ERROR: no\n", "{ torn"]


def test_a_disk_that_is_full_while_an_image_is_built_is_named() -> None:
    error = images.failure("x:1", "debian", Progress(error="write /var/lib/x: no space left on device"))
    assert isinstance(error, OutOfSpace)
