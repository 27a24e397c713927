"""Use this machine as an engine.

Jobs are processes of the user without a sandbox, and volumes are directories.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchstack.causes import GpuNotGiven
from patchstack.engine.host import directory
from patchstack.engine.host.session import run_job, running
from patchstack.engine.protocol import (
    About,
    Image,
    Job,
    Outcome,
    Output,
    PlatformUnsupported,
    Running,
    Volume,
    checked_volume,
)

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class HostEngine:
    """Runs jobs on this machine with the user's rights.

    Only one limit of a job is enforced: `seconds`. `image` and `gpus` are ignored. A process that the kernel's
    out-of-memory killer ends has exit code 137, like any process after SIGKILL. A job ends with all its processes when
    its first process ends, when `run` raises an error, and when patchstack is killed. Only a process that creates a new
    session (a daemon) survives.
    """

    def __init__(self, root: Path) -> None:
        self._volumes = root / "volumes"
        self._homes = root / "homes"

    def about(self) -> About:
        machine = os.uname()
        return About(
            spec="host",
            kind="host",
            endpoint=machine.nodename,
            version=f"{machine.sysname} {machine.release}",
            platform=native_platform(),
            cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            local=True,
            isolated=False,
        )

    def image(self, reference: str, *, platform: str) -> Image | None:
        """Return None, because a host has no images."""
        return None

    def place(self, volume: Volume) -> str:
        return str(self._directory(volume.name))

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        """See the protocol. Raises `MissingError` if an entry of the archive is outside the volume."""
        directory.put(self._directory(volume), archive)

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        return directory.get(self._directory(volume), path)

    def volumes(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self._volumes.glob("*"))) if self._volumes.is_dir() else ()

    def remove(self, volume: str) -> None:
        directory.remove(self._directory(volume))

    def close(self) -> None:
        """Do nothing, because this engine has no connections."""

    def shell(self, job: Job) -> tuple[str, ...]:
        home = self._homes / "shell"
        environment = {"HOME": str(home), "TERM": os.environ.get("TERM", "dumb"), **_environment(job, home)}
        where = job.workdir or str(home)
        script = 'mkdir -p "$HOME"; cd "$0" && exec "$(command -v bash || command -v sh)"'
        return (
            "env",
            "-i",
            *(f"{name}={value}" for name, value in environment.items()),
            "/bin/sh",
            "-c",
            script,
            where,
        )

    def run(self, job: Job, output: Output) -> Outcome:
        """See the protocol. Raises `MissingError` if the program or a path is missing."""
        self._prepare(job)
        with _home(self._homes) as home:
            return run_job(job, _environment(job, home), output)

    @contextlib.contextmanager
    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> Iterator[Running]:
        """See the protocol. All jobs share the loopback interface of this machine.

        No limit is enforced, not even `seconds`.
        """
        self._prepare(job)
        with _home(self._homes) as home, running(job, _environment(job, home), output) as one:
            yield one

    def _prepare(self, job: Job) -> None:
        """Check the platform and paths of a job, and create its volumes."""
        if job.platform not in (None, native_platform()):
            raise PlatformUnsupported(
                f"{job.what} is for {job.platform}, and this machine is {native_platform()}",
                hint=f"use an engine that runs {job.platform}: docker:CONTEXT or ssh://USER@HOST",
            )
        for path in job.paths:
            if not Path(path.source).exists():
                raise GpuNotGiven(f"{job.what} cannot start: {path.source} does not exist on this machine")
        for volume in job.volumes:
            self._directory(volume.name).mkdir(parents=True, exist_ok=True)
        self._homes.mkdir(parents=True, exist_ok=True)

    def _directory(self, volume: str) -> Path:
        return self._volumes / checked_volume(volume)


def native_platform() -> str:
    """Return the platform of this machine as container engines name it: `linux/amd64`, `linux/arm64`."""
    machine = os.uname()
    return f"{machine.sysname.lower()}/{_MACHINES.get(machine.machine, machine.machine)}"


@contextlib.contextmanager
def _home(parent: Path) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="job-", dir=parent))
    try:
        yield home
    finally:
        with contextlib.suppress(OSError):
            directory.remove(home)


def _environment(job: Job, home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), **job.env}
