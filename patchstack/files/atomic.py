"""Create and replace files atomically, and flush them to disk. Nothing else renames files."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from patchstack.causes import AlreadyExists
from patchstack.files.processes import left_behind, tag


def refuse_occupied(directory: Path) -> None:
    """Raise `UsageError` if a new directory already exists and is not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AlreadyExists(f"{directory} already exists", hint="name a new directory")


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Delay signals that would end this process until the block is done."""
    waiting = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_new(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a draft, which must be on the same file system, in one step. `path` is replaced if it is a file, a link
    (not followed), or an empty directory and the draft is a directory. Raises `OSError`; then nothing has changed. The
    caller must flush the draft first, if needed.
    """
    os.replace(draft, path)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the content of a file, or of a link's target, in one step. A killed run leaves the old or the new
    content. Without `mode` an existing file keeps its mode, and a new one gets the default.

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
    """Remove the drafts of a file whose processes have surely ended. A draft with our own tag is from an earlier
    process with our number."""
    start = f".{path.name}.patchstack-"
    for left in path.parent.iterdir():
        if left.name.startswith(start) and (left == own or left_behind(left.name.removeprefix(start), left)):
            left.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries to disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Create a hard link to a file that will not change, or a copy if the file system has no hard links."""
    import shutil

    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
