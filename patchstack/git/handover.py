"""Let git apply a patch in a separate temporary repository.

The repository has no alternates, because git updates the times of objects in an alternate, and so would change the
user's repository. Therefore the index is filled entry by entry, and only files that the patch names are copied.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from patchstack.git import run as git
from patchstack.git.objects import NULL_ID, Objects
from patchstack.git.overlay import SUBMODULE, TreeOverlay
from patchstack.git.patch.diff import inside, named_paths, unescaped
from patchstack.git.patch.effort import bulky, too_large
from patchstack.git.scratch import make_bare_repository, write_object
from patchstack.git.trees import compare_trees
from patchstack.process import Finished

_POSTIMAGE = re.compile(rb"[0-9a-f]{40}\.\.([0-9a-f]{40})")
_OFFSET = re.compile(r"^Hunk #\d+ succeeded at \d+ \(offset (-?\d+) lines?\)\.$", re.MULTILINE)
_MOST_NAMES = 100_000
_MOST_ESCAPES = 10_000
_UNREAD = re.compile(r"^error: failed to read (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitVerdict:
    """The result of `git apply --cached`.

    `overlay` is the tree with the patch, or None if git refused the patch. `complaint` is git's message. `offset` is
    the largest offset of a hunk: the number of lines between its place in the file and the line in its header.
    """

    overlay: TreeOverlay | None
    complaint: str
    offset: int = 0


def _after(data: bytes, *starts: bytes) -> Iterator[bytes]:
    """Yield the text after each occurrence of one of the `starts`, up to the end of the line.

    This is faster than a regular expression, which reads every line.
    """
    for start in starts:
        at = data.find(start)
        while at >= 0:
            end = data.find(b"\n", at + len(start))
            yield data[at + len(start) : end if end >= 0 else len(data)]
            at = data.find(start, at + len(start))


def _postimages(data: bytes) -> set[str]:
    """Return the ids of the blobs that the binary diffs of a patch produce."""
    if not any(mark in data for mark in (b"\nGIT binary patch", b"\nBinary files ", b"\nFiles ")):
        return set()
    found = map(_POSTIMAGE.match, islice(_after(data, b"\nindex "), _MOST_NAMES))
    return {match[1].decode("ascii") for match in found if match is not None}


def every_path(data: bytes) -> set[bytes]:
    """Return every path that a patch file may touch.

    git lists the paths of a patch that is too large or has too many backslashes. The result is empty if git cannot read
    such a patch.
    """
    if not bulky(data) and data.count(b"\\") <= _MOST_ESCAPES:
        return named_paths(data)
    listed = _numstat(data)
    return _listed_paths(listed.stdout, data) if listed.ok else set()


@functools.lru_cache(maxsize=2)
def _numstat(data: bytes) -> Finished:
    """Let git read a patch without applying it.

    The result is cached, because git needs a second for 100 MB and callers ask for the same patch again.
    """
    return git.isolated(Path(os.devnull), "apply", "--numstat", "-z", "-", cwd=Path("/"), stdin=data)


def _listed_paths(numstat: bytes, data: bytes) -> set[bytes]:
    """Return the paths of a patch, from the output of `git apply --numstat -z`.

    The output lacks the old names of renamed or copied files, so these names are read from the patch.
    """
    names = {entry.split(b"\t", 2)[2] for entry in numstat.split(b"\0") if entry.count(b"\t") > 1}
    for name in _after(data, b"\nrename from ", b"\ncopy from "):
        names |= {name, unescaped(name.rstrip(b"\r").strip(b'"'))}
    return set(filter(inside, names))


class GitApply:
    """A temporary bare repository in which git applies patches to an index.

    Nothing is written outside of this repository.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.directory = make_bare_repository()
        self._tree: str | None = None
        self._lines: set[bytes] = set()
        self._copied: set[str] = set()
        objects.add_directory(self.directory / "objects", "git's temporary repository")

    def close(self) -> None:
        """Remove the repository.

        The objects that git created in it can then no longer be read.
        """
        shutil.rmtree(self.directory, ignore_errors=True)

    def apply(self, overlay: TreeOverlay, data: bytes, *, costly: bool = False) -> GitVerdict:
        """Apply a patch file to a tree, completely or not at all.

        The offsets of a `costly` or very large patch are not read. Raises `MissingObject` if the content of a needed
        file is not available.
        """
        large = too_large(data)
        self._fill_index(overlay.write())
        if large:
            listed = _numstat(data)
            if not listed.ok:
                return self._refused(listed)
            names = _listed_paths(listed.stdout, data)
        else:
            names = every_path(data)
        self._copy(overlay, names)
        for oid in _postimages(data):
            # A binary diff without data applies if the resulting blob already exists.
            self._copy_object(oid, required=False)
        applied = self._apply(data, tell_offsets=not (large or costly))
        unread = {name.encode() for name in _UNREAD.findall(applied.complaint)}
        if unread:
            self._copy(overlay, unread)
            applied = self._apply(data, tell_offsets=not (large or costly))
        if not applied.ok:
            return self._refused(applied)
        largest = max(map(int, _OFFSET.findall(applied.complaint)), key=abs, default=0)
        return GitVerdict(overlay=self._result(overlay), complaint=applied.complaint, offset=largest)

    def _refused(self, applied: Finished) -> GitVerdict:
        """Return the verdict for a patch that git refused, with git's message."""
        complaint = applied.complaint
        if applied.code < 0:
            # Some damaged patches make git abort without removing its lock file.
            (self.directory / "index.lock").unlink(missing_ok=True)
            complaint = f"corrupt patch: git apply aborted on it (signal {-applied.code})"
        return GitVerdict(overlay=None, complaint=complaint)

    def _apply(self, data: bytes, *, tell_offsets: bool) -> Finished:
        options = ("-c", "apply.whitespace=nowarn", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true")
        if tell_offsets:
            # Only the verbose output has offsets. After a failure, it mixes lines of the patch with git's messages.
            applied = self._git(*options, "apply", "--cached", "--verbose", "-", stdin=data)
            if applied.ok:
                return applied
        return self._git(*options, "apply", "--cached", "-", stdin=data)

    def _fill_index(self, tree: str) -> None:
        """Change the index from its current tree to the given tree."""
        if self._tree == tree:
            return
        if self._tree is None:
            files = TreeOverlay(self.objects, tree).files()
            entries = [(path, mode, oid) for path, (mode, oid) in files]
        else:
            entries = [
                (change.path, *(change.new or (0, NULL_ID))) for change in compare_trees(self.objects, self._tree, tree)
            ]
        # Remove entries first, because a path may change from a file to a directory, or from a directory to a file.
        entries.sort(key=lambda entry: entry[1] != 0)
        text = b"".join(b"%o %s\t%s\0" % (mode, oid.encode(), path) for path, mode, oid in entries)
        self._checked("update-index", "-z", "--index-info", stdin=text)
        self._lines = self._listed()
        self._tree = tree

    def _result(self, overlay: TreeOverlay) -> TreeOverlay:
        """Update the overlay with git's changes to the index, and return the overlay."""
        listed = self._listed()
        for line in self._lines - listed:
            overlay.remove(line.split(b"\t", 1)[1])
        for line in listed - self._lines:
            head, path = line.split(b"\t", 1)
            mode, oid, _ = head.split(b" ")
            overlay.put(path, int(mode, 8), oid.decode("ascii"))
        self._lines = listed
        self._tree = overlay.write()
        return overlay

    def _listed(self) -> set[bytes]:
        return set(self._checked("ls-files", "--stage", "-z").split(b"\0")) - {b""}

    def _copy(self, overlay: TreeOverlay, paths: set[bytes]) -> None:
        """Copy the contents of files into the temporary repository."""
        for path in paths:
            entry = overlay.entry(path) if overlay.obstacle(path) is None else None
            if entry is not None and entry[0] & 0o170000 in (0o100000, 0o120000) and entry[0] != SUBMODULE:
                self._copy_object(entry[1], required=True, path=path)

    def _copy_object(self, oid: str, *, required: bool, path: bytes = b"") -> None:
        if oid in self._copied or not (required or self.objects.has(oid)):
            return
        content = self.objects.blob(oid, path.decode("utf-8", "replace"))
        write_object(self.directory / "objects", oid, "blob", content)
        self._copied.add(oid)

    def _git(self, *args: str, stdin: bytes = b"") -> Finished:
        return git.isolated(
            self.directory,
            *("-c", "core.attributesFile=/dev/null"),
            *args,
            cwd=self.directory,
            stdin=stdin,
            GIT_INDEX_FILE=str(self.directory / "index"),
        )

    def _checked(self, command: str, *args: str, stdin: bytes = b"") -> bytes:
        return git.checked(
            self._git(command, *args, stdin=stdin),
            f"git {command} failed in a temporary repository",
            hint="check the free disk space and 'git --version': git 2.32 or later is needed",
        )
