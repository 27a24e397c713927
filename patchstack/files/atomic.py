"""Files that are whole or not at all: new ones, replaced ones, and writes that reach the disk. The only module that
renames."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from patchstack.causes import AlreadyExists
from patchstack.files.processes import left_behind, tag


def refuse_occupied(directory: Path) -> None:
    """Raise `UsageError` if a directory to be made already exists, unless it is empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AlreadyExists(f"{directory} is there already", hint="name a new directory")


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Let signals that would end us wait until the block is done."""
    waiting = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet, down to the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a draft, which lies in the same file system, in one step. What `path` names is replaced: a file, a link
    (never followed), or a directory if it is empty and the draft is one. Raises `OSError`; then nothing has changed.

    The caller decides whether the draft has reached the disk before.
    """
    os.replace(draft, path)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Give a file, and the one a link leads to, new content in one step. A run that is killed leaves the old content or
    the new. Without `mode` a file keeps its own, and a new one gets the usual one.

    Raises `OSError`; then nothing has changed.
    """
    path = path.resolve()
    draft = path.with_name(f".{path.name}.patchstack-{tag()}")
    try:
        _sweep(path, draft)
        write_new(draft, content)
        if mode is not None:
            draft.chmod(mode)
        elif path.exists():
            draft.chmod(path.stat().st_mode & 0o7777)
        put_in_place(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _sweep(path: Path, own: Path) -> None:
    """Remove the drafts of a file whose processes are surely gone. One under our own tag is of a process that had our
    number before us."""
    start = f".{path.name}.patchstack-"
    for left in path.parent.iterdir():
        if left.name.startswith(start) and (left == own or left_behind(left.name.removeprefix(start), left)):
            left.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Let a directory's entries reach the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """A second name for a file that stays as it is; a copy where the file system has no such thing."""
    import shutil

    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
