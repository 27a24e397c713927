"""Read stored objects through long-running `git cat-file` processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from patchstack.git import run as git
from patchstack.git.scratch import make_bare_repository
from patchstack.process import Child

_AT_ONCE = 256  # maximum number of ids in one question: all answers must fit into a pipe of 16 KiB
_NOTHING = "f" * 40  # not zeros, because git reports zeros as missing without reading the directories
_AHEAD = 64  # maximum number of unanswered ids: the questions must fit into a pipe of 4 KiB
_EARLY = 16 * 1024 * 1024  # maximum bytes of answers that are read before they are needed


class Damaged(Exception):
    """A stored object cannot be read. The message is git's own."""


class StoredObjects:
    """Read-only access to the objects of object directories and their alternates.

    git runs in our own empty repository that borrows the directories. git does not read the configuration of the
    borrowed repositories, and fetches nothing. The git processes end when this object is deleted, or when Python exits.
    """

    def __init__(self) -> None:
        self._directories: list[Path] = []
        self._contents = _Batch("--batch", self._directories)
        self._checks = _Batch("--batch-check", self._directories)

    def add(self, directory: Path) -> None:
        """Also read from this object directory.

        git is restarted, because it reads the list of directories only once.
        """
        self._directories.append(directory)
        self._contents.end()
        self._checks.end()

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Return the type and content of an object, or None if the object is not stored.

        Raises `Damaged` if the object cannot be read.
        """
        return self._contents.ask(oid)

    def read_ahead(self, oids: Iterable[str]) -> None:
        """Ask git for objects that `read` will need soon, and do not wait for the answers.

        The objects should be in the order of use. This does not change any result. Objects are ignored if too many
        answers are pending.
        """
        self._contents.ask_ahead(oids)

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Return the objects that are not stored, in order.

        Contents are not read, so a damaged object counts as stored.
        """
        return [oid for at in range(0, len(oids), _AT_ONCE) for oid in self._checks.missing(oids[at : at + _AT_ONCE])]


class _Batch:
    """One `git cat-file` process, which is started on first use.

    The option is `--batch` for contents or `--batch-check` for existence.
    """

    def __init__(self, option: str, directories: Sequence[Path]) -> None:
        self._option = option
        self._directories = directories
        self._git: _Running | None = None

    def ask(self, oid: str) -> tuple[str, bytes] | None:
        """Return the type and content of an object, or None if git does not have the object.

        Raises `Damaged` if the object cannot be read.
        """
        running = self._running()
        try:
            return running.ask(oid)
        except Damaged:
            self.end()  # git has ended, or its next output would not be an answer
            if not running.asked_ahead:
                raise
        return self.ask(oid)  # the damaged object may be one that was requested ahead

    def ask_ahead(self, oids: Iterable[str]) -> None:
        """Ask for objects without waiting for the answers."""
        self._running().ask_ahead(oids)

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Return the objects that git does not have. At most `_AT_ONCE` objects may be given."""
        return self._running().missing(oids)

    def _running(self) -> _Running:
        if self._git is None:
            self._git = _Running(self._option, self._directories)
        return self._git

    def end(self) -> None:
        """End git. The next question starts git again."""
        if self._git is not None:
            self._git.end()
            self._git = None


class _Running:
    """A running `git cat-file`. Its standard error is written to an unnamed file."""

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
        self.asked_ahead = False
        self._ahead: dict[str, None] = {}  # objects whose answers have not been read yet, in the order of the requests
        self._early: dict[str, tuple[str, bytes]] = {}
        self._room = _EARLY
        self.end = weakref.finalize(self, _end, child, complaints, self._scratch)
        self._ask(_NOTHING)  # git answers only after it has read the list of directories and reported problems

    def missing(self, oids: Sequence[str]) -> list[str]:
        """Return the objects that git does not have. All answers must fit into a pipe."""
        self._begin()
        self._ask("\n".join(oids))
        return [oid for oid in oids if self._read.readline().endswith(b" missing\n")]

    def _begin(self) -> None:
        """Wait for the first answer, and remove the temporary repository.

        git no longer needs the repository, because it has then read the configuration and the list of directories.
        """
        if self._scratch is not None:
            self._read.readline()
            self._before = self._complained()
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def ask_ahead(self, oids: Iterable[str]) -> None:
        """Ask for objects without reading the answers."""
        self._begin()
        new = [oid for oid in dict.fromkeys(oids) if oid not in self._ahead and oid not in self._early]
        new = new[: _AHEAD - len(self._ahead)]
        if new:
            self.asked_ahead = True
            self._ahead.update(dict.fromkeys(new))
            self._ask("\n".join(new))

    def ask(self, oid: str) -> tuple[str, bytes] | None:
        """Return the type and content of an object, or None if git does not have the object.

        Raises `Damaged` if this object, or an object that was requested earlier, cannot be read.
        """
        early = self._early.pop(oid, None)
        if early is not None:
            self._room += len(early[1])
            return early
        self._begin()
        while self._ahead:
            first = next(iter(self._ahead))
            del self._ahead[first]
            found = self._answer()
            if found is None:
                continue  # a later question asks again, because the object may be fetched by then
            if first == oid:
                return found
            if len(found[1]) <= self._room:
                self._early[first] = found
                self._room -= len(found[1])
        self._ask(oid)
        return self._answer()

    def _answer(self) -> tuple[str, bytes] | None:
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
        with contextlib.suppress(BrokenPipeError):  # git has ended and sends no answer
            self._write.write(oids.encode() + b"\n")
            self._write.flush()

    def _complained(self) -> int:
        """Return the size of git's standard error in bytes."""
        return os.fstat(self._complaints.fileno()).st_size

    def _complaint(self) -> str:
        """Return the first line of git's complaint about an object."""
        lines = os.pread(self._complaints.fileno(), 4096, self._before).decode("utf-8", "replace").splitlines()
        return lines[0].removeprefix("error: ").removeprefix("fatal: ") if lines else "git cat-file ended"


def _end(child: Child, complaints: IO[bytes], scratch: Path) -> None:
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    child.stdout.close()
    child.wait()
    complaints.close()
    shutil.rmtree(scratch, ignore_errors=True)
