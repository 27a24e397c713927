"""Read the objects of a repository, and store new objects in memory.

Nothing is written into a user's repository. git finds the object directory, because it knows every layout (bare,
partial, shallow, worktree, reftable). Objects are then read only from this directory and its alternates, so the
extensions and the configuration of the repository do not matter.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from patchstack.causes import AmbiguousName, BadRevision, ObjectUnreadable
from patchstack.errors import MissingError, UsageError
from patchstack.git import run as git
from patchstack.git.stored import Damaged, StoredObjects
from patchstack.process import Finished

Kind = Literal["blob", "tree", "commit"]

FULL_ID = re.compile(r"[0-9a-f]{40}\Z")
TreeEntry = tuple[int, bytes, str]
"""An entry of a tree: mode, name and object id."""

_Raw = tuple[bytes, bytes, bytes]
_MADE_LIMIT = 48 * 1024 * 1024  # maximum bytes of new objects in memory
_SETS = 64  # maximum number of trees whose entries are cached for the next comparison

NULL_ID = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class MissingObject(MissingError):
    """An object is neither in the repository nor among our new objects."""

    code = "PS0316"

    def __init__(self, oid: str, what: str, where: str, hint: str) -> None:
        super().__init__(f"{what} {oid} is not in {where}", hint=hint)
        self.oid = oid

    def during(self, task: str) -> MissingObject:
        """Put `task`, which needed the object, at the beginning of the message, and return the error."""
        self.message = f"{task}: {self.message}"
        return self


class NotARepository(UsageError):
    """The path is not a git repository, or the repository is of an unsupported kind."""

    code = "PS0312"


class NoSuchRepository(MissingError):
    """The path of a repository does not exist."""

    code = "PS0313"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The parts of a commit that patchstack needs.

    `subject` is the first paragraph on one line, as git shows it.
    """

    oid: str
    tree: str
    parents: tuple[str, ...]
    subject: str


def object_id(kind: str, data: bytes) -> str:
    """Return the SHA-1 id of an object in git, as 40 hexadecimal digits."""
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class MadeObjects:
    """A store of objects by id.

    If the contents exceed `limit` bytes, the oldest objects are moved to disk. Every object can be read as long as the
    store exists.
    """

    def __init__(self, limit: int = _MADE_LIMIT) -> None:
        self._limit = limit
        self._held: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._size = 0
        self._spilled: dict[str, tuple[str, int, int]] = {}
        self._file: BinaryIO | None = None
        self._end = 0

    def __contains__(self, oid: str) -> bool:
        return oid in self._held or oid in self._spilled

    def add(self, oid: str, kind: str, data: bytes) -> None:
        if oid in self:
            return
        self._held[oid] = (kind, data)
        self._size += len(data)
        while self._size > self._limit and len(self._held) > 1:
            self._spill(*self._held.popitem(last=False))

    def get(self, oid: str) -> tuple[str, bytes] | None:
        """Return the type and content of a new object, or None for any other object."""
        held = self._held.get(oid)
        if held is not None:
            return held
        place = self._spilled.get(oid)
        if place is None or self._file is None:
            return None
        kind, start, size = place
        return kind, os.pread(self._file.fileno(), size, start)

    def _spill(self, oid: str, made: tuple[str, bytes]) -> None:
        kind, data = made
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="patchstack-", buffering=0)  # noqa: SIM115  (it lives as long as we)
        written = 0
        while written < len(data):
            written += os.pwrite(self._file.fileno(), memoryview(data)[written:], self._end + written)
        self._spilled[oid] = (kind, self._end, len(data))
        self._end += len(data)
        self._size -= len(data)

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._held


