"""Read the paths that a series touches, tree by tree. Only directories that changed are read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import DIRECTORY, EXECUTABLE, FILE, Entry

OBSTRUCTED = 0
"""The mode of the entry for a path below a file or link. The entry's id is that of the file or link."""


class _Directory:
    """A parent directory of touched paths: the indices of the touched paths in it, and its subdirectories."""

    __slots__ = ("below", "files", "known")

    def __init__(self) -> None:
        self.files: dict[bytes, int] = {}
        self.below: dict[bytes, _Directory] = {}
        self.known: dict[str, tuple[tuple[int, Entry], ...]] = {}


class TouchedPaths:
    """Reads a fixed set of paths from any tree."""

    def __init__(self, objects: Objects, paths: Iterable[bytes]) -> None:
        self._objects = objects
        self.paths: Sequence[bytes] = tuple(sorted(set(paths)))
        self.place = {path: place for place, path in enumerate(self.paths)}
        self._root = _Directory()
        for place, path in enumerate(self.paths):
            *parents, name = path.split(b"/")
            node = self._root
            for part in parents:
                node = node.below.setdefault(part, _Directory())
            node.files[name] = place

    def entries(self, tree: str) -> list[Entry | None]:
        """Return the mode and id at each path, in the order of `paths`.

        The entry is None for a path that does not exist. The mode is `OBSTRUCTED` if a parent of the path is a file or
        link. Raises `MissingObject` if a directory is not available.
        """
        found: list[Entry | None] = [None] * len(self.paths)
        for place, entry in self._look(self._root, tree):
            found[place] = entry
        return found

    def _look(self, node: _Directory, tree: str) -> tuple[tuple[int, Entry], ...]:
        known = node.known.get(tree)
        if known is not None:
            return known
        found: list[tuple[int, Entry]] = []
        for mode, name, oid in self._objects.tree(tree):
            place, below = node.files.get(name), node.below.get(name)
            if (place is None and below is None) or (mode == DIRECTORY and oid == EMPTY_TREE):
                continue
            if mode & 0o170000 == 0o100000:  # git's index has only two modes for regular files
                mode = EXECUTABLE if mode & 0o100 else FILE
            if place is not None:
                found.append((place, (mode, oid)))
            if below is not None:
                if mode == DIRECTORY:
                    found += self._look(below, oid)
                else:
                    found += [(one, (OBSTRUCTED, oid)) for one in _places(below)]
        node.known[tree] = known = tuple(found)
        return known


def _places(node: _Directory) -> Iterable[int]:
    yield from node.files.values()
    for below in node.below.values():
        yield from _places(below)
