"""Change several files of a directory: either all of them, or none.

`replace_files` replaces the whole directory. `install` changes files in place and writes a journal, so that `resume`
can finish the changes of a killed run.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.causes import AlreadyExists, JournalUnusable, NotWritable
from patchstack.files.atomic import link_or_copy, put_in_place, signals_blocked, sync_directory, write_new
from patchstack.files.lock import locked_directory

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2  # the flag of renamex_np on macOS


def replace_files(
    directory: Path, files: Mapping[str, bytes | None], *, ready: Callable[[], None] = lambda: None
) -> None:
    """Write and remove files in a directory atomically.

    A file whose content is None is removed. All other entries stay unchanged.

    The new directory is created next to the old one, and then the two are exchanged. If the process is killed, the
    directory is either completely old or completely new. The next run removes a leftover second directory. `ready` is
    called just before the exchange. An exception from `ready` cancels the replacement.

    Raises `UsageError` if a different process is exporting, and `MissingError` if writing fails. In both cases, nothing
    has changed.
    """
    directory = directory.resolve()
    fresh = _beside(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(f"{directory.parent} cannot be created: {error.strerror}") from error
    with locked_directory(directory.parent, "patchstack export"):
        try:
            try:
                _make_beside(directory, fresh, files)
            except shutil.Error as error:
                raise NotWritable(f"{directory} cannot be copied: {error}; nothing was changed") from error
            ready()
            if directory.is_dir():
                _exchange(fresh, directory)
            else:
                put_in_place(fresh, directory)
            sync_directory(directory.parent)
        except OSError as error:
            raise NotWritable(f"{directory} cannot be written: {_cause(error)}; nothing was changed") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _cause(error: OSError) -> str:
    """Return the message of the operating system, and the path of the affected file if it is known."""
    place = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror or error}{place}"


def _make_beside(directory: Path, fresh: Path, files: Mapping[str, bytes | None]) -> None:
    """Create the changed copy of a directory at `fresh`."""
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


def sweep_leftover(directory: Path) -> None:
    """Remove the copy that a killed export left next to the directory.

    Raises `UsageError` if a different process is exporting.
    """
    fresh = _beside(directory.resolve())
    if os.path.lexists(fresh):
        with locked_directory(fresh.parent, "patchstack export"):
            shutil.rmtree(fresh, ignore_errors=True)


def _beside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.patchstack-new")


def _exchange(one: Path, other: Path) -> None:
    """Exchange two paths in one system call. Raises `OSError` if the file system does not support this."""
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


STAGE = ".patchstack-apply"
WHO = "patchstack apply"
_JOURNAL = "journal.json"
_MARK = "made-by-patchstack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to one path.

    `content` is the new content, or None to remove the path. The content of a link is its target.
    """

    path: str
    content: bytes | None
    link: bool
    executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """An entry of the journal.

    `staged` is the name of the new file in the staging directory, or None if the path is removed. `kept` is the name of
    the saved old file, or None if no file existed at the path.
    """

    path: str
    staged: str | None
    kept: str | None


def unfinished(directory: Path) -> bool:
    """Return whether the directory contains the journal of an unfinished run."""
    return os.path.lexists(directory / STAGE / _JOURNAL)


def install(directory: Path, changes: Sequence[Change]) -> None:
    """Write all changes, or none if one of them cannot be written.

    The caller must hold the lock of the directory. If undoing the changes fails too, the journal is kept for `resume`.

    Raises `UsageError` if `STAGE` exists and was not created by patchstack, and `MissingError` if writing fails.
    """
    if not changes:
        return
    stage = directory / STAGE
    _clear(stage)
    try:
        stage.mkdir()
        write_new(stage / _MARK, b"")
        steps = _prepare(directory, stage, changes)
    except OSError as error:
        shutil.rmtree(stage, ignore_errors=True)
        raise NotWritable(f"{directory} cannot be written: {_cause(error)}; nothing was changed") from error
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    with signals_blocked():
        try:
            _carry_out(directory, stage, steps)
        except OSError as error:
            _take_back(directory, stage, steps, error)
            raise NotWritable(f"{directory} cannot be written: {_cause(error)}; nothing was changed") from error
        _close(directory, stage)


def resume(directory: Path) -> int:
    """Finish the changes of an unfinished run, and return the number of paths in its journal.

    Return 0 if there is no journal.

    Raises `UsageError` if a different process is changing the directory, `ConfigError` if the journal is not valid, and
    `MissingError` if writing fails.
    """
    with locked_directory(directory, WHO):
        stage = directory / STAGE
        if not unfinished(directory):
            _clear(stage)
            return 0
        steps = _read_journal(stage)
        for step in steps:
            _refuse_outside(directory, step.path, stage)
        with signals_blocked():
            try:
                _carry_out(directory, stage, steps)
            except OSError as error:
                raise NotWritable(
                    f"{directory} cannot be written: {_cause(error)}",
                    hint=f"fix the problem, then run 'patchstack apply --resume {directory}'",
                ) from error
            _close(directory, stage)
        return len(steps)


def _clear(stage: Path) -> None:
    """Remove a leftover staging directory.

    An empty directory is removed too. Raises `UsageError` if the path is anything else.
    """
    if os.path.lexists(stage):
        if stage.is_symlink() or not (stage / _MARK).is_file():
            if stage.is_dir() and not stage.is_symlink() and not any(stage.iterdir()):
                stage.rmdir()
                return
            raise AlreadyExists(
                f"{stage} exists, but was not created by patchstack",
                hint="rename it, because patchstack needs this name for its staging directory",
            )
        shutil.rmtree(stage)


