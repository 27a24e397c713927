"""Edit a tree in memory and compute the same ids as git.

Only the needed parts of the base tree are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchstack.errors import MissingError
from patchstack.git.objects import EMPTY_TREE, Objects

DIRECTORY = 0o040000
FILE = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
SUBMODULE = 0o160000

Entry = tuple[int, str]
"""The mode and object id of a path."""

_NOTHING: Entry = (0, "")


class _Node:
    """A directory that was read.

    `entries` contains the mode and id of each file and subdirectory. `children` contains the subdirectories that were
    read. `raw` contains the bytes of the tree object, or is None if they must be computed. `places` contains the
    offsets of the ids in `raw`, because most edits change only these 20 bytes. `touched` contains the names of the
    subdirectories that changed since the last write.
    """

    __slots__ = ("children", "entries", "oid", "places", "raw", "touched")

    def __init__(self, oid: str | None, entries: dict[bytes, Entry]) -> None:
        self.oid = oid
        self.entries = entries
        self.children: dict[bytes, _Node] = {}
        self.raw: bytearray | None = None
        self.places: dict[bytes, int] = {}
        self.touched: set[bytes] = set()

    def set(self, name: bytes, entry: Entry) -> None:
        old = self.entries.get(name)
        self.entries[name] = entry
        self.oid = None
        if self.raw is not None and old is not None and old[0] == entry[0]:
            at = self.places[name]
            self.raw[at : at + 20] = bytes.fromhex(entry[1])
        else:
            self.raw = None

    def drop(self, name: bytes) -> None:
        del self.entries[name]
        self.children.pop(name, None)
        self.raw = None
        self.oid = None

    def content(self) -> bytes:
        """Return the directory as the bytes of a tree object."""
        if self.raw is None:
            self.raw = bytearray()
            # git sorts a directory as if its name ended with a slash.
            for name in sorted(self.entries, key=lambda n: n + b"/" if self.entries[n][0] == DIRECTORY else n):
                mode, oid = self.entries[name]
                self.raw += b"%o %s\0" % (mode, name)
                self.places[name] = len(self.raw)
                self.raw += bytes.fromhex(oid)
        return bytes(self.raw)


class TreeOverlay:
    """A tree with edits.

    Paths are bytes. They are relative, with `/` between components.
    """

    def __init__(self, objects: Objects, tree: str) -> None:
        self.objects = objects
        self._root = self._load(tree)

    def entry(self, path: bytes) -> Entry | None:
        """Return the mode and id of the file, link, submodule or directory at a path.

        The id of a directory is the id at the last `write`. Return None if nothing exists at the path.
        """
        *parents, name = path.split(b"/")
        node = self._descend(parents)
        return None if node is None else node.entries.get(name)

    def obstacle(self, path: bytes) -> tuple[bytes, Entry] | None:
        """Return the first parent of a path that exists and is not a directory, or None."""
        parts = path.split(b"/")
        node: _Node | None = self._root
        for depth, part in enumerate(parts[:-1]):
            assert node is not None
            entry = node.entries.get(part)
            if entry is None:
                return None
            if entry[0] != DIRECTORY:
                return b"/".join(parts[: depth + 1]), entry
            node = self._child(node, part)
        return None

    def put(self, path: bytes, mode: int, oid: str) -> None:
        """Set the file at a path.

        Missing directories are created. No parent of the path may be a file.
        """
        *parents, name = path.split(b"/")
        node = self._root
        node.oid = None
        for part in parents:
            if part not in node.entries:
                node.set(part, (DIRECTORY, EMPTY_TREE))
                node.children[part] = _Node(None, {})
            node.touched.add(part)
            node = self._child(node, part)
            node.oid = None
        node.set(name, (mode, oid))

    def remove(self, path: bytes) -> None:
        """Remove a file.

        Directories that become empty are removed too.
        """
        parts = path.split(b"/")
        nodes = [self._root]
        for part in parts[:-1]:
            nodes[-1].touched.add(part)
            nodes.append(self._child(nodes[-1], part))
        for depth in range(len(nodes) - 1, -1, -1):
            node, name = nodes[depth], parts[depth]
            node.oid = None
            if depth == len(nodes) - 1 or not node.children[name].entries:
                node.drop(name)

    def read_ahead(self, paths: Iterable[bytes]) -> None:
        """Prepare to read the files at these paths.

        Their directories are read, one level at a time, and the files are requested. This does not change any result. A
        missing object is reported later, by the code that needs it.
        """
        files: list[str] = []
        level = [(self._root, path.split(b"/")) for path in paths]
        depth = 0
        while level:
            below = []
            for node, parts in level:
                mode, oid = node.entries.get(parts[depth], _NOTHING)
                if depth < len(parts) - 1:
                    if mode == DIRECTORY:
                        below.append((node, parts, oid))
                elif mode in (FILE, EXECUTABLE):
                    files.append(oid)
            self.objects.read_ahead(oid for node, parts, oid in below if parts[depth] not in node.children)
            try:
                level = [(self._child(node, parts[depth]), parts) for node, parts, _ in below]
            except MissingError:
                return
            depth += 1
        self.objects.read_ahead(files)

    def write(self) -> str:
        """Write the tree objects in memory and return the id of the root tree."""
        return self._write(self._root)

    def files(self, path: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Yield every file below a directory, in no particular order."""
        pending = [path]
        while pending:
            directory = pending.pop()
            node = self._descend(directory.split(b"/") if directory else [])
            for name, entry in node.entries.items() if node is not None else ():
                full = directory + b"/" + name if directory else name
                if entry[0] == DIRECTORY:
                    pending.append(full)
                else:
                    yield full, entry

    def _load(self, tree: str) -> _Node:
        # git's index has only two modes for regular files, and no empty directories. So a directory that git rewrites
        # loses all other modes and its empty subdirectories.
        entries: dict[bytes, Entry] = {}
        for mode, name, oid in self.objects.tree(tree):
            if mode == DIRECTORY:
                if oid == EMPTY_TREE:
                    continue
            elif mode & 0o170000 == 0o100000:
                mode = EXECUTABLE if mode & 0o100 else FILE
            entries[name] = (mode, oid)
        return _Node(tree, entries)

    def _child(self, node: _Node, name: bytes) -> _Node:
        child = node.children.get(name)
        if child is None:
            child = node.children[name] = self._load(node.entries[name][1])
        return child

    def _descend(self, parts: list[bytes]) -> _Node | None:
        node = self._root
        for part in parts:
            entry = node.entries.get(part)
            if entry is None or entry[0] != DIRECTORY:
                return None
            node = self._child(node, part)
        return node

    def _write(self, root: _Node) -> str:
        # Not recursive, because a patch may nest directories to any depth.
        dirty, pending = [], [root]
        while pending:
            node = pending.pop()
            if node.oid is None:
                dirty.append(node)
                pending.extend(node.children[name] for name in node.touched if name in node.children)
        for node in reversed(dirty):
            for name in node.touched:
                child = node.children.get(name)
                if child is not None:
                    assert child.oid is not None
                    node.set(name, (DIRECTORY, child.oid))
            node.touched.clear()
            node.oid = self.objects.add("tree", node.content())
        assert root.oid is not None
        return root.oid
