"""Read an untrusted file only if it is a regular file and not too large.

Reading a FIFO or a device might never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 256 << 20
"""The default size limit of `read_regular`, in bytes. Locks, workspace files and records are much smaller."""


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """Return the content of a regular file. Links are followed.

    Raises `OSError` if the path is not a regular file, or if the file is larger than `largest` bytes.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if found.st_size > largest:
            raise OSError(errno.EFBIG, f"too large: {found.st_size} bytes, the limit is {largest}", str(path))
        return file.read(found.st_size)


def same_content(one: Path, other: Path) -> bool:
    """Return whether two paths are regular files with the same bytes. Links do not count as regular files."""
    try:
        if one.is_symlink() or other.is_symlink() or one.stat().st_size != other.lstat().st_size:
            return False
        return read_regular(one) == read_regular(other)
    except OSError:
        return False
