"""This machine as an engine: jobs are processes of the user, volumes are directories. There is no sandbox."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchstack.engine.host import directory
from patchstack.engine.lifeline import HOST
from patchstack.engine.protocol import (
    About,
    Ending,
    Image,
    Job,
    Outcome,
    Output,
    PlatformUnsupported,
    Volume,
    checked_volume,
)
from patchstack.errors import MissingError, UsageError
from patchstack.files import processes
from patchstack.process import Child, start

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_BLOCK = 1 << 16
_POLL = 0.05
_PASSES = 100
"""A process in the middle of dying, or in a system call that nothing interrupts, is not waited for without end."""


class HostEngine:
    """Runs jobs right here, with the user's rights. Of a job's limits only `seconds` holds, and the job's `image` and
    `gpus` mean nothing. A process that the kernel's out-of-memory killer ends cannot be told from one that somebody
    else killed: it has exit code 137, like any that got SIGKILL.

    A job and all it started are gone when it is over, when `run` is left by an exception, and when patchstack is
    killed; only a process that made a session of its own (a daemon) gets away.
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
        """None: a host has no images."""
        return None

    def place(self, volume: Volume) -> str:
        return str(self._directory(volume.name))

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        """As the protocol says; raises `MissingError` for an archive with an entry that leads out of the volume."""
        directory.put(self._directory(volume), archive)

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        return directory.get(self._directory(volume), path)

    def volumes(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self._volumes.glob("*"))) if self._volumes.is_dir() else ()

    def remove(self, volume: str) -> None:
        directory.remove(self._directory(volume))

    def close(self) -> None:
        """Nothing is held open."""

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
        """As the protocol says; raises `MissingError` where the program or a path is not here."""
        if job.platform not in (None, native_platform()):
            raise PlatformUnsupported(
                f"{job.what} is for {job.platform}, and this machine is {native_platform()}",
                hint=f"use an engine that runs {job.platform}: docker:CONTEXT or ssh://USER@HOST",
            )
        for path in job.paths:
            if not Path(path.source).exists():
                raise MissingError(f"{job.what} needs {path.source}, which is not on this machine")
        for volume in job.volumes:
            self._directory(volume.name).mkdir(parents=True, exist_ok=True)
        self._homes.mkdir(parents=True, exist_ok=True)
        with _home(self._homes) as home:
            return _run(job, _environment(job, home), output)

    def _directory(self, volume: str) -> Path:
        return self._volumes / checked_volume(volume)


def native_platform() -> str:
    """What this machine's programs are for, as containers name it: `linux/amd64`, `linux/arm64`."""
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


def _run(job: Job, environment: dict[str, str], output: Output) -> Outcome:
    if not job.argv:
        raise UsageError(f"{job.what} has no command")
    if job.workdir is not None and not Path(job.workdir).is_dir():
        raise MissingError(f"{job.what} cannot run in {job.workdir}: it is no directory")
    program = os.path.join(job.workdir or "", job.argv[0]) if "/" in job.argv[0] else job.argv[0]
    if shutil.which(program, path=environment["PATH"]) is None:
        raise MissingError(
            f"{job.what} cannot start: {job.argv[0]} is not installed here",
            hint=f"install {job.argv[0]} and put it on PATH",
        )
    ours, theirs = os.pipe()
    lifeline_theirs, lifeline = os.pipe()
    began = time.monotonic()
    try:
        try:
            child = _start(job, environment, lifeline_theirs, theirs)
        finally:
            os.close(theirs)
            os.close(lifeline_theirs)
        try:
            in_time = _pump(child, ours, output, None if job.limits.seconds is None else began + job.limits.seconds)
        finally:
            _end(child)
        seconds = time.monotonic() - began
        _drain(ours, output)
    finally:
        os.close(lifeline)
        os.close(ours)
    code = child.wait()  # known since `_end`
    return Outcome(
        ending=Ending.EXITED if in_time else Ending.TIMED_OUT, code=code if code >= 0 else 128 - code, seconds=seconds
    )


def _start(job: Job, environment: dict[str, str], lifeline: int, output: int) -> Child:
    try:
        return start(
            ["/bin/sh", "-c", HOST, "sh", *job.argv],
            cwd=job.workdir,
            env=environment,
            stdin=lifeline,
            stdout=output,
            stderr=output,
        )
    except (ValueError, OSError) as error:  # a NUL byte, or more arguments than the kernel takes
        raise UsageError(f"{job.what} cannot be run: {error}") from error


def _pump(child: Child, source: int, output: Output, deadline: float | None) -> bool:
    """Hand on the output until the job is over; False where it took longer than it may."""
    while not _over(child):
        left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
        if left <= 0:
            return False
        if select.select([source], [], [], left)[0]:
            if not (block := os.read(source, _BLOCK)):  # the job closed its output, and may go on without
                time.sleep(min(left, _POLL))
                continue
            output(block)
    return True


def _over(child: Child) -> bool:
    """Whether the job's first process has ended. It is not reaped: its number, which is the session's, must not become
    somebody else's before the session has ended."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: Child) -> None:
    """End all that is left of the job's session. What is forked during one pass over /proc, or leaves one group for
    another, is met by the next."""
    for _ in range(_PASSES):
        if not _kill_session(child.pid):
            break
    child.wait()


def _kill_session(session: int) -> bool:
    """Kill the processes of a session; whether there were any, those aside that only wait to be reaped."""
    found = False
    for pid, process in processes.visible():
        if process.session == session and not process.ended:
            found = True
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return found


def _drain(source: int, output: Output) -> None:
    """What is left of the output. A daemon that got away may hold the pipe open: it is not waited for."""
    while select.select([source], [], [], 0.2)[0]:
        if not (block := os.read(source, _BLOCK)):
            return
        output(block)
