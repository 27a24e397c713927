"""Label containers with the process that created them, so that the containers of ended processes can be removed."""

from __future__ import annotations

import os
import re

from patchstack.errors import MissingError
from patchstack.files import processes
from patchstack.files.processes import here, is_gone
from patchstack.process import clean_environment, run

JOB_LABEL = "patchstack.job"
OWNER_LABEL = "patchstack.owner"
VOLUME_LABEL = "patchstack.volume"
_LABEL = re.compile(r"(?P<host>[^:/]*)(?:/(?P<place>[0-9a-f]{8}))?:(?P<pid>[0-9]+):(?P<start>.*)")


def own_label() -> str:
    """Return the owner label of this process: `hostname/place:pid:start time`.

    `place` identifies the machine or PID namespace in which the pid is valid. The start time detects a reused pid.
    """
    return f"{os.uname().nodename}/{here()}:{os.getpid()}:{_start_time(os.getpid()) or ''}"


def is_dead(label: str, *, silent: float = 0.0) -> bool:
    """Return whether the process of an owner label belongs to this machine and has certainly ended.

    `silent` is the time in seconds since the last sign that the process was running. Labels of earlier versions contain
    no place.
    """
    found = _LABEL.fullmatch(label)
    if found is None or found["host"] != os.uname().nodename:
        return False
    pid, start = int(found["pid"]), found["start"]
    if is_gone(pid, found["place"], silent=silent):
        return True
    if found["place"] != here() or not start:
        return False
    return _start_time(pid) not in (None, start)


def _start_time(pid: int) -> str | None:
    """Return the start time of a process as a string.

    Returns None if the process is not visible, or if neither `/proc` nor `ps` is available.
    """
    if processes.stat(os.getpid()) is not None:
        found = processes.stat(pid)
        return found.start if found is not None else None
    try:
        told = run(["ps", "-o", "lstart=", "-p", str(pid)], timeout=10, env=clean_environment({"TZ": "UTC"}))
    except MissingError:
        return None
    return "-".join(told.stdout.decode().split()) or None
