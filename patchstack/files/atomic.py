"""Create and replace files atomically, and flush them to disk. No other module renames files."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from patchstack.causes import AlreadyExists
from patchstack.files.processes import left_behind, tag


def refuse_occupied(directory: Path) -> None:
    """Raise `UsageError` if `directory` is a file, or a directory that is not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AlreadyExists(f"{directory} already exists", hint="name a directory that does not exist")


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block SIGINT, SIGTERM and SIGHUP. A blocked signal is delivered at the end of the `with` block."""
    waiting = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_new(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk. Raises `OSError` if the file already exists or cannot be written."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a draft to `path` in one step.

    Both paths must be on the same file system. An existing file or link at `path` is replaced. A link is not followed.
    If the draft is a directory, it may also replace an empty directory. The caller must flush the draft to disk if
    necessary.

    Raises `OSError` if the draft cannot be renamed. Then nothing has changed.
    """
    os.replace(draft, path)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the content of a file in one step.

    If the path is a link, its target is replaced. If the process is killed, the file has either its old or its new
    content. Without `mode`, an existing file keeps its mode, and a new file gets the default mode.

    Raises `OSError` if the file cannot be written.
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
    """Remove the drafts that ended processes left next to a file.

    A draft with the name `own` is also removed. It was left by an earlier process with the same number as this one.
    """
    start = f".{path.name}.patchstack-"
    for left in path.parent.iterdir():
        if left.name.startswith(start) and (left == own or left_behind(left.name.removeprefix(start), left)):
            left.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Flush the entries of a directory to disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Create a hard link to a file that will not change. If a hard link is not possible, create a copy."""
    import shutil

    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