def _prepare(directory: Path, stage: Path, changes: Sequence[Change]) -> list[_Step]:
    """Write the new files to the staging directory, save the old files, then write the journal.

    If the process is killed after the journal is written, `resume` can finish the change.
    """
    steps = []
    for number, change in enumerate(changes):
        target = directory / change.path
        staged = kept = None
        if change.content is not None:
            staged = f"new-{number}"
            if change.link:
                os.symlink(change.content, os.fsencode(stage / staged))
            else:
                write_new(stage / staged, change.content)
                (stage / staged).chmod(_mode(target, change.executable))
        if os.path.lexists(target) and not (target.is_dir() and not target.is_symlink()):
            kept = f"old-{number}"
            link_or_copy(target, stage / kept)
        steps.append(_Step(path=change.path, staged=staged, kept=kept))
    entries = [{"path": step.path, "staged": step.staged, "kept": step.kept} for step in steps]
    draft = stage / "journal.draft"
    write_new(draft, json.dumps(entries).encode("ascii"))
    put_in_place(draft, stage / _JOURNAL)
    sync_directory(stage)
    return steps


def _carry_out(directory: Path, stage: Path, steps: Sequence[_Step]) -> None:
    """Execute the steps of the journal. A killed run may have executed some of them already."""
    for step in steps:
        if step.staged is None:
            path = directory / step.path
            # A killed run may have replaced the file with a directory, or a parent directory with a file.
            if not (path.is_dir() and not path.is_symlink()):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                _prune(directory, path.parent)
    for step in steps:
        if step.staged is not None and os.path.lexists(stage / step.staged):
            path = directory / step.path
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_empty(path)
            put_in_place(stage / step.staged, path)


def _take_back(directory: Path, stage: Path, steps: Sequence[_Step], cause: OSError) -> None:
    """Undo all steps: remove the new files and restore the saved files."""
    try:
        for step in reversed(steps):
            path = directory / step.path
            if step.kept is None and step.staged is not None:
                if not os.path.lexists(stage / step.staged):
                    path.unlink()
                if path.parent.is_dir():
                    _prune(directory, path.parent)
        for step in steps:
            if step.kept is not None:
                path = directory / step.path
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove_empty(path)
                again = stage / f"{step.kept}-again"
                link_or_copy(stage / step.kept, again)
                put_in_place(again, path)
    except OSError as error:
        raise NotWritable(
            f"{directory} is partly written: {_cause(cause)}; undoing the changes failed: {_cause(error)}",
            hint=f"fix the problem, then run 'patchstack apply --resume {directory}'",
        ) from error
    _close(directory, stage)


def _close(directory: Path, stage: Path) -> None:
    try:
        (stage / _JOURNAL).unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(
            f"{directory} is written, but the journal cannot be removed: {_cause(error)}",
            hint=f"fix the problem, then run 'patchstack apply --resume {directory}'",
        ) from error
    shutil.rmtree(stage, ignore_errors=True)
    sync_directory(directory)


def _read_journal(stage: Path) -> list[_Step]:
    """Return the steps of an untrusted journal. Raises `ConfigError` if the journal is not valid."""
    try:
        entries: Any = json.loads((stage / _JOURNAL).read_bytes())
    except (OSError, ValueError):
        entries = None
    if not isinstance(entries, list) or not all(_is_step(entry) for entry in entries):
        raise JournalUnusable(f"{stage / _JOURNAL} is not a valid journal", hint=f"examine it, then remove {stage}")
    return [_Step(path=entry["path"], staged=entry["staged"], kept=entry["kept"]) for entry in entries]


def _is_step(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"path", "staged", "kept"}
        and isinstance(entry["path"], str)
        and all(
            entry[key] is None or (isinstance(entry[key], str) and re.fullmatch(pattern, entry[key]))
            for key, pattern in (("staged", r"new-\d+"), ("kept", r"old-\d+"))
        )
    )


def _refuse_outside(directory: Path, path: str, stage: Path) -> None:
    """Raise `ConfigError` if a path in the journal must not be changed.

    Such a path is outside the directory, passes through a link, or belongs to git or to the staging directory.
    """
    parts = path.split("/")
    bad = any(part in ("", ".", "..") or part.casefold() in (".git", STAGE) for part in parts) or "\0" in path
    parents = [directory.joinpath(*parts[:depth]) for depth in range(1, len(parts))] if not bad else []
    if bad or any(parent.is_symlink() for parent in parents):
        raise JournalUnusable(f"{stage / _JOURNAL} names {path!r}, which must not be changed", hint=f"remove {stage}")


def _remove_empty(path: Path) -> None:
    """Remove a directory tree to make room for a file.

    The tree contains only empty directories, because the files in it have already been removed.
    """
    if path.is_dir() and not path.is_symlink():
        for parent, _, _ in os.walk(path, topdown=False):
            Path(parent).rmdir()


def _mode(old: Path, executable: bool) -> int:
    """Return the permissions for a new file.

    The new file gets the permissions of the regular file `old`, or the default permissions if `old` is not a regular
    file. The executable bits are then set or cleared.
    """
    bits = None
    with contextlib.suppress(OSError):
        status = old.lstat()
        if stat.S_ISREG(status.st_mode):
            bits = status.st_mode & 0o777
    if bits is None:
        mask = os.umask(0)
        os.umask(mask)
        bits = 0o666 & ~mask
    return bits | (bits & 0o444) >> 2 if executable else bits & ~0o111


def _prune(directory: Path, parent: Path) -> None:
    """Remove `parent` and the directories above it if they are empty, as git does.

    `directory` itself is not removed.
    """
    while parent != directory:
        try:
            parent.rmdir()
        except OSError:
            return
        parent = parent.parent
