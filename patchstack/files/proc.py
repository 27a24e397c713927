"""Read `/proc`. The only module that does; text is empty on a system without it.

A pass over all processes is kept quick: who ends a session must see a process before it has forked the next."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = "/proc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """A process in `/proc/PID/stat` (proc(5)): its state (field 3), its session (field 6) and its start (field 22)."""

    state: str
    session: int
    start: str

    @property
    def ended(self) -> bool:
        """Whether it only waits to be reaped."""
        return self.state in ("Z", "X")


def read_stat(text: str) -> Stat | None:
    """Parse the text of a `/proc/PID/stat`, of this machine or another. None if it is not whole."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not fields[3].lstrip("-").isdecimal():
        return None
    return Stat(state=fields[0], session=int(fields[3]), start=fields[19])


def stat_text(pid: int) -> str:
    """Return `/proc/PID/stat`; empty if no such process is visible."""
    return _read(f"{pid}/stat")


def stat(pid: int) -> Stat | None:
    """Return a process of this machine, or None if it is not visible."""
    return read_stat(stat_text(pid))


def processes() -> Iterator[tuple[int, Stat]]:
    """Yield every visible process. A process that starts meanwhile may be missed."""
    for pid in _pids():
        if (found := stat(pid)) is not None:
            yield pid, found


def environments() -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield the environment, as `NAME=value`, that each process was started with. Those that we may not read are left
    out."""
    for pid in _pids():
        with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
            yield pid, tuple(file.read().split(b"\0"))


def shows_every_process() -> bool:
    """Whether other users' processes are visible. They are not under `hidepid`."""
    return Path(_PROC, "1").exists()


def boot_id() -> str:
    """Return the random id of this start of the machine."""
    return _read("sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return the id of the namespace in which this process's numbers are valid."""
    try:
        return os.readlink(f"{_PROC}/self/ns/pid")
    except OSError:
        return ""


def cpuinfo() -> str:
    """Return `/proc/cpuinfo`. Raises `OSError` if it cannot be read."""
    with open(f"{_PROC}/cpuinfo", encoding="utf-8", errors="replace") as file:
        return file.read()


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(f"{_PROC}/{path}", "rb", buffering=0) as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
