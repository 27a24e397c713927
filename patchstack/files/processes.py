"""Read processes of this machine from `/proc`, and decide whether the owner of a leftover has surely ended. Nothing
else reads `/proc`; texts are empty on a system without it. A pass over all processes must be fast: code that ends a
session must see a process before it forks again.

A process number is valid only in one PID namespace: a container sees neither the processes of the next container nor
those of the host, and may share a cache with both. So possible leftovers are named with a tag: the process number, and
the place where that number is valid. In the same place an unused number proves that the process has ended. Elsewhere
only the age is evidence.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = "/proc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """A process in `/proc/PID/stat` (proc(5)): its state (field 3), parent (4), session (6) and start (22)."""

    state: str
    parent: int
    session: int
    start: str

    @property
    def ended(self) -> bool:
        """Whether it has ended and waits to be reaped."""
        return self.state in ("Z", "X")


def read_stat(text: str) -> Stat | None:
    """Parse the text of a `/proc/PID/stat`, of any machine. None if it is incomplete."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not all(field.lstrip("-").isdecimal() for field in (fields[1], fields[3])):
        return None
    return Stat(state=fields[0], parent=int(fields[1]), session=int(fields[3]), start=fields[19])


def stat_text(pid: int) -> str:
    """Return `/proc/PID/stat`; empty if no such process is visible."""
    return _read(f"{pid}/stat")


def stat(pid: int) -> Stat | None:
    """Return a process of this machine, or None if it is not visible."""
    return read_stat(stat_text(pid))


def visible() -> Iterator[tuple[int, Stat]]:
    """Yield every visible process. A process that starts during the iteration may be missed."""
    for pid in _pids():
        if (found := stat(pid)) is not None:
            yield pid, found


def only_child(pid: int) -> int | None:
    """Return the one child of a process, or None if it has none or several."""
    found = [one for one, process in visible() if process.parent == pid]
    return found[0] if len(found) == 1 else None


def environments() -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield the environment, as `NAME=value`, that each process was started with. Unreadable ones are omitted."""
    for pid in _pids():
        with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
            yield pid, tuple(file.read().split(b"\0"))


def listening_ports(session: int) -> frozenset[int]:
    """Return the TCP ports on which processes of a session listen (proc(5): state 0A of `/proc/PID/net/tcp`)."""
    found: set[int] = set()
    for pid, one in visible():
        if one.session == session:
            found |= _listening(pid)
    return frozenset(found)


def _listening(pid: int) -> set[int]:
    inodes = set()
    try:
        for name in os.listdir(f"{_PROC}/{pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(f"{_PROC}/{pid}/fd/{name}"))
    except OSError:
        return set()
    found = set()
    for table in ("tcp", "tcp6"):
        for line in _read(f"{pid}/net/{table}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def shows_every_process() -> bool:
    """Return whether other users' processes are visible, which they are not with `hidepid`."""
    return Path(_PROC, "1").exists()


def boot_id() -> str:
    """Return the random id of this boot of the machine."""
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


TAG = r"([0-9]+)(?:-([0-9a-f]{8}))?"
"""Matches a tag: process number and place. Names of earlier versions have no place."""
_UNKNOWN_PLACE = 3600.0
_ELSEWHERE = 2 * 86400.0
"""Seconds without a sign of life after which an invisible process counts as ended. Longer than any run of a program may
be silent (a day)."""


def tag() -> str:
    """Return the tag of this process."""
    return f"{os.getpid()}-{here()}"


@functools.cache
def here() -> str:
    """Return the place where this process's number is valid: machine, boot, and PID namespace. If unknown, it is a
    random word that no other process has, so that only the age decides.
    """

    boot, namespace = boot_id(), pid_namespace()
    if not (boot and namespace):
        boot, namespace = _boot_session(), "none"  # macOS has no PID namespaces
    if not boot:
        return os.urandom(4).hex()
    import hashlib

    words = (os.uname().nodename, boot, namespace)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def left_behind(tagged: str, path: Path) -> bool:
    """Return whether a file or directory belongs to a process that has surely ended. `tagged` is the tag in its name;
    the result is False for a text that is not a tag."""
    found = re.fullmatch(TAG, tagged)
    if found is None:
        return False
    pid, place = int(found[1]), found[2]
    return is_gone(pid, place, silent=0.0 if place == here() else _silence(path))


def is_gone(pid: int, place: str | None, *, silent: float) -> bool:
    """Return whether a process has surely ended. `place` is None for names of earlier versions; `silent` is the time
    without a sign of life in seconds. A number that was reused by another process counts as alive."""
    if place == here():
        return not _in_use(pid)
    if place is None:
        return silent > _UNKNOWN_PLACE and not _in_use(pid)
    return silent > _ELSEWHERE


def _in_use(pid: int) -> bool:
    """Return whether a process of that number exists in this PID namespace."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's process
    return True


def _silence(path: Path) -> float:
    """Return the seconds since a file, or anything in a directory, was last written. 0 if it is missing or
    unreadable."""
    try:
        newest = path.lstat().st_mtime
        if path.is_dir() and not path.is_symlink():
            for root, directories, files in os.walk(path):
                for name in (*directories, *files):
                    with contextlib.suppress(FileNotFoundError):
                        newest = max(newest, os.lstat(os.path.join(root, name)).st_mtime)
    except OSError:
        return 0.0
    return time.time() - newest


def _boot_session() -> str:
    """Return macOS's id of this boot; empty on any other system."""
    import ctypes

    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    try:
        system = ctypes.CDLL(None)
        failed = system.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""
    return "" if failed else text.value.decode("ascii", "replace")
