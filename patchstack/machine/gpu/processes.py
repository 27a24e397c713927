"""The programs below a lock's owner: they carry its token in their environment, however far down they were started."""

from __future__ import annotations

import contextlib
import os
import signal

from patchstack.files import proc


def end_below(variable: str, token: str) -> None:
    """Kill every process of ours that was started with that variable at that value, but this one. Where there is no
    /proc it does nothing."""
    mark = f"{variable}={token}".encode()
    for pid, environment in proc.environments():
        if pid != os.getpid() and mark in environment:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
