"""Define the interface of an engine, which runs commands and stores files.

Builds, gates and benchmarks use only this interface.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from patchstack.causes import BadValue
from patchstack.errors import Exit, MissingError, PatchstackError, UsageError

Output = Callable[[bytes], None]
"""The type of functions that receive a job's output as it arrives.

stdout and stderr are one stream. A chunk can have any size.
"""


class EngineUnavailable(MissingError):
    """The engine cannot be used: it is not running, cannot be reached, or denies access."""

    code = "PS0512"


class EngineLost(MissingError):
    """The engine stopped responding after its first answer, or lost a job."""

    code = "PS0513"


class ImageMissing(MissingError):
    """The engine does not have the image, and patchstack did not or could not fetch it."""

    code = "PS0514"


class PlatformUnsupported(UsageError):
    """The engine cannot run programs for the platform."""

    code = "PS0515"
    exit_code = Exit.MISSING


class OutOfSpace(PatchstackError):
    """The engine's disk, or a volume on it, is full."""

    code = "PS0516"
    exit_code = Exit.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The description of an engine that answered.

    `spec` is the name that the user gave (`host`, `docker`, `docker:CONTEXT`, `ssh://…`). `kind` is `host`, `docker` or
    `podman`. `endpoint` is the address. `platform` is the native platform (`linux/amd64`, `linux/arm64`). `memory` is
    in bytes. `local` is true if the engine runs on this machine, so that paths are the same. `isolated` is true if jobs
    run in a sandbox.
    """

    spec: str
    kind: str
    endpoint: str
    version: str
    platform: str
    cpus: int
    memory: int
    local: bool
    isolated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container image on an engine.

    `digest` is the sha256 of its configuration, which identifies every layer. `size` is in bytes.
    """

    reference: str
    digest: str
    platform: str
    labels: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a job. None means no limit.

    `memory` and `tmp` (the size of /tmp) are in bytes. `seconds` is wall time.
    """

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = 4096
    seconds: float | None = None
    tmp: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A named directory on an engine. It continues to exist after a job.

    `target` is its path in a container. `Engine.place` returns the path that a job of the engine sees.
    """

    name: str
    target: str
    read_only: bool = False


_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


def checked_volume(name: str) -> str:
    """Return the name of a volume. Raises `UsageError` if it is invalid, for example if it could be a path."""
    if not _VOLUME_NAME.fullmatch(name):
        raise BadValue(f"{name!r} is not a volume name; use up to 128 letters, digits, '_', '.' and '-'")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePath:
    """A path on the engine's machine, for example a CUDA toolkit or a model.

    A container sees the path read-only at `target`.
    """

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command to run.

    `what` is a word for messages and labels, for example `build`. `argv[0]` is searched for on the job's PATH. `env` is
    the complete environment, but the engine adds PATH and HOME if they are missing. `workdir` is a path as the job sees
    it. The job's stdin is `/dev/null`. Container engines require `image`.
    """

    what: str
    argv: tuple[str, ...]
    image: str | None = None
    platform: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    volumes: tuple[Volume, ...] = ()
    paths: tuple[EnginePath, ...] = ()
    gpus: bool = False
    limits: Limits = field(default_factory=Limits)


class Ending(StrEnum):
    """How a job ended."""

    EXITED = "exited"
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a job.

    `code` is its exit code, or 128 + the number of the signal that ended it. `seconds` is its wall time.
    """

    ending: Ending
    code: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ending is Ending.EXITED and self.code == 0


class Engine(Protocol):
    """Runs jobs and stores volumes. An engine must be used from one thread only.

    Every method raises `EngineUnavailable` or `EngineLost` if the engine does not answer.
    """

    def about(self) -> About:
        """Ask the engine for its current description."""
        ...

    def image(self, reference: str, *, platform: str) -> Image | None:
        """Return the image `reference` for `platform`. Return None on the host, which has no images.

        Raises `ImageMissing` if it does not exist, and `PlatformUnsupported` if it is for a different platform.
        """
        ...

    def place(self, volume: Volume) -> str:
        """Return the path at which a job of this engine sees the volume."""
        ...

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        """Unpack a tar stream into a volume. The volume is created if it does not exist.

        Container engines can access a volume only with an `image`; any image works. Raises `OutOfSpace` if the disk is
        full.
        """
        ...

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        """Return a file or directory of a volume as a tar stream.

        The names in the stream begin with the last component of `path`, as with `docker cp`. Raises `MissingError` if
        `path` does not exist.
        """
        ...

    def run(self, job: Job, output: Output) -> Outcome:
        """Run a job until it ends.

        If an exception (including Ctrl-C) is raised, or if patchstack dies, the job and all its processes are ended.

        Raises `ImageMissing`, `PlatformUnsupported` or `UsageError` if the job cannot start, and `MissingError` if the
        program, the working directory or one of the paths does not exist.
        """
        ...

    def shell(self, job: Job) -> tuple[str, ...]:
        """Return the command line that opens an interactive shell in the job's environment."""
        ...

    def volumes(self) -> tuple[str, ...]:
        """Return the names of the volumes that patchstack created on this engine."""
        ...

    def remove(self, volume: str) -> None:
        """Remove a volume with its content. Do nothing if it does not exist."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Running(Protocol):
    """A job that runs in the background, for example a server or its client.

    It must be used from the thread of its engine.
    """

    @property
    def address(self) -> tuple[str, int] | None:
        """The loopback address of the job, with the lowest TCP port on which the job listens.

        The address is None if the job does not listen, or if the port is unknown, as in a container. A container has
        its own loopback interface, where every port is free.
        """
        ...

    def wait(self, seconds: float) -> Outcome | None:
        """Wait for at most `seconds`. Return the outcome of the job, or None if it is still running."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM to the job's first process only. Do nothing if the job has ended."""
        ...

    def stop(self, grace: float) -> Outcome:
        """End the job with SIGTERM. After `grace` seconds, end all its processes with SIGKILL. Return its outcome."""
        ...


@runtime_checkable
class RunsServers(Protocol):
    """The interface of an engine that can run several jobs at the same time, such as a server and its client."""

    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> AbstractContextManager[Running]:
        """Start a job, and end it at the end of the `with` block.

        All processes of the job are ended. They are also ended if patchstack dies.

        `beside` is a running job of this engine. The new job shares only the loopback interface of that job. `output`
        may be called from a different thread. Raises the errors of `Engine.run`.
        """
        ...


@runtime_checkable
class BuildsImages(Protocol):
    """The interface of an engine that can also build images from recipes."""

    def build_image(
        self,
        directory: Path,
        *,
        tag: str,
        platform: str,
        args: Mapping[str, str],
        output: Output,
        network: str | None,
    ) -> Image:
        """Build the `Dockerfile` of a directory and tag the image.

        `network` is the network that the build steps use (`host`, `none`). Raises `ImageMissing` if the base image is
        not available, and `MissingError` if a step fails.
        """
        ...