class Objects:
    """Read-only access to the objects of repositories, and a store of new objects.

    `made` contains the new objects. `fetch`, if set, is called with the ids of missing objects, and may add a directory
    that contains them. `hint` is the hint of the error for an object that is still missing.
    """

    def __init__(self) -> None:
        self._odb: StoredObjects | None = None
        self.made = MadeObjects()
        self._remembered: dict[str, tuple[str, bytes]] | None = None
        self._sets: dict[str, frozenset[_Raw]] = {}
        self._room = 32 * 1024 * 1024  # maximum bytes of cached objects
        self.directories: list[Path] = []
        self.where = "memory"
        self.fetch: Callable[[Sequence[str]], None] | None = None
        self.hint = "the clone is partial, shallow or damaged: fetch the object into it, or give the upstream's URL"

    def add_directory(self, directory: Path, where: str) -> None:
        """Also read from this object directory and its alternates.

        `where` names the directory in errors.
        """
        if directory in self.directories:
            return
        if self._odb is None:
            self._odb = StoredObjects()
            self._odb.add(directory)
            self.where = where
        else:
            self._odb.add(directory)
            self.where += f" or {where}"
        self.directories.append(directory)

    def read(self, oid: str) -> tuple[str, bytes]:
        """Return the type and content of an object.

        Raises `MissingObject` if the object is missing and cannot be fetched, and `ObjectUnreadable` if it is damaged.
        """
        found = self.find(oid)
        if found is None and self.fetch is not None:
            self.fetch([oid])
            found = self._stored(oid)
        if found is None:
            raise MissingObject(oid, "object", self.where, self.hint)
        return found

    def find(self, oid: str) -> tuple[str, bytes] | None:
        """Return the type and content of an object, or None if the object is missing.

        Nothing is fetched.
        """
        return self.made.get(oid) or self._stored(oid)

    def read_ahead(self, oids: Iterable[str]) -> None:
        """Request objects that are needed soon, preferably in the order of use.

        This does not change any result, and fetches nothing.
        """
        known = self._remembered or {}
        ids = [oid for oid in oids if oid not in self.made and oid not in known and FULL_ID.match(oid)]
        if self._odb is not None and ids:
            self._odb.read_ahead(ids)

    def remember(self) -> None:
        """Cache the objects that are read from now on, up to a limit.

        Call this before reading the same objects repeatedly.
        """
        self._remembered = {}

    def _stored(self, oid: str) -> tuple[str, bytes] | None:
        if self._odb is None or not FULL_ID.match(oid):
            return None
        if self._remembered is not None and oid in self._remembered:
            return self._remembered[oid]
        try:
            found = self._odb.read(oid)
        except Damaged as error:
            raise self._unreadable(oid, str(error)) from error
        if found is None:
            return None
        kind, data = found
        if object_id(kind, data) != oid:
            raise self._unreadable(oid, "its content has a different id")
        if self._remembered is not None and len(data) <= self._room:
            self._remembered[oid] = found
            self._room -= len(data)
        return found

    def _unreadable(self, oid: str, why: str) -> MissingError:
        return ObjectUnreadable(f"object {oid} in {self.where} cannot be read: {why}", hint="run git fsck there")

    def want(self, oids: Iterable[str]) -> None:
        """Fetch all missing objects among `oids` in one step, if possible, so that `read` finds them."""
        if self.fetch is not None:
            missing = self.missing(oids)
            if missing:
                self.fetch(missing)

    def has(self, oid: str) -> bool:
        """Return whether an object is available without fetching."""
        return not self.missing((oid,))

    def missing(self, oids: Iterable[str]) -> list[str]:
        """Return the missing objects in the given order, without duplicates."""
        wanted = [oid for oid in dict.fromkeys(oids) if oid not in self.made]
        ids = [oid for oid in wanted if FULL_ID.match(oid)]
        absent = frozenset(self._odb.missing(ids) if self._odb is not None else ids)
        return [oid for oid in wanted if oid in absent or not FULL_ID.match(oid)]

    def blob(self, oid: str, path: str = "") -> bytes:
        """Return the content of a blob.

        `path` is the path of the file that has this content. Errors name it.
        """
        try:
            kind, data = self.read(oid)
        except MissingObject:
            raise MissingObject(oid, f"blob of {path}" if path else "blob", self.where, self.hint) from None
        if kind != "blob":
            raise ObjectUnreadable(f"{oid} ({path}) is a {kind}, not a blob", hint="the tree is damaged: run git fsck")
        return data

    def add(self, kind: Kind, data: bytes) -> str:
        """Store a new object in memory and return its id."""
        oid = object_id(kind, data)
        self.made.add(oid, kind, data)
        return oid

    def commit(self, oid: str) -> Commit:
        """Return a commit.

        Raises `MissingObject` if the object is missing, and `UsageError` if it is not a commit.
        """
        kind, data = self.read(oid)
        if kind != "commit":
            raise BadRevision(f"{oid} is a {kind}, not a commit")
        return parse_commit(oid, data)

    def tree(self, oid: str) -> Iterator[TreeEntry]:
        """Yield the entries of one tree: mode, name, id.

        Raises `MissingObject` if the tree is missing.
        """
        return map(_entry, self._tree(oid))

    def tree_difference(self, one: str, other: str) -> tuple[list[TreeEntry], list[TreeEntry]]:
        """Return the entries in which two trees differ, as one list for each tree.

        Each list contains the entries that only its tree has. Raises `MissingObject` if a tree is missing.
        """
        before, after = self._tree_set(one), self._tree_set(other)
        return [_entry(raw) for raw in before - after], [_entry(raw) for raw in after - before]

    def _tree(self, oid: str) -> list[_Raw]:
        if oid == EMPTY_TREE:
            return []
        kind, data = self.read(oid)
        if kind != "tree":
            raise ObjectUnreadable(f"{oid} is a {kind}, not a tree")
        if not _TREE.fullmatch(data):
            raise ObjectUnreadable(f"tree {oid} in {self.where} is damaged", hint="run git fsck there")
        return _ENTRY.findall(data)

    def _tree_set(self, oid: str) -> frozenset[_Raw]:
        # A series is compared tree by tree, so the second tree of a comparison is usually the first tree of the next.
        found = self._sets.pop(oid, None)
        self._sets[oid] = found = frozenset(self._tree(oid)) if found is None else found
        if len(self._sets) > _SETS:
            del self._sets[next(iter(self._sets))]
        return found


