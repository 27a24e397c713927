"""Merge one patch onto another tree in memory.

The merge is three-way, as in `git cherry-pick`, but needs no work tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from patchstack.git.objects import Objects
from patchstack.git.overlay import DIRECTORY, EXECUTABLE, FILE, Entry, TreeOverlay
from patchstack.git.trees import PathChange, compare_trees
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.renames import find_rename
from patchstack.upstream.merge.text import Collision, TextMerge, edits, is_binary, merge_texts

EditsById = dict[tuple[str, str], tuple[Edit, ...]]


class Clash(StrEnum):
    """The kind of conflict at a path."""

    CONTENT = "content"  # both sides changed the same lines
    BINARY = "binary"  # both sides changed a binary file, a link or a submodule
    BOTH_ADDED = "both-added"  # the patch creates a file that exists with different content
    DELETED = "deleted"  # the patch changes a file that was removed
    CHANGED = "changed"  # the patch deletes a file that was changed
    MODE = "mode"  # both sides changed the file's mode or type, in different ways
    OBSTACLE = "obstacle"  # a directory has the file's path, or a file has the path of a parent directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One path that does not merge.

    `path` is the path in the target tree. `ours` is the entry of the target tree. `base` and `theirs` are the entries
    before and after the patch. An entry is (mode, blob id), or None for a file that does not exist. `marked` is the
    text with git's conflict markers, and `collisions` are the conflicting lines. If the files cannot be merged as text,
    `marked` is None and `collisions` is empty.
    """

    path: str
    kind: Clash
    ours: Entry | None
    base: Entry | None
    theirs: Entry | None
    marked: bytes | None
    collisions: tuple[Collision, ...]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The result of merging a patch onto another tree.

    `tree` is the merged tree. It is None if there are conflicts. `best` is the tree with everything that merges. In
    `best`, conflicting texts have markers, and other conflicting files are as in the target tree. `renames` are files
    with a different path in the target tree. Each is given as the path in the patch and the path that received the
    change.
    """

    tree: str | None
    best: str
    conflicts: tuple[Conflict, ...]
    renames: tuple[tuple[str, str], ...]

    @property
    def clean(self) -> bool:
        return self.tree is not None


class Picker:
    """Merges patches onto trees, and caches every merged text.

    Files that were moved in the target tree or by the patch are followed. `labels` name the sides in conflict markers.
    With `union`, conflicting texts are settled as in `merge_texts`, so that a later patch can be merged onto the
    result. `moved` maps removed files to their new paths. If it is None, the new paths are searched for. `known` caches
    the edits between blobs. Several pickers may share it.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        labels: tuple[str, str] = ("upstream", "patch"),
        union: bool = False,
        moved: Mapping[bytes, bytes] | None = None,
        known: EditsById | None = None,
    ) -> None:
        self._objects = objects
        self._labels = labels
        self._union = union
        self._moved = moved
        self._known = known if known is not None else {}
        self._texts: dict[tuple[str, str, str], TextMerge] = {}
        self._new: dict[tuple[str, str], dict[bytes, Entry]] = {}

    def merge(self, before: str, after: str, onto: str) -> Merge:
        """Merge the change from tree `before` to tree `after` onto the tree `onto`. New objects stay in memory.

        Raises `MissingObject` if a touched file's content is not available.
        """
        return _Merging(self, self._objects, before, after, onto).run()

    def texts(self, base: str, ours: str, theirs: str) -> TextMerge:
        """Merge three blobs, given by their ids. An empty id means an empty file."""
        key = (base, ours, theirs)
        found = self._texts.get(key)
        if found is None:
            texts = [self._objects.blob(oid) if oid else b"" for oid in key]
            known = self._edits(base, ours, *texts[:2]), self._edits(base, theirs, texts[0], texts[2])
            merged = merge_texts(texts[0], texts[1], texts[2], self._labels, union=self._union, found=known)
            found = self._texts[key] = merged
        return found

    def _edits(self, old: str, new: str, old_text: bytes, new_text: bytes) -> tuple[Edit, ...]:
        found = self._known.get((old, new))
        if found is None:
            found = self._known[old, new] = edits(old_text, new_text)
        return found

    def gone_to(self, path: bytes, entry: Entry, before: str, onto: str) -> bytes | None:
        """Return the new path of a file of `before` that is missing in `onto`. Return None if the file was deleted."""
        if self._moved is not None:
            return self._moved.get(path)
        come = self._new.get((before, onto))
        if come is None:
            come = new_files(self._objects, before, onto)
            self._new = {(before, onto): come}
        found = find_rename(self._objects, entry, path, come)
        return found[0] if found is not None else None


def new_files(objects: Objects, before: str, onto: str) -> dict[bytes, Entry]:
    """Return the files that only the second of two trees contains."""
    changes = compare_trees(objects, before, onto)
    return {change.path: change.new for change in changes if change.old is None and change.new is not None}


