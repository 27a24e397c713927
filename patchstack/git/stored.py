"""Read stored objects through `git cat-file --batch`, one process for as long as it is asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from patchstack.git import run as git
from patchstack.git.scratch import make_bare_repository
from patchstack.process import Child

_NOTHING = "f" * 40  # not zeros: git answers those without looking


class Damaged(Exception):
    """A stored object cannot be read. The message is git's."""


class StoredObjects:
    """The objects of object directories (with the alternates that these name), read-only.

    git runs in an empty repository of ours that borrows the directories: it sees no configuration of theirs and fetches
    nothing. It ends when this object is collected, or when this process ends.
    """

    def __init__(self) -> None:
        self._directories: list[Path] = []
        self._contents = _Batch("--batch")
        self._checks = _Batch("--batch-check")

    def add(self, directory: Path) -> None:
        """Read from an object directory as well. git reads the list of directories once, so it is started again."""
        self._directories.append(directory)
        self._contents.end()
        self._checks.end()

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if it is not stored. Raises `Damaged`."""
        found = self._contents.ask(oid, self._directories)
        return (found.kind, found.content) if found is not None else None

    def has(self, oid: str) -> bool:
        """Whether an object is stored. Its content is not read."""
        return self._checks.ask(oid, self._directories) is not None


class _Answer(NamedTuple):
    kind: str
    content: bytes


class _Batch:
    """One `git cat-file`, started when it is first asked. `option` says whether it prints contents."""

    def __init__(self, option: str) -> None:
        self._option = option
        self._git: _Running | None = None

    def ask(self, oid: str, directories: Sequence[Path]) -> _Answer | None:
        """What git says of an object; None if it does not have it. Raises `Damaged`."""
        if self._git is None:
            self._git = _Running(self._option, directories)
        try:
            return self._git.ask(oid, contents=self._option == "--batch")
        except Damaged:
            self.end()  # git has ended, or what it prints next is not an answer
            raise

    def end(self) -> None:
        """End git. It is started again when it is asked again."""
        if self._git is not None:
            self._git.end()
            self._git = None


class _Running:
    """A `git cat-file` that runs. What it complains of goes to a file without a name."""

    def __init__(self, option: str, directories: Sequence[Path]) -> None:
        self._scratch: Path | None = make_bare_repository(directories)
        complaints = tempfile.TemporaryFile(prefix="patchstack-")  # noqa: SIM115  (it lives as long as we)
        try:
            child = git.objects_of(self._scratch, option, stderr=complaints.fileno())
        except BaseException:
            complaints.close()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self._write, self._read, self._complaints = child.stdin, child.stdout, complaints
        self._before = 0
        self.end = weakref.finalize(self, _end, child, complaints, self._scratch)
        self._ask(_NOTHING)  # answered after git has read the list of directories, and complained of it

    def ask(self, oid: str, *, contents: bool) -> _Answer | None:
        """What git says of an object; None if it does not have it. Raises `Damaged`."""
        if self._scratch is not None:
            self._read.readline()
            self._before = self._complained()
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        self._ask(oid)
        head = self._read.readline()
        if head.endswith(b" missing\n"):
            if self._complained() > self._before:
                raise Damaged(self._complaint())
            return None
        words = head.split()
        if len(words) != 3:
            raise Damaged(self._complaint())
        content = b""
        if contents:
            content = self._read.read(int(words[2]))
            if self._read.read(1) != b"\n":
                raise Damaged(self._complaint())
        return _Answer(words[1].decode("ascii"), content)

    def _ask(self, oid: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._write.write(oid.encode() + b"\n")
            self._write.flush()

    def _complained(self) -> int:
        """How many bytes git has complained with."""
        return os.fstat(self._complaints.fileno()).st_size

    def _complaint(self) -> str:
        """The first line that git complained with of an object."""
        lines = os.pread(self._complaints.fileno(), 4096, self._before).decode("utf-8", "replace").splitlines()
        return lines[0].removeprefix("error: ").removeprefix("fatal: ") if lines else "git cat-file ended"


def _end(child: Child, complaints: IO[bytes], scratch: Path) -> None:
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    child.stdout.close()
    child.wait()
    complaints.close()
    shutil.rmtree(scratch, ignore_errors=True)
