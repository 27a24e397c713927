"""Suggest new paths for files that patches add to renamed directories, as `git merge` does.

The rules are the same as for directory rename detection in merge-ort.c. Each file of a removed directory votes for the
directory to which it moved. The directory with the most votes wins. If there is a tie, no path is suggested.
"""

from __future__ import annotations

from collections import Counter

from patchstack.git.objects import Objects
from patchstack.git.overlay import DIRECTORY, Entry, TreeOverlay
from patchstack.git.trees import compare_trees
from patchstack.upstream.merge.renames import find_rename

_ASKED = 60  # the maximum number of files of a directory that are compared by similarity; exact copies are always found


class MovedDirectories:
    """The directories of one tree that were renamed in a later tree."""

    def __init__(self, objects: Objects, before: str, after: str) -> None:
        self._objects = objects
        self._before, self._after = TreeOverlay(objects, before), TreeOverlay(objects, after)
        self._trees = before, after
        self._pairs: tuple[dict[bytes, Entry], dict[bytes, Entry]] | None = None
        self._targets: dict[bytes, bytes | None] = {}

    def suggested(self, path: bytes) -> bytes | None:
        """Return the new path for a file.

        Return None if the directory of the file is new, still exists or has no clear successor, or if the new path is
        already used.
        """
        directory = path.rpartition(b"/")[0]
        if not self._is_directory(self._before, directory):
            return None
        while directory and not self._is_directory(self._after, directory):
            target = self._target(directory)
            if target is not None:
                there = (target + path[len(directory) :]).lstrip(b"/")
                return there if self._free(there) else None
            directory = directory.rpartition(b"/")[0]
        return None

    def _free(self, path: bytes) -> bool:
        return self._after.obstacle(path) is None and self._after.entry(path) is None

    def _is_directory(self, tree: TreeOverlay, path: bytes) -> bool:
        found = tree.entry(path) if tree.obstacle(path) is None else None
        return found is not None and found[0] == DIRECTORY

    def _target(self, directory: bytes) -> bytes | None:
        if directory not in self._targets:
            votes = self._votes(directory).most_common(2)
            tied = len(votes) == 2 and votes[0][1] == votes[1][1]
            self._targets[directory] = votes[0][0] if votes and not tied else None
        return self._targets[directory]

    def _votes(self, directory: bytes) -> Counter[bytes]:
        if self._pairs is None:
            changes = list(compare_trees(self._objects, *self._trees))
            self._pairs = (
                {one.path: one.old for one in changes if one.new is None and one.old is not None},
                {one.path: one.new for one in changes if one.old is None and one.new is not None},
            )
        gone, come = self._pairs
        copies = {entry[1] for entry in come.values()}
        votes: Counter[bytes] = Counter()
        asked = 0
        for path, entry in sorted(gone.items()):
            if not path.startswith(directory + b"/"):
                continue
            if entry[1] not in copies:
                asked += 1
                if asked > _ASKED:
                    continue
            found = find_rename(self._objects, entry, path, come)
            if found is not None:
                votes.update(_renamed_directory(directory, path, found[0]))
        return votes


def _renamed_directory(directory: bytes, old: bytes, new: bytes) -> list[bytes]:
    """Return the new path of a directory, from the old and the new path of one of its files.

    The result is a list with one path. It is empty if the names below the directory differ.
    """
    old, new = old.rpartition(b"/")[0], new.rpartition(b"/")[0]
    while old != directory:
        if old.rpartition(b"/")[2] != new.rpartition(b"/")[2] or b"/" not in new:
            return []
        old, new = old.rpartition(b"/")[0], new.rpartition(b"/")[0]
    return [new]
