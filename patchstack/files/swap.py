"""Replace a directory as one step: readers see the old set of files or the new one, never a mixture."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from patchstack.errors import MissingError
from patchstack.files.atomic import link_or_copy, put_in_place, sync_directory, write_new
from patchstack.files.lock import alone_in

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2  # renamex_np on macOS


def replace_files(directory: Path, files: Mapping[str, bytes | None]) -> None:
    """Write and remove (None) files of a directory, all at once; every other entry of it stays.

    The new directory is made beside the old one, then the two change places: a run killed at any moment leaves one or
    the other, and at worst a left-over beside it that the next run removes. Raises `UsageError` where another run is at
    work, `MissingError` for what the disk refuses; then nothing has changed.
    """
    directory = directory.resolve()
    fresh = _beside(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingError(f"{directory.parent} cannot be made: {error.strerror}") from error
    with alone_in(directory.parent, "patchstack export"):
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            if directory.is_dir():
                shutil.copytree(directory, fresh, symlinks=True, copy_function=link_or_copy)
            else:
                fresh.mkdir(parents=True)
            for name, content in files.items():
                (fresh / name).unlink(missing_ok=True)
                if content is not None:
                    write_new(fresh / name, content)
            sync_directory(fresh)
            if directory.is_dir():
                _exchange(fresh, directory)
            else:
                put_in_place(fresh, directory)
            sync_directory(directory.parent)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise MissingError(f"{directory} cannot be written: {error}; nothing was changed") from error
        except shutil.Error as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise MissingError(f"{directory} cannot be copied: {error}; nothing was changed") from error
        shutil.rmtree(fresh, ignore_errors=True)


def sweep_leftover(directory: Path) -> None:
    """Remove what a run that was killed left beside a directory. Raises `UsageError` where another run is at work."""
    fresh = _beside(directory.resolve())
    if os.path.lexists(fresh):
        with alone_in(fresh.parent, "patchstack export"):
            shutil.rmtree(fresh, ignore_errors=True)


def _beside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.patchstack-new")


def _exchange(one: Path, other: Path) -> None:
    """Let two paths change places in one system call. Raises `OSError` where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        done = libc.renamex_np(os.fsencode(one), os.fsencode(other), _RENAME_SWAP)
    elif hasattr(libc, "renameat2"):
        done = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    else:
        raise OSError(errno.ENOSYS, "this system cannot exchange two directories")
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(other))
