"""Run a container in the background, for example a server or the client that measures it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from patchstack.engine.archive import OWNER
from patchstack.engine.docker import containers
from patchstack.engine.docker.connection import Connection
from patchstack.engine.lifeline import Trailer
from patchstack.engine.protocol import Ending, EngineLost, Job, Outcome, Output

_KILLED = 137
# Sends SIGTERM to the job, which is a grandchild of process 1 (see `lifeline`). Uses only builtins of the shell.
_TERMINATE = """
parents=
for pass in 1 2
do
    for stat in /proc/[0-9]*/stat
    do
        pid=${stat#/proc/}; pid=${pid%/stat}
        read -r line <$stat || continue
        set -- ${line##*) }
        [ $pass = 1 ] && [ "$2" = 1 ] && parents="$parents $pid "
        [ $pass = 2 ] && case "$parents" in *" $2 "*) kill -TERM $pid ;; esac
    done
done 2>/dev/null
exit 0
"""


class ContainerJob:
    """A started job in a container. It implements `Running`. Its output is delivered only during `wait` and `stop`."""

    def __init__(
        self, connection: Connection, job: Job, name: str, attached: containers.Attached, nonce: str, output: Output
    ) -> None:
        self._connection, self._job, self.name = connection, job, name
        self._attached, self._output = attached, output
        self._trailer = Trailer(nonce)
        self._beginning = b""
        self._began = time.monotonic()
        self._outcome: Outcome | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        return None

    def wait(self, seconds: float) -> Outcome | None:
        deadline = time.monotonic() + seconds
        while self._outcome is None:
            try:
                with self._connection.faults.translated(f"run {self._job.what}"):
                    piece = self._attached.read(max(deadline, time.monotonic() + 0.001))
            except containers.Late:
                return None
            if piece is not None:
                self._beginning = self._beginning or piece[:200]
                if shown := self._trailer.feed(piece):
                    self._output(shown)
            if piece is None or self._trailer.whole:
                self._conclude()
        return self._outcome

    def terminate(self) -> None:
        api = self._connection.api
        if self._outcome is not None:
            return
        with self._connection.faults.translated(f"end {self._job.what}"), contextlib.suppress(*containers.GONE):
            made = api.exec_create(self.name, ["/bin/sh", "-c", _TERMINATE], user=f"{OWNER}:{OWNER}")
            api.exec_start(made["Id"])

    def stop(self, grace: float) -> Outcome:
        if (found := self.wait(0)) is not None:
            return found
        self.terminate()
        if (found := self.wait(grace)) is not None:
            return found
        with self._connection.faults.translated(f"end {self._job.what}"):
            containers.remove(self._connection.api, self.name)
        self._outcome = Outcome(ending=Ending.EXITED, code=_KILLED, seconds=time.monotonic() - self._began)
        return self._outcome

    def _conclude(self) -> None:
        seconds = time.monotonic() - self._began
        held, ended = self._trailer.end()
        if held:
            self._output(held)
        self._outcome = containers.outcome(self._connection, self._job, self.name, ended, seconds, self._beginning)


@contextlib.contextmanager
def running(
    connection: Connection, job: Job, body: dict[str, Any], nonce: str, output: Output
) -> Iterator[ContainerJob]:
    """Create and start the container of a job, and remove it at the end of the block.

    See `containers.run` for the parameters and errors.
    """
    api, faults = connection.api, connection.faults
    name = f"patchstack-{os.getpid()}-{nonce}"
    attached = None
    try:
        with faults.translated(f"create a container for {job.what}"):
            containers.create(api, body, name)
            attached = containers.attach(api, name)
        with faults.translated(f"start {job.what}"):
            api.start(name)
        yield ContainerJob(connection, job, name, attached, nonce, output)
    except EngineLost:
        name = ""  # not removed, because the engine may not answer; the lifeline ends the container
        raise
    finally:
        if attached is not None:
            attached.close()
        if name:
            with faults.translated(f"remove the container of {job.what}"):
                containers.remove(api, name)