class _Merging:
    """One merge in progress."""

    def __init__(self, picker: Picker, objects: Objects, before: str, after: str, onto: str) -> None:
        self.picker = picker
        self.objects = objects
        self.before = before
        self.onto = onto
        self.changes = sorted(compare_trees(objects, before, after), key=lambda change: change.path)
        self.result = TreeOverlay(objects, onto)
        self.conflicts: list[Conflict] = []
        self.renames: list[tuple[str, str]] = []

    def run(self) -> Merge:
        moved = self._moved_by_patch()
        # Remove files first, because a directory may take the path of a file.
        for change in sorted(self.changes, key=lambda change: change.new is not None):
            if change.path not in moved.values():
                self._path(change, moved.get(change.path))
        best = self.result.write()
        return Merge(
            tree=None if self.conflicts else best,
            best=best,
            conflicts=tuple(self.conflicts),
            renames=tuple(self.renames),
        )

    def _moved_by_patch(self) -> dict[bytes, bytes]:
        """Return the patch's own renames (new name to old name) of files that changed in the target tree."""
        gone = [change for change in self.changes if change.new is None and change.old is not None]
        come = {change.path: change.new for change in self.changes if change.old is None and change.new is not None}
        found: dict[bytes, bytes] = {}
        for change in gone:
            assert change.old is not None
            if self._entry(change.path) != change.old:
                rename = find_rename(self.objects, change.old, change.path, come)
                if rename is not None:
                    found[rename[0]] = change.path
                    del come[rename[0]]
        return found

    def _path(self, change: PathChange, source: bytes | None) -> None:
        """Merge one path. If the patch renames the file, `source` is its old name."""
        base, theirs = change.old, change.new
        if source is not None:
            old = next(one for one in self.changes if one.path == source)
            base, ours = old.old, self._entry(source)
            if self._entry(change.path) is None:
                if ours is not None:
                    self.result.remove(source)
                self._settle(change.path, change.path, ours, base, theirs)
                return
        ours, where = self._entry(change.path), change.path
        blocked = self._blocked(change, ours)
        if blocked:
            self._conflict(Clash.OBSTACLE, change.path, ours, base, theirs, detail=blocked)
        elif ours == theirs:
            return
        elif ours == base:
            self._write(change.path, theirs)
        else:
            if ours is None and base is not None and theirs is not None:
                renamed = self.picker.gone_to(change.path, base, self.before, self.onto)
                if renamed is not None:
                    where = renamed
                    ours = self._entry(where)
                    self.renames.append((_shown(change.path), _shown(where)))
            self._settle(where, change.path, ours, base, theirs)

    def _entry(self, path: bytes) -> Entry | None:
        return None if self.result.obstacle(path) is not None else self.result.entry(path)

    def _blocked(self, change: PathChange, ours: Entry | None) -> str:
        if change.new is None:
            return ""
        obstacle = self.result.obstacle(change.path)
        if obstacle is not None:
            return f"{_shown(change.path)}: {_shown(obstacle[0])} is a file in the target tree, not a directory"
        if ours is not None and ours[0] == DIRECTORY:
            return f"{_shown(change.path)}: a directory has this path in the target tree"
        return ""

    def _settle(self, where: bytes, named: bytes, ours: Entry | None, base: Entry | None, theirs: Entry | None) -> None:
        """Merge three entries. Both sides differ from the base."""
        name = _shown(named)
        if theirs is None:
            if ours is not None:
                detail = f"{name}: the patch deletes it, but it was changed"
                self._conflict(Clash.CHANGED, where, ours, base, theirs, detail=detail)
            return
        if ours is None:
            self._conflict(Clash.DELETED, where, ours, base, theirs, detail=f"{name}: it no longer exists")
            return
        mode = _merged_mode(base, ours, theirs)
        if mode is None:
            self._conflict(Clash.MODE, where, ours, base, theirs, detail=f"{name}: both sides changed its type")
            return
        before = base[1] if base is not None else ""
        if before == ours[1] or ours[1] == theirs[1]:
            self._write(where, (mode, theirs[1]))
        elif before == theirs[1]:
            self._write(where, (mode, ours[1]))
        elif mode not in (FILE, EXECUTABLE) or self._binary(before, ours[1], theirs[1]):
            detail = f"{name}: both sides changed it, and it is not a text file"
            self._conflict(Clash.BINARY, where, ours, base, theirs, detail=detail)
        else:
            self._text(where, name, mode, ours, base, theirs)

    def _text(self, where: bytes, name: str, mode: int, ours: Entry, base: Entry | None, theirs: Entry) -> None:
        merged = self.picker.texts(base[1] if base is not None else "", ours[1], theirs[1])
        self._write(where, (mode, self.objects.add("blob", merged.text)))
        if not merged.clean:
            kind = Clash.CONTENT if base is not None else Clash.BOTH_ADDED
            count = len(merged.collisions)
            places = f"{count} place{'s' if count > 1 else ''}"
            what = "both sides changed" if base is not None else "both sides created it, with different lines in"
            self._conflict(kind, where, ours, base, theirs, detail=f"{name}: {what} {places}", merged=merged)

    def _binary(self, *oids: str) -> bool:
        return any(is_binary(self.objects.blob(oid)) for oid in oids if oid)

    def _write(self, path: bytes, entry: Entry | None) -> None:
        if entry is None:
            self.result.remove(path)
        else:
            self.result.put(path, *entry)

    def _conflict(
        self,
        kind: Clash,
        path: bytes,
        ours: Entry | None,
        base: Entry | None,
        theirs: Entry | None,
        *,
        detail: str,
        merged: TextMerge | None = None,
    ) -> None:
        self.conflicts.append(
            Conflict(
                path=_shown(path),
                kind=kind,
                ours=ours,
                base=base,
                theirs=theirs,
                marked=merged.text if merged is not None else None,
                collisions=merged.collisions if merged is not None else (),
                detail=detail,
            )
        )


def _merged_mode(base: Entry | None, ours: Entry, theirs: Entry) -> int | None:
    """Return the merged mode. Return None if the two sides changed the mode differently."""
    if ours[0] == theirs[0]:
        return ours[0]
    if base is None:
        return None
    if base[0] == ours[0]:
        return theirs[0]
    return ours[0] if base[0] == theirs[0] else None


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
