"""Check out different trees in the same directory, one at a time.

Only the differences are written. Files that a command builds there remain, and unchanged files keep their times, so
that builds are incremental.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from patchstack.causes import DirectoryNotPatched, ObjectUnreadable
from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import EXECUTABLE, SUBMODULE, SYMLINK, Entry
from patchstack.git.trees import PathChange, compare_trees

_Seen = tuple[int, int, int, int]


class TreeDirectory:
    """A directory with the files of a tree. `absent` contains the paths of files whose contents are not available."""

    def __init__(self, root: Path, objects: Objects) -> None:
        self.root = root
        self.absent: set[bytes] = set()
        self._objects = objects
        self._tree = EMPTY_TREE
        self._written: dict[bytes, tuple[Entry, _Seen]] = {}

    def move(self, tree: str) -> int:
        """Check out a tree. Return the number of files that were changed after the previous checkout.

        The changed files are restored.

        Raises `UsageError` for a tree with unsafe paths, and `MissingError` if a file cannot be written.
        """
        changes = list(compare_trees(self._objects, self._tree, tree))
        for change in changes:
            _refuse_unsafe(change.path)
        coming = {change.path: change.new for change in changes if change.new is not None}
        spoilt = [path for path, (_, seen) in self._written.items() if _seen(self._full(path)) != seen]
        again = {path: self._written[path][0] for path in spoilt if path not in {one.path for one in changes}}
        self._objects.want(entry[1] for entry in coming.values() if entry[0] != SUBMODULE)
        try:
            for change in changes:
                self._remove(change)
            for path, entry in {**again, **coming}.items():
                self._write(path, entry)
        except OSError as error:
            place = error.filename or self.root
            raise ObjectUnreadable(f"cannot update the checkout: {place}: {error.strerror or error}") from error
        self._tree = tree
        return len(spoilt)

    def _full(self, path: bytes) -> Path:
        return self.root / os.fsdecode(path)

    def _remove(self, change: PathChange) -> None:
        self.absent.discard(change.path)
        if change.old is None or self._written.pop(change.path, None) is None:
            return
        full = self._full(change.path)
        if not self._reached(change.path):
            return
        if os.path.lexists(full):
            _clear(full)
        while change.new is None and full.parent != self.root:
            full = full.parent
            try:
                full.rmdir()
            except OSError:
                return

    def _write(self, path: bytes, entry: Entry) -> None:
        mode, oid = entry
        full = self._full(path)
        if mode == SUBMODULE:
            self._make_parents(path + b"/x")
            return
        if not self._objects.has(oid):
            self.absent.add(path)
            return
        self._make_parents(path)
        if os.path.lexists(full):
            _clear(full)
        content = self._objects.blob(oid, path.decode("utf-8", "replace"))
        if mode == SYMLINK:
            os.symlink(content, os.fsencode(full))
        else:
            descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if mode == EXECUTABLE else 0o666)
            with open(descriptor, "wb") as file:
                file.write(content)
        seen = _seen(full)
        assert seen is not None
        self._written[path] = (entry, seen)

    def _make_parents(self, path: bytes) -> None:
        """Create the directories above a file.

        If the path of a directory is a link or a file, the link or file is removed, so that nothing is written outside
        the tree.
        """
        for parent in map(self._full, _parents(path)):
            if parent.is_symlink() or not parent.is_dir():
                parent.unlink(missing_ok=True)
                parent.mkdir()

    def _reached(self, path: bytes) -> bool:
        """Return whether all parents of a path are directories, and none is a symbolic link."""
        return all(parent.is_dir() and not parent.is_symlink() for parent in map(self._full, _parents(path)))


def _parents(path: bytes) -> Iterable[bytes]:
    parts = path.split(b"/")
    return (b"/".join(parts[:depth]) for depth in range(1, len(parts)))


def _clear(full: Path) -> None:
    if full.is_dir() and not full.is_symlink():
        shutil.rmtree(full)
    else:
        full.unlink()


def _seen(full: Path) -> _Seen | None:
    """Return the properties that show whether a file was modified. Return None if the file no longer exists."""
    try:
        found = full.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode)


def _refuse_unsafe(path: bytes) -> None:
    if any(part in (b"", b".", b"..") or part.lower() == b".git" for part in path.split(b"/")) or b"\0" in path:
        shown = path.decode("utf-8", "backslashreplace")
        raise DirectoryNotPatched(
            f"the tree contains the unsafe path {shown!r}", hint="run 'git fsck' to find the bad tree object"
        )
