"""The store of builds, by key. A build is stored atomically, and only one process at a time builds a key."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from patchstack.builds.record.record import BuildDocument
from patchstack.causes import AmbiguousName, NoSuchBuild
from patchstack.files.atomic import put_in_place, replace_file, write_new
from patchstack.files.lock import locked
from patchstack.files.processes import TAG, left_behind, tag

RECORD = "build.json"
LOG = "build.log"
_KEY = re.compile(r"[0-9a-f]{64}\Z")
_DRAFT = re.compile(rf"\.draft-[0-9a-f]{{12}}-(?P<tag>{TAG})(?:-[0-9a-f]{{6}})?(?:-old)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A build in the store: its key, its directory, and its record."""

    key: str
    directory: Path
    record: BuildDocument

    @property
    def programs(self) -> Path:
        """The directory of the programs and libraries."""
        return self.directory / "bin"

    def document(self, *, hit: bool) -> BuildDocument:
        """Return the record in its printed form. `hit` is true if nothing was compiled."""
        log = str(self.directory / LOG)
        return msgspec.structs.replace(self.record, hit=hit, out_dir=str(self.directory), log=log)

    @property
    def bytes(self) -> int:
        """The size on disk, in bytes."""
        return sum(path.lstat().st_size for path in self.directory.rglob("*") if not path.is_dir())


class Store:
    """Builds in one directory. Each is in `root/KEY/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Stored | None:
        """Return the build with this key. Return None if it does not exist or its record is damaged."""
        return self._load(self.root / key)

    def named(self, prefix: str) -> Stored:
        """Return the build whose key starts with `prefix`.

        Raises `MissingError` if none exists, and `UsageError` if several exist.
        """
        found = [stored for stored in self.all() if stored.key.startswith(prefix)]
        if not found:
            raise NoSuchBuild(
                f"there is no build {prefix}", hint="run 'patchstack build --list' to show the stored builds"
            )
        if len(found) > 1:
            raise AmbiguousName(
                f"build key {prefix} is ambiguous: {len(found)} builds match",
                problems=[stored.key for stored in found],
                hint="use more characters of the key",
            )
        return found[0]

    def all(self) -> tuple[Stored, ...]:
        """Return all builds, newest first."""
        if not self.root.is_dir():
            return ()
        found = [self._load(path) for path in self.root.iterdir() if _KEY.match(path.name)]
        return tuple(sorted(filter(None, found), key=lambda stored: stored.record.finished, reverse=True))

    def _load(self, directory: Path) -> Stored | None:
        try:
            record = msgspec.json.decode((directory / RECORD).read_bytes(), type=BuildDocument)
        except (OSError, msgspec.MsgspecError):
            return None  # no build exists, or its record is damaged; a damaged build is rebuilt and replaced
        return Stored(key=directory.name, directory=directory, record=record)

    @contextlib.contextmanager
    def alone(self, name: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock with this name while the body runs.

        If another process holds the lock, call `waiting` with the name of that process, and wait.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.root / f".lock-{name}", waiting):
            yield

    @contextlib.contextmanager
    def draft(self, key: str) -> Iterator[Path]:
        """Yield an empty directory for a new build. The directory is removed at the end, unless `commit` moved it."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._sweep()
        directory = self.root / f".draft-{key[:12]}-{tag()}-{secrets.token_hex(3)}"
        directory.mkdir()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def commit(self, key: str, draft: Path, record: BuildDocument) -> Stored:
        """Move a draft to the directory of its key. An earlier build is replaced.

        The caller must hold the lock of the key.
        """
        write_new(draft / RECORD, record.indented)
        place = self.root / key
        if place.exists():
            old = draft.with_name(f"{draft.name}-old")
            put_in_place(place, old)
            put_in_place(draft, place)
            shutil.rmtree(old, ignore_errors=True)
        else:
            put_in_place(draft, place)
        return Stored(key=key, directory=place, record=record)

    def amend(self, stored: Stored, record: BuildDocument) -> Stored:
        """Replace the record of a build."""
        replace_file(stored.directory / RECORD, record.indented)
        return Stored(key=stored.key, directory=stored.directory, record=record)

    def remove(self, stored: Stored) -> None:
        """Remove a build."""
        shutil.rmtree(stored.directory)

    def older_than(self, days: float) -> tuple[Stored, ...]:
        """Return the builds that were not used in the last `days` days."""
        limit = time.time() - days * 86400
        return tuple(stored for stored in self.all() if (stored.directory / RECORD).stat().st_mtime < limit)

    def clear_logs(self, days: float) -> None:
        """Remove the logs that are older than `days` days and belong to builds without a result."""
        limit = time.time() - days * 86400
        for path in self.root.glob("failed-*.log"):
            if path.stat().st_mtime < limit:
                path.unlink(missing_ok=True)

    def touch(self, stored: Stored) -> None:
        """Record that a build was used now."""
        with contextlib.suppress(OSError):
            os.utime(stored.directory / RECORD)

    def _sweep(self) -> None:
        """Remove the drafts of processes that have certainly ended."""
        for path in self.root.glob(".draft-*"):
            found = _DRAFT.match(path.name)
            if found is not None and left_behind(found["tag"], path):
                shutil.rmtree(path, ignore_errors=True)
