"""Run a job on this machine until it ends, or in the background.

The processes of a job form a session with a lifeline.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from patchstack.causes import JobCannotStart, JobRefused
from patchstack.engine.host.apart import DEPTH, apart
from patchstack.engine.lifeline import HOST
from patchstack.engine.protocol import Ending, Job, Outcome, Output
from patchstack.files import processes
from patchstack.process import Child, start

_BLOCK = 1 << 16
_POLL = 0.05
_SHORTEST = 0.001
"""The first pause in seconds after a job closed its output. Nearly every job ends immediately afterwards."""
_PASSES = 100
"""The maximum number of passes over a session's processes.

Without a maximum, a process that cannot be killed (in an uninterruptible system call) would cause an endless loop.
"""


def run_job(job: Job, environment: Mapping[str, str], output: Output) -> Outcome:
    """Run a job with this environment until it ends. See `Engine.run`."""
    _check(job, environment)
    ours, theirs = os.pipe()
    lifeline_theirs, lifeline = os.pipe()
    began = time.monotonic()
    try:
        try:
            child = _start(job, environment, lifeline_theirs, theirs, first=apart() or ())
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
    code = child.wait()  # returns at once, because `_end` has ended the process
    return Outcome(
        ending=Ending.EXITED if in_time else Ending.TIMED_OUT, code=code if code >= 0 else 128 - code, seconds=seconds
    )


class HostJob:
    """A job that runs in the background. It implements `Running`.

    A thread delivers its output. `depth` is the number of processes above the job's own process. These processes create
    its PID namespace.
    """

    def __init__(self, child: Child, source: int, output: Output, depth: int) -> None:
        self._child = child
        self._depth = depth
        self._began = time.monotonic()
        self._outcome: Outcome | None = None
        self._over = threading.Event()
        self._pump = threading.Thread(target=self._hand_on, args=(source, output), daemon=True)
        self._pump.start()

    @property
    def address(self) -> tuple[str, int] | None:
        ports = processes.listening_ports(self._child.pid)
        return ("127.0.0.1", min(ports)) if ports else None

    def wait(self, seconds: float) -> Outcome | None:
        deadline = time.monotonic() + seconds
        while self._outcome is None:
            if _over(self._child):
                self._ended()
                break
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(left, _POLL))
        return self._outcome

    def terminate(self) -> None:
        if self._outcome is None and not _over(self._child) and (pid := self._own()) is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)

    def stop(self, grace: float) -> Outcome:
        try:
            if self.wait(0) is None:
                self.terminate()
                self.wait(grace)
        finally:
            self._ended()
        assert self._outcome is not None
        return self._outcome

    def close(self) -> None:
        """End all remaining processes, and deliver the rest of the output."""
        self._ended()
        self._over.set()
        self._pump.join(timeout=5)

    def _own(self) -> int | None:
        """Return the pid of the job's own process.

        Returns None if this process does not start within a second. The pid is needed because the processes above the
        job ignore SIGTERM.
        """
        deadline = time.monotonic() + 1
        while True:
            pid: int | None = self._child.pid
            for _ in range(self._depth):
                pid = processes.only_child(pid) if pid is not None else None
            if pid is not None or time.monotonic() > deadline:
                return pid
            time.sleep(_POLL)

    def _ended(self) -> None:
        if self._outcome is None:
            _end(self._child)
            code = self._child.wait()
            self._outcome = Outcome(
                ending=Ending.EXITED, code=code if code >= 0 else 128 - code, seconds=time.monotonic() - self._began
            )

    def _hand_on(self, source: int, output: Output) -> None:
        while True:
            if select.select([source], [], [], 0.1)[0]:
                if not (block := os.read(source, _BLOCK)):
                    return
                output(block)
            elif self._over.is_set():  # do not wait for a surviving daemon that holds the pipe open
                return


@contextlib.contextmanager
def running(job: Job, environment: Mapping[str, str], output: Output) -> Iterator[HostJob]:
    """Start a job. At the end of the block, end all processes of its session."""
    _check(job, environment)
    with contextlib.ExitStack() as held:
        ours, theirs = os.pipe()
        held.callback(os.close, ours)
        lifeline_theirs, lifeline = os.pipe()
        held.callback(os.close, lifeline)
        try:
            first = apart() or ()
            child = _start(job, environment, lifeline_theirs, theirs, first=first)
        finally:
            os.close(theirs)
            os.close(lifeline_theirs)
        try:
            one = HostJob(child, ours, output, DEPTH if first else 0)
            held.callback(one.close)
        except BaseException:
            _end(child)
            raise
        yield one


def _check(job: Job, environment: Mapping[str, str]) -> None:
    if not job.argv:
        raise JobRefused(f"{job.what} cannot start: the job has no command")
    if job.workdir is not None and not Path(job.workdir).is_dir():
        raise JobCannotStart(f"{job.what} cannot run in {job.workdir}: it is not a directory")
    program = os.path.join(job.workdir or "", job.argv[0]) if "/" in job.argv[0] else job.argv[0]
    if shutil.which(program, path=environment["PATH"]) is None:
        raise JobCannotStart(
            f"{job.what} cannot start: {job.argv[0]} is not installed here",
            hint=f"install {job.argv[0]} and put it on PATH",
        )


def _start(job: Job, environment: Mapping[str, str], lifeline: int, output: int, *, first: Sequence[str] = ()) -> Child:
    try:
        return start(
            ["/bin/sh", "-c", HOST, "sh", *first, *job.argv],
            cwd=job.workdir,
            env=environment,
            stdin=lifeline,
            stdout=output,
            stderr=output,
        )
    except (ValueError, OSError) as error:  # the command contains a NUL byte, or more arguments than the kernel accepts
        raise JobRefused(f"{job.what} cannot be run: {error}") from error


def _pump(child: Child, source: int, output: Output, deadline: float | None) -> bool:
    """Deliver the output until the job is over. Return False if the deadline passes first."""
    pause = _SHORTEST
    while not _over(child):
        left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
        if left <= 0:
            return False
        if select.select([source], [], [], left)[0]:
            if not (block := os.read(source, _BLOCK)):  # the job closed its output, but may continue
                time.sleep(min(left, pause))
                pause = min(2 * pause, _POLL)
                continue
            output(block)
    return True


def _over(child: Child) -> bool:
    """Return whether the job's first process has ended.

    The process is not reaped, because its pid is the session id and must not be reused before the session has ended.
    """
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: Child) -> None:
    """End the remaining processes of the job's session.

    A process that is forked during one pass over /proc is found in the next pass.
    """
    for _ in range(_PASSES):
        if not _kill_session(child.pid):
            break
    child.wait()


def _kill_session(session: int) -> bool:
    """Kill the processes of a session. Return whether it had processes other than zombies."""
    found = False
    for pid, process in processes.of_session(session):
        if not process.ended:
            found = True
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return found


def _drain(source: int, output: Output) -> None:
    """Deliver the rest of the output, but do not wait for a surviving daemon that keeps the pipe open."""
    while select.select([source], [], [], 0.2)[0]:
        if not (block := os.read(source, _BLOCK)):
            return
        output(block)
