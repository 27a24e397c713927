"""Lock a file or a directory for one process at a time.

No other Python code uses `flock`. The kernel releases a lock when every process that has its descriptor has ended or
closed the descriptor. Therefore the lock of a killed process is released, and a child process that inherits the
descriptor also holds the lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from patchstack.causes import Busy, NotWritable


@contextlib.contextmanager
def locked(file: Path, busy: Callable[[str], None] | None = None) -> Iterator[int]:
    """Hold the lock of a file during the `with` block, and yield the file's descriptor.

    The file is created if it does not exist, and it is never removed. If a different process holds the lock, `busy` is
    called with the name of that process, such as "process 123". Then this function waits for the lock. An exception
    from `busy` cancels the wait.

    Raises `OSError` if the file cannot be opened.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def ask() -> None:
        if busy is not None:
            busy(os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "another process")

    with _held(descriptor, ask):
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
        yield descriptor


_LONGEST_NAME = 400


@contextlib.contextmanager
def locked_while(file: Path, owner: str, busy: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a file that exists only while it is locked.

    Waiting processes show `owner` as the holder of the lock. If a different process holds the lock, `busy` is called
    with the `owner` of that process. Then this function waits for the lock. An exception from `busy` cancels the wait.
    A lock file that a killed process left is reused.

    Raises `UsageError` if the path is not a lock file, and `MissingError` if the file cannot be created.
    """
    told = False
    while True:
        descriptor = _opened(file)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    name = os.pread(descriptor, _LONGEST_NAME, 0).decode("utf-8", "replace").strip()
                    busy("".join(one for one in name if one.isprintable()) or "another process")
                    told = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_still(file, descriptor):  # the previous owner removed the file while this process waited
                continue
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{owner}\n".encode()[:_LONGEST_NAME], 0)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    file.unlink()
            return
        finally:
            os.close(descriptor)


def _opened(file: Path) -> int:
    """Open or create a lock file, without following links.

    Raises `UsageError` if the path is not a regular file, and `MissingError` if the file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    occupied = Busy(f"{file} is not a lock file", hint=f"remove {file}")
    try:
        descriptor = os.open(file, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            raise occupied from error
        raise NotWritable(f"{file} cannot be written: {error.strerror}; nothing was changed") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise occupied
    return descriptor


def _is_still(file: Path, descriptor: int) -> bool:
    """Return whether a path still refers to the file of a descriptor."""
    try:
        named = os.lstat(file)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


GRACE = 2.0
"""How long to wait for the lock of a directory, in seconds.

If the holder of the lock is killed just after it created a child process, the child process keeps the lock until it
executes its program.
"""


@contextlib.contextmanager
def locked_directory(directory: Path, what: str) -> Iterator[int]:
    """Hold the lock of a directory during the `with` block, and yield the directory's descriptor.

    `what` describes the process in messages, for example `patchstack export`. If a different process holds the lock,
    this function tries again for `GRACE` seconds.

    Raises `UsageError` if a different process still holds the lock, and `MissingError` if the directory cannot be
    opened.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise NotWritable(f"{directory} cannot be opened: {error.strerror}") from error

    def refuse() -> None:
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            time.sleep(0.05)
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise Busy(f"another {what} is running in {directory}", hint="wait until it ends")

    with _held(descriptor, refuse):
        yield descriptor


@contextlib.contextmanager
def _held(descriptor: int, busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a descriptor during the `with` block, then close the descriptor.

    If a different process holds the lock, `busy` is called before waiting.
    """
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
