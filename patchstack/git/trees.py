"""Compare trees in memory.

The functions find the paths that differ, and check whether two changes are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import DIRECTORY, SUBMODULE, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """A path at which two trees differ, with its mode and id in each tree.

    `old` is None if the path does not exist in the first tree. `new` is None if it does not exist in the second tree.
    """

    path: bytes
    old: Entry | None
    new: Entry | None


def compare_trees(objects: Objects, old: str, new: str) -> Iterator[PathChange]:
    """Yield every file that differs between two trees, directory by directory.

    Renames are not detected. Raises `MissingObject` if a tree is not available.
    """
    pending = [(old, new, b"")]
    while pending:
        one, other, prefix = pending.pop()
        if one == other:
            continue
        gone, come = objects.tree_difference(one, other)
        before = {name: (mode, oid) for mode, name, oid in gone}
        after = {name: (mode, oid) for mode, name, oid in come}
        for name in sorted(before.keys() | after.keys()):
            a, b = before.get(name), after.get(name)
            path = prefix + name
            a_tree, a = _apart(a)
            b_tree, b = _apart(b)
            pending.append((a_tree, b_tree, path + b"/"))
            if a != b:
                yield PathChange(path=path, old=a, new=b)


def _apart(entry: Entry | None) -> tuple[str, Entry | None]:
    """Split an entry into a tree id and a file entry.

    For a directory, the file entry is None. For a file, or if there is no entry, the tree id is that of the empty tree.
    """
    if entry is not None and entry[0] == DIRECTORY:
        return entry[1], None
    return EMPTY_TREE, entry


def same_change(objects: Objects, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether two changes edit the same paths in the same way.

    Each change is a pair of trees: before and after. The removed and added lines must be the same, in the same order,
    and the modes must be the same. Line numbers and surrounding lines may differ.
    """
    ours = {change.path: change for change in compare_trees(objects, *one)}
    theirs = {change.path: change for change in compare_trees(objects, *other)}
    if ours.keys() != theirs.keys():
        return False
    want_contents(objects, (*ours.values(), *theirs.values()))
    return all(_same_edit(objects, change, theirs[path]) for path, change in ours.items())


def want_contents(objects: Objects, changes: Iterable[PathChange]) -> None:
    """Fetch all missing contents of changed files in one step."""
    entries = (entry for change in changes for entry in (change.old, change.new))
    objects.want(entry[1] for entry in entries if entry is not None and entry[0] != SUBMODULE)


def _same_edit(objects: Objects, ours: PathChange, theirs: PathChange) -> bool:
    if (ours.old, ours.new) == (theirs.old, theirs.new):
        return True
    if [entry and entry[0] for entry in (ours.old, ours.new)] != [
        entry and entry[0] for entry in (theirs.old, theirs.new)
    ]:
        return False
    return _edits(objects, ours) == _edits(objects, theirs)


def _edits(objects: Objects, change: PathChange) -> list[tuple[str, bytes]] | tuple[bytes, bytes]:
    """Return the removed and added lines of a change, in order.

    Return the complete contents if git would treat them as binary.
    """
    old, new = content(objects, change.old, change.path), content(objects, change.new, change.path)
    import pygit2

    patch = pygit2.Patch.create_from(old, new, context_lines=0)
    if patch.delta.is_binary:
        return old, new
    return [(line.origin, line.raw_content) for hunk in patch.hunks for line in hunk.lines]


def content(objects: Objects, entry: Entry | None, path: bytes) -> bytes:
    """Return the content of a file.

    For a submodule, this is git's one-line description. For a missing file, it is empty.
    """
    if entry is None:
        return b""
    if entry[0] == SUBMODULE:
        return b"Subproject commit %s\n" % entry[1].encode()
    return objects.blob(entry[1], path.decode("utf-8", "replace"))