_ENTRY = re.compile(rb"([0-7]+) ([^\0]*)\0(.{20})", re.DOTALL)
_TREE = re.compile(rb"(?:[0-7]+ [^\0]*\0.{20})*", re.DOTALL)
_MODES = {mode: int(mode, 8) for mode in (b"40000", b"100644", b"100755", b"120000", b"160000")}


def _entry(raw: _Raw) -> TreeEntry:
    mode, name, oid = raw
    return _MODES.get(mode) or int(mode, 8), name, oid.hex()


def parse_commit(oid: str, data: bytes) -> Commit:
    """Parse a commit object."""
    header, _, message = data.partition(b"\n\n")
    tree, parents, encoding = "", [], "utf-8"
    for line in header.split(b"\n"):
        if line.startswith(b"tree "):
            tree = line[5:].decode("ascii")
        elif line.startswith(b"parent "):
            parents.append(line[7:].decode("ascii"))
        elif line.startswith(b"encoding "):
            encoding = line[9:].decode("ascii", "replace")
    first = message.lstrip(b"\n").partition(b"\n\n")[0]
    try:
        text = first.decode(encoding, "replace")
    except (LookupError, UnicodeError, ValueError):
        text = first.decode("utf-8", "replace")
    return Commit(oid=oid, tree=tree, parents=tuple(parents), subject=" ".join(text.split("\n")).strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository on this machine, opened for reading.

    `name` is the user's name for the repository.
    """

    name: str
    path: Path
    git_dir: Path
    object_directory: Path
    shallow: bool

    @staticmethod
    def open(name: str, path: Path) -> Repository:
        """Open the repository at `path`: a work tree's root, a `.git` directory or a bare repository.

        Raises `NoSuchRepository` if the path does not exist. Raises `NotARepository` if the path is not a git
        repository, or if the repository does not use SHA-1.
        """
        if not path.exists():
            raise NoSuchRepository(f"no repository at {name}: no such file or directory")
        places = (("--absolute-git-dir",), ("--git-path", "objects"))
        facts = ("--is-shallow-repository", "--show-object-format", "--show-prefix")
        asked = git.read(path, "rev-parse", *facts, *places[0], *places[1])
        if not asked.ok:
            raise _not_opened(name, asked)
        shallow, object_format, prefix, *told = os.fsdecode(asked.stdout).split("\n")
        if len(told) != 3:  # the path contains a newline
            told = [os.fsdecode(git.read(path, "rev-parse", *one).stdout).removesuffix("\n") for one in places]
        git_dir, objects = told[:2]
        # GIT_CEILING_DIRECTORIES prevents a search in parent directories, but not for a path with a colon.
        if prefix or Path(git_dir).resolve() in path.resolve().parents:
            raise NotARepository(f"{name} is not a git repository")
        if object_format != "sha1":
            raise NotARepository(
                f"{name} is a {object_format} repository",
                hint="patchstack reads only SHA-1 repositories, because its pins and trees are SHA-1 ids",
            )
        object_directory = (path / objects).resolve()
        return Repository(
            name=name,
            path=path,
            git_dir=Path(git_dir),
            object_directory=object_directory,
            shallow=shallow == "true",
        )

    def resolve_commit(self, rev: str, what: str, objects: Objects) -> Commit:
        """Return the commit that a revision names in this repository.

        A full id is first looked up in `objects`, and may also be the id of a tag. Errors begin with `what`, for
        example pin or fork ref. Raises `MissingError` if the name is unknown, and `UsageError` if it is ambiguous or
        does not name a commit.
        """
        if FULL_ID.match(rev) and objects.find(rev) is not None:
            oid = self._peel(rev, objects)
            kind, _ = objects.read(oid)
            if kind != "commit":
                raise BadRevision(f"{what} {rev} is a {kind}, not a commit", hint="give the id of a commit")
            return objects.commit(oid)
        if rev.startswith("-") or not rev.strip():
            raise BadRevision(f"{what} {rev!r} is not a revision")
        asked = git.read(self.path, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}")
        if asked.ok:
            return objects.commit(asked.stdout.decode("ascii").strip().splitlines()[-1])
        raise self._not_resolved(rev, what, asked)

    def _peel(self, oid: str, objects: Objects) -> str:
        kind, data = objects.read(oid)
        while kind == "tag":
            oid = data.split(b"\n", 1)[0].removeprefix(b"object ").decode("ascii")
            kind, data = objects.read(oid)
        return oid

    def _not_resolved(self, rev: str, what: str, asked: Finished) -> Exception:
        complaint = asked.complaint
        if "ambiguous" in complaint:
            hints = [
                line.removeprefix("hint:").strip() for line in complaint.splitlines() if line.startswith("hint:   ")
            ]
            return AmbiguousName(
                f"{what} {rev} is ambiguous in {self.name}", problems=hints, hint="give more digits of the commit id"
            )
        if "expected commit type" in complaint:
            return BadRevision(f"{what} {rev} in {self.name} is not a commit", hint="give the id of a commit")
        hint = f"run 'git -C {self.name} fetch', or name a different repository"
        if self.shallow:
            hint = f"the clone is shallow: run 'git -C {self.name} fetch --unshallow', or name a different repository"
        if not re.fullmatch(r"[0-9a-f]{4,40}", rev):
            hint = f"run 'git -C {self.name} branch --all' to list the branches"
        return ObjectUnreadable(f"{what} {rev} is not in {self.name}", hint=hint)

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Return whether `ancestor` is reachable from `descendant` in this clone's history."""
        return git.read(self.path, "merge-base", "--is-ancestor", ancestor, descendant).ok


def _not_opened(name: str, asked: Finished) -> NotARepository:
    complaint = asked.complaint
    if "dubious ownership" in complaint:
        return NotARepository(
            f"git refuses {name}: it belongs to another user",
            hint=f"if you trust the repository, run 'git config --global --add safe.directory {name}'",
        )
    if "not a git repository" in complaint:
        return NotARepository(f"{name} is not a git repository")
    return NotARepository(f"{name} cannot be opened: {git.first_complaint(asked)}")
