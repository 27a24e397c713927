"""The programs below a lock's owner: they carry its token in their environment, however far down they were started."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_below(variable: str, token: str) -> None:
    """Kill every process of ours that was started with that variable at that value, but this one. Where there is no
    /proc it does nothing."""
    mark = f"{variable}={token}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        pid = int(environ.parent.name)
        with contextlib.suppress(OSError):
            if pid != os.getpid() and mark in environ.read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
