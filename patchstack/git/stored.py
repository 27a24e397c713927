"""Read stored objects through `git cat-file --batch`, one process for as long as it is asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from patchstack.git import run as git
from patchstack.git.scratch import make_bare_repository
from patchstack.process import Child

_AT_ONCE = 256  # ids in one question: all the answers to it must fit into a pipe, of 16 KiB at the least
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
        self._contents = _Batch("--batch", self._directories)
        self._checks = _Batch("--batch-check", self._directories)

    def add(self, directory: Path) -> None:
        """Read from an object directory as well. git reads the list of directories once, so it is started again."""
        self._directories.append(directory)
        self._contents.end()
        self._checks.end()

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if it is not stored. Raises `Damaged`."""
        return self._contents.ask(oid)

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Those of the objects that are not stored, in their order. Contents are not read, so a damaged one is here."""
        return [oid for at in range(0, len(oids), _AT_ONCE) for oid in self._checks.missing(oids[at : at + _AT_ONCE])]


class _Batch:
    """One `git cat-file`, started when it is first asked: with `--batch` for contents, or with `--batch-check`."""

    def __init__(self, option: str, directories: Sequence[Path]) -> None:
        self._option = option
        self._directories = directories
        self._git: _Running | None = None

    def ask(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if git does not have it. Raises `Damaged`."""
        if self._git is None:
            self._git = _Running(self._option, self._directories)
        try:
            return self._git.ask(oid)
        except Damaged:
            self.end()  # git has ended, or what it prints next is not an answer
            raise

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Those of some objects, at most `_AT_ONCE`, that git does not have."""
        if self._git is None:
            self._git = _Running(self._option, self._directories)
        return self._git.missing(oids)

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

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Those of some objects that git does not have. So many answers must fit into a pipe."""
        self._begin()
        self._ask("\n".join(oids))
        return [oid for oid in oids if self._read.readline().endswith(b" missing\n")]

    def _begin(self) -> None:
        """Wait for the first answer. Then git has read the repository and the list of directories."""
        if self._scratch is not None:
            self._read.readline()
            self._before = self._complained()
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def ask(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if git does not have it. Raises `Damaged`."""
        self._begin()
        self._ask(oid)
        head = self._read.readline()
        if head.endswith(b" missing\n"):
            if self._complained() > self._before:
                raise Damaged(self._complaint())
            return None
        words = head.split()
        if len(words) != 3:
            raise Damaged(self._complaint())
        content = self._read.read(int(words[2]))
        if self._read.read(1) != b"\n":
            raise Damaged(self._complaint())
        return words[1].decode("ascii"), content

    def _ask(self, oids: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._write.write(oids.encode() + b"\n")
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
