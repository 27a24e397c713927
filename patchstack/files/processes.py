"""Read the processes of this machine, and check whether the owner of a leftover file has ended.

No other Python code reads the files of other processes in `/proc`. On a system without `/proc`, all functions except
`cpuinfo` treat these files as empty. Reading all processes must be fast: code that ends a session must see a process
before that process forks again.

A process number is valid only in one PID namespace. A container does not see the processes of other containers or of
the host, but can share a cache with them. Therefore files that could be left over have a tag in their names. The tag
contains the process number and the id of the place where that number is valid (see `here`). If the reader of the
tag is in the same place, an unused number proves that the owner has ended. Otherwise, only the age of the file counts.
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
    """A process, from `/proc/PID/stat` (see proc(5)).

    `state` is field 3, `parent` field 4, `session` field 6 and `start` field 22.
    """

    state: str
    parent: int
    session: int
    start: str

    @property
    def ended(self) -> bool:
        """Whether the process has ended but is not reaped yet."""
        return self.state in ("Z", "X")


def read_stat(text: str) -> Stat | None:
    """Parse the text of `/proc/PID/stat`, which may come from a different machine.

    Return None if the text is incomplete.
    """
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not all(field.lstrip("-").isdecimal() for field in (fields[1], fields[3])):
        return None
    return Stat(state=fields[0], parent=int(fields[1]), session=int(fields[3]), start=fields[19])


def stat_text(pid: int) -> str:
    """Return the text of `/proc/PID/stat`. Return an empty string if the process is not visible."""
    return _read(f"{pid}/stat")


def stat(pid: int) -> Stat | None:
    """Return the state of a process on this machine. Return None if the process is not visible."""
    return read_stat(stat_text(pid))


def visible() -> Iterator[tuple[int, Stat]]:
    """Yield the number and the state of every visible process.

    A process that starts during the iteration may be missed.
    """
    for pid in _pids():
        if (found := stat(pid)) is not None:
            yield pid, found


def of_session(session: int) -> Iterator[tuple[int, Stat]]:
    """Yield the number and the state of every visible process of a session.

    Processes of other sessions are skipped with `getsid`, which is 20 times as fast as reading their stat file.
    """
    for pid in _pids():
        try:
            if os.getsid(pid) != session:
                continue
        except ProcessLookupError:
            continue
        except PermissionError:
            pass  # the kernel's security policy may not allow `getsid` for this process
        if (found := stat(pid)) is not None and found.session == session:
            yield pid, found


def only_child(pid: int) -> int | None:
    """Return the only child of a process. Return None if it has no child or several."""
    found = [one for one, process in visible() if process.parent == pid]
    return found[0] if len(found) == 1 else None


def environments() -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield the number and the initial environment of every process.

    An entry of the environment is `NAME=value`. Processes whose environment cannot be read are skipped.
    """
    for pid in _pids():
        with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
            yield pid, tuple(file.read().split(b"\0"))


def listening_ports(session: int) -> frozenset[int]:
    """Return the TCP ports on which the processes of a session listen.

    Source: proc(5), state 0A in `/proc/PID/net/tcp`.
    """
    found: set[int] = set()
    for pid, _ in of_session(session):
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
    """Return whether the processes of other users are visible. They are hidden if `/proc` is mounted with `hidepid`."""
    return Path(_PROC, "1").exists()


def boot_id() -> str:
    """Return the random id of the current boot of this machine. Return an empty string if it cannot be read."""
    return _read("sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return the id of this process's PID namespace. Return an empty string if it cannot be read."""
    try:
        return os.readlink(f"{_PROC}/self/ns/pid")
    except OSError:
        return ""


def cpuinfo() -> str:
    """Return the content of `/proc/cpuinfo`. Raises `OSError` if it cannot be read."""
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
"""Matches a tag: the process number and the place. Tags of earlier versions have no place."""
_UNKNOWN_PLACE = 3600.0
_ELSEWHERE = 2 * 86400.0
"""After this many seconds without writing, a process in a different place counts as ended.

The limit must exceed a day, because the program of a run may write nothing for up to a day.
"""


def tag() -> str:
    """Return the tag of this process, for the names of its files."""
    return f"{os.getpid()}-{here()}"


@functools.cache
def here() -> str:
    """Return the id of the place where this process's number is valid, as 8 hexadecimal digits.

    On Linux, the id is a digest of the host name, the boot id and the PID namespace. On macOS, it is a digest of the
    host name and the boot session. If these values are unknown, the id is random, so that only the age of a file
    counts.
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
    """Return whether a file or directory belongs to a process that counts as ended (see `is_gone`).

    `tagged` is the tag in the name. If it is not a valid tag, return False.
    """
    found = re.fullmatch(TAG, tagged)
    if found is None:
        return False
    pid, place = int(found[1]), found[2]
    return is_gone(pid, place, silent=0.0 if place == here() else _silence(path))


def is_gone(pid: int, place: str | None, *, silent: float) -> bool:
    """Return whether a process counts as ended.

    `place` is the id of the place in which `pid` is valid (see `here`). `silent` is the time since the process last
    wrote, in seconds. A process of this place counts as ended if its number is not in use. A process of a different
    place counts as ended if `silent` exceeds a limit. If `place` is None, because the tag is from an earlier version,
    both must be true.
    """
    if place == here():
        return not _in_use(pid)
    if place is None:
        return silent > _UNKNOWN_PLACE and not _in_use(pid)
    return silent > _ELSEWHERE


def _in_use(pid: int) -> bool:
    """Return whether a process with this number exists in this PID namespace."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # the process belongs to a different user
    return True


def _silence(path: Path) -> float:
    """Return the number of seconds since a file or a directory tree was last changed.

    Return 0 if the file or directory is missing or unreadable.
    """
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
    """Return the boot session UUID of macOS. Return an empty string on other systems."""
    import ctypes

    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    try:
        system = ctypes.CDLL(None)
        failed = system.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""
    return "" if failed else text.value.decode("ascii", "replace")
