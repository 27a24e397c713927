"""What an engine is: where commands run, how files get there and back. Build, gates and benchmarks know only this."""

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
"""Gets a job's output as it comes, stdout and stderr in one stream, in chunks of any size."""


class EngineUnavailable(MissingError):
    """The engine does not answer: not running, not reachable, no permission."""

    code = "PS0512"


class EngineLost(MissingError):
    """The engine answered, and then the connection was lost in the middle of something."""

    code = "PS0513"


class ImageMissing(MissingError):
    """The engine does not have an image, and it was not (or could not be) fetched."""

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
    """An engine as it answered. `spec` is what a user writes to name it (`host`, `docker`, `docker:CONTEXT`,
    `ssh://…`); `endpoint` where it listens; `platform` what it runs natively (`linux/amd64`, `linux/arm64`); `memory`
    is in bytes. `local`: its paths are this machine's paths. `isolated`: jobs run in a sandbox."""

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
    """What a job may use; None is unlimited. `memory` and `tmp` (its /tmp) are in bytes, `seconds` is wall time."""

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = 4096
    seconds: float | None = None
    tmp: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A named place on the engine that outlives jobs. `target` is where a container sees it; `Engine.place` says where
    a job of this engine sees it."""

    name: str
    target: str
    read_only: bool = False


_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


def checked_volume(name: str) -> str:
    """Return the name of a volume if it is one. Raises `UsageError` for anything that could be taken for a path."""
    if not _VOLUME_NAME.fullmatch(name):
        raise BadValue(f"{name!r} is no name for a volume: letters, digits, '_', '.' and '-', and no more than 128")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePath:
    """A path of the engine's own machine (a CUDA toolkit, a model), seen read-only by a container at `target`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command. `argv[0]` is found on the job's PATH; `env` is the whole environment but for PATH and HOME, which
    the engine gives where they are not named; `workdir` is a path as the job sees it. stdin is closed. `image` is
    needed on container engines. `what` is a word for messages and labels (`configure`, `build`)."""

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
    """What became of a job. `code` is its exit code (128 + signal where a signal ended it); `seconds` its wall time."""

    ending: Ending
    code: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ending is Ending.EXITED and self.code == 0


class Engine(Protocol):
    """One place where commands run. Every method raises `EngineUnavailable` or `EngineLost` if the engine does not
    answer. An engine is used from one thread."""

    def about(self) -> About:
        """Return the engine as it answers now."""
        ...

    def image(self, reference: str, *, platform: str) -> Image | None:
        """Return the image of that name, for that platform; None on an engine that has no images (the host). Raises
        `ImageMissing` if it does not exist, `PlatformUnsupported` if it is another platform's."""
        ...

    def place(self, volume: Volume) -> str:
        """Return the path at which a job of this engine sees the volume."""
        ...

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        """Unpack a tar stream into a volume, created if missing. Raises `OutOfSpace`. `image` is any image the
        engine has: container engines need one to reach a volume."""
        ...

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        """Return a file or directory of a volume as a tar stream, its last component included in the names (as `docker
        cp` gives it). Raises `MissingError` if it does not exist."""
        ...

    def run(self, job: Job, output: Output) -> Outcome:
        """Run a job to its end. On any exception here, Ctrl-C included, and when this process dies, the job and all it
        started are gone. Raises `ImageMissing`, `PlatformUnsupported` and `UsageError` for a job that cannot start, and
        `MissingError` if the program, the directory to run in or one of the paths does not exist."""
        ...

    def shell(self, job: Job) -> tuple[str, ...]:
        """Return the command line by which a person gets a shell in the very place where the job runs."""
        ...

    def volumes(self) -> tuple[str, ...]:
        """Return the names of the volumes that patchstack made here."""
        ...

    def remove(self, volume: str) -> None:
        """Remove a volume and what is in it; nothing if it does not exist."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class Running(Protocol):
    """A job that goes on while its caller does something else: a server, or what measures it. It is used from the
    thread of its engine."""

    @property
    def address(self) -> tuple[str, int] | None:
        """Where it listens on loopback as a job beside it sees that: its lowest TCP port. None if it does not listen,
        or if that cannot be told (a container's loopback is its own: any port is free there)."""
        ...

    def wait(self, seconds: float) -> Outcome | None:
        """Return what became of the job, waiting for at most so many seconds. None while it runs."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM to its first process, unless it has ended. What it started gets none."""
        ...

    def stop(self, grace: float) -> Outcome:
        """End it: SIGTERM, and SIGKILL for all of it after `grace` seconds. An outcome that exists is returned."""
        ...


@runtime_checkable
class RunsServers(Protocol):
    """An engine whose jobs can run beside each other."""

    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> AbstractContextManager[Running]:
        """Start a job, and have it gone with all it started when the block is left, however it is left, and when this
        process dies. `beside` is a running job of this engine whose loopback it shares, and nothing else.

        `output` may be called from another thread. Raises what `Engine.run` raises.
        """
        ...


@runtime_checkable
class BuildsImages(Protocol):
    """An engine that can also make images from recipes."""

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
        """Build the `Dockerfile` of a directory. `network` is the engine's name of the network that its steps may use.
        Raises `ImageMissing` if its base is not available, `NotHeldError` for a step that fails."""
        ...
