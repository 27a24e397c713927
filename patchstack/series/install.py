"""Replace many files of a directory as one step, with a journal: before it is written nothing has changed, and once it
is written the change can always be finished, however often the run is killed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import MissingError, UsageError

STAGE = ".patchstack-apply"
_JOURNAL = "journal.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path: its new content, or None to remove it. A link's content is its target."""

    path: str
    content: bytes | None
    link: bool
    executable: bool


def unfinished(directory: Path) -> bool:
    """Whether a killed run left a journal here."""
    return (directory / STAGE / _JOURNAL).is_file()


def install(directory: Path, changes: Sequence[Change]) -> None:
    """Write every change or, where one cannot be prepared (no space, no permission), none.

    Raises `UsageError` where another run is at work here, `MissingError` for what the disk refuses.
    """
    if not changes:
        return
    with _alone(directory):
        stage = directory / STAGE
        try:
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir()
            _prepare(directory, stage, changes)
        except OSError as error:
            shutil.rmtree(stage, ignore_errors=True)
            raise MissingError(f"{directory} cannot be written: {error}; nothing was changed") from error
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise
        _finish(directory, stage)


def resume(directory: Path) -> int:
    """Finish what a killed run began; gives the number of paths it was about, 0 where there was none."""
    with _alone(directory):
        if not unfinished(directory):
            return 0
        return _finish(directory, directory / STAGE)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the directory's lock, so that no two runs write into it at once."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another patchstack apply is at work in {directory}", hint="wait for it") from error
        yield
    finally:
        os.close(descriptor)


def _prepare(directory: Path, stage: Path, changes: Sequence[Change]) -> None:
    """Write new contents beside the old, then the journal: from here on the change is decided."""
    entries = []
    for number, change in enumerate(changes):
        if change.content is None:
            entries.append({"path": change.path, "staged": None})
            continue
        staged = stage / str(number)
        if change.link:
            os.symlink(change.content, os.fsencode(staged))
        else:
            _write(staged, change.content)
            os.chmod(staged, _mode(directory / change.path, change.executable))
        entries.append({"path": change.path, "staged": str(number)})
    draft = stage / "journal.draft"
    _write(draft, json.dumps(entries).encode("utf-8", "surrogateescape"))
    os.replace(draft, stage / _JOURNAL)
    _sync(stage)


def _finish(directory: Path, stage: Path) -> int:
    """Carry out the journal. Every step may have been done before."""
    entries = json.loads((stage / _JOURNAL).read_bytes().decode("utf-8", "surrogateescape"))
    for entry in entries:
        if entry["staged"] is None:
            path = directory / entry["path"]
            path.unlink(missing_ok=True)
            _prune(directory, path.parent)
    for entry in entries:
        if entry["staged"] is not None and os.path.lexists(stage / entry["staged"]):
            path = directory / entry["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_empty(path)
            os.replace(stage / entry["staged"], path)
    (stage / _JOURNAL).unlink()
    shutil.rmtree(stage)
    _sync(directory)
    return len(entries)


def _remove_empty(path: Path) -> None:
    """Remove a directory, with any below it, in the place of which a file comes: the change has taken all it held."""
    if path.is_dir() and not path.is_symlink():
        for parent, _, _ in os.walk(path, topdown=False):
            Path(parent).rmdir()


def _mode(old: Path, executable: bool) -> int:
    """The permissions of the file replaced, or the usual ones, with or without the executable bits."""
    try:
        bits = old.lstat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        bits = 0o666 & ~mask
    return bits | (bits & 0o444) >> 2 if executable else bits & ~0o111


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prune(directory: Path, parent: Path) -> None:
    """Remove directories that the change has left empty, as git does."""
    while parent != directory:
        try:
            parent.rmdir()
        except OSError:
            return
        parent = parent.parent
