"""The interface of an engine: run commands, copy files to and from it. Builds, gates and benchmarks use only this."""

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
"""Called with a job's output as it arrives: stdout and stderr in one stream, in chunks of any size."""


class EngineUnavailable(MissingError):
    """The engine does not answer: not running, not reachable, no permission."""

    code = "PS0512"


class EngineLost(MissingError):
    """The engine answered earlier, and then the connection was lost."""

    code = "PS0513"


class ImageMissing(MissingError):
    """The engine does not have the image, and it was not (or could not be) fetched."""

    code = "PS0514"


class PlatformUnsupported(UsageError):
    """The engine cannot run that platform's programs."""

    code = "PS0515"
    exit_code = Exit.MISSING


class OutOfSpace(PatchstackError):
    """The engine's disk, or a volume on it, is full."""

    code = "PS0516"
    exit_code = Exit.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """An engine that answered. `spec` is its name for users (`host`, `docker`, `docker:CONTEXT`, `ssh://…`). `endpoint`
    is its address. `platform` is its native platform (`linux/amd64`, `linux/arm64`). `memory` is in bytes. `local`: its
    paths are paths of this machine. `isolated`: jobs run in a sandbox."""

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
    """A container image on an engine. `digest` is the id of its content (`sha256:…` of its configuration, which names
    every layer); `size` is in bytes."""

    reference: str
    digest: str
    platform: str
    labels: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a job; None is unlimited. `memory` and `tmp` (its /tmp) are in bytes, `seconds` is wall time."""

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = 4096
    seconds: float | None = None
    tmp: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A named directory on the engine that outlives jobs. `target` is its path in a container; `Engine.place` returns
    its path for jobs of that engine."""

    name: str
    target: str
    read_only: bool = False


_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


def checked_volume(name: str) -> str:
    """Return the name of a volume if it is valid. Raises `UsageError` for anything that could be taken for a path."""
    if not _VOLUME_NAME.fullmatch(name):
        raise BadValue(f"{name!r} is not a volume name: letters, digits, '_', '.' and '-', and no more than 128")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePath:
    """A path of the engine's own machine (a CUDA toolkit, a model), which a container sees read-only at `target`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command. `argv[0]` is found on the job's PATH; `env` is the whole environment, except that the engine adds
    PATH and HOME if they are missing. `workdir` is a path as the job sees it. stdin is closed. Container engines
    require `image`. `what` is a word for messages and labels (`configure`, `build`)."""

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
    """The outcome of a job. `code` is its exit code (128 + signal if a signal ended it); `seconds` is its wall time."""

    ending: Ending
    code: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ending is Ending.EXITED and self.code == 0


class Engine(Protocol):
    """A place to run commands. Every method raises `EngineUnavailable` or `EngineLost` if the engine does not
    answer. An engine is used from one thread."""

    def about(self) -> About:
        """Return the engine's current answer."""
        ...

    def image(self, reference: str, *, platform: str) -> Image | None:
        """Return the image of that name, for that platform; None on an engine that has no images (the host). Raises
        `ImageMissing` if it does not exist, and `PlatformUnsupported` if it is for a different platform."""
        ...

    def place(self, volume: Volume) -> str:
        """Return the path at which a job of this engine sees the volume."""
        ...

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        """Unpack a tar stream into a volume, which is created if missing. Raises `OutOfSpace`. `image` is any image of
        the engine; container engines need one to access a volume."""
        ...

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        """Return a file or directory of a volume as a tar stream. The names in it begin with the last component of the
        path, as with `docker cp`. Raises `MissingError` if it does not exist."""
        ...

    def run(self, job: Job, output: Output) -> Outcome:
        """Run a job to its end. On any exception, including Ctrl-C, and when this process dies, the job and all its
        processes are ended. Raises `ImageMissing`, `PlatformUnsupported` and `UsageError` for a job that cannot start,
        and `MissingError` if the program, the directory to run in or one of the paths does not exist."""
        ...

    def shell(self, job: Job) -> tuple[str, ...]:
        """Return the command line that gives a person a shell in the environment of the job."""
        ...

    def volumes(self) -> tuple[str, ...]:
        """Return the names of the volumes that patchstack made here."""
        ...

    def remove(self, volume: str) -> None:
        """Remove a volume with its content. Does nothing if it does not exist."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Running(Protocol):
    """A job that runs while its caller does something else: a server, or its client. Use it from the thread of its
    engine."""

    @property
    def address(self) -> tuple[str, int] | None:
        """Return its loopback address with its lowest TCP port, for a job that shares its loopback interface. None if
        it does not listen, or if that is not known (a container has its own loopback, where every port is free)."""
        ...

    def wait(self, seconds: float) -> Outcome | None:
        """Return the outcome of the job, after waiting for at most `seconds`; None while it runs."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM to its first process only, unless it has ended."""
        ...

    def stop(self, grace: float) -> Outcome:
        """End the job with SIGTERM, and with SIGKILL for all its processes after `grace` seconds. Return its
        outcome."""
        ...


@runtime_checkable
class RunsServers(Protocol):
    """An engine whose jobs can run at the same time."""

    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> AbstractContextManager[Running]:
        """Start a job. It ends with all its processes at every exit from the block, and when this process dies.
        `beside` is a running job of this engine whose loopback interface it shares, and nothing else.

        `output` may be called from a different thread. Raises the errors of `Engine.run`.
        """
        ...


@runtime_checkable
class BuildsImages(Protocol):
    """An engine that can also build images from recipes."""

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
        """Build the `Dockerfile` of a directory. `network` is the engine's name for the network of its steps. Raises
        `ImageMissing` if its base is not available, and `NotHeldError` for a failed step."""
        ...
