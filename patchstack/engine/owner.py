"""Whose a container is: the very process that made it. What dead processes left behind is removed."""

from __future__ import annotations

import os
from pathlib import Path

from patchstack.process import run

JOB_LABEL = "patchstack.job"
OWNER_LABEL = "patchstack.owner"
VOLUME_LABEL = "patchstack.volume"


def own_label() -> str:
    """This process as `hostname:pid:start time`, so that a pid used again is not taken for it."""
    return f"{os.uname().nodename}:{os.getpid()}:{_start_time(os.getpid()) or ''}"


def is_dead(label: str) -> bool:
    """Whether the process of an owner label is one of this machine's, and has ended."""
    host, _, rest = label.partition(":")
    pid, _, start = rest.partition(":")
    return host == os.uname().nodename and pid.isdecimal() and _start_time(int(pid)) != start


def _start_time(pid: int) -> str | None:
    """When a process began, in any unit that stays the same; None where there is no such process."""
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            return None
    told = run(["ps", "-o", "lstart=", "-p", str(pid)], timeout=10)
    return "-".join(told.stdout.decode().split()) or None
