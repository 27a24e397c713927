"""Tell whether the process that left a file, a directory or a volume behind is surely gone.

A process number is valid only in one PID namespace: a container sees neither the processes of the next container nor
those of the host, and may share a cache with both. So what may be left behind is named with a tag: the process number,
and the place where that number is valid. In the same place a number that is not in use proves the process gone.
Elsewhere only age tells.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import time
from pathlib import Path

TAG = r"([0-9]+)(?:-([0-9a-f]{8}))?"
"""Matches a tag: process number and place. Names of earlier versions have no place."""
_UNKNOWN_PLACE = 3600.0
_ELSEWHERE = 2 * 86400.0
"""Seconds without a sign of life after which a process that cannot be looked at counts as gone. Elsewhere it is longer
than any run of a program may be silent (a day)."""


def tag() -> str:
    """Return the tag of this process."""
    return f"{os.getpid()}-{here()}"


@functools.cache
def here() -> str:
    """Return the place where this process's number is valid: machine, start of the machine, and PID namespace.

    If the system does not tell, it is a random word: no other process has it, and age alone decides.
    """
    from patchstack.files import proc  # most runs leave nothing behind: verify never asks

    boot, namespace = proc.boot_id(), proc.pid_namespace()
    if not (boot and namespace):
        boot, namespace = _boot_session(), "none"  # macOS has no PID namespaces
    if not boot:
        return secrets.token_hex(4)
    import hashlib

    words = (os.uname().nodename, boot, namespace)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def left_behind(tagged: str, path: Path) -> bool:
    """Whether a file or directory belongs to a process that is surely gone. `tagged` is the tag in its name; text that
    is no tag belongs to nobody, and the answer is no."""
    found = re.fullmatch(TAG, tagged)
    if found is None:
        return False
    pid, place = int(found[1]), found[2]
    return is_gone(pid, place, silent=0.0 if place == here() else _silence(path))


def is_gone(pid: int, place: str | None, *, silent: float) -> bool:
    """Whether a process is surely gone. `place` is None for names of earlier versions; `silent` is how long it has
    given no sign of life, in seconds. A number that another process uses by now counts as alive."""
    if place == here():
        return not _in_use(pid)
    if place is None:
        return silent > _UNKNOWN_PLACE and not _in_use(pid)
    return silent > _ELSEWHERE


def _in_use(pid: int) -> bool:
    """Whether a process of that number exists in this PID namespace."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # somebody else's
    return True


def _silence(path: Path) -> float:
    """Seconds since anything in a directory, or a file, was last written. 0 if it is gone or unreadable."""
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
    """Return macOS's id of this start of the machine; empty on any other system."""
    import ctypes

    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    try:
        system = ctypes.CDLL(None)
        failed = system.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""
    return "" if failed else text.value.decode("ascii", "replace")
