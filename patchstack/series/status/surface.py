"""Measure the surface of a series: its changes to upstream's files, and its own files.

A pin bump must carry over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pygit2

from patchstack.git.objects import Objects
from patchstack.git.overlay import Entry, TreeOverlay
from patchstack.git.patch.diff import Unsupported, parse_diffs
from patchstack.git.patch.text import PatchedFile, read_text, unparsed_diff
from patchstack.git.trees import PathChange, compare_trees, content

_BINARY_LOOK = 8000  # git treats a file as binary if these first bytes contain a NUL (xdiff-interface.c).


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFile:
    """An upstream file that the series touches.

    `patches` lists the labels of the patches that touch it, in order. The counts compare the whole series with the pin,
    without context. `hunks` is the number of changed places. `inserted` is the number of added lines. `changed` is the
    number of upstream's lines that were removed or changed. All counts are 0 for a binary file, and for a file that a
    later patch restores.
    """

    path: str
    patches: tuple[str, ...]
    hunks: int
    inserted: int
    changed: int
    removed: bool
    binary: bool

    @property
    def cost(self) -> int:
        """The number of items that may have to be resolved by hand at a pin bump.

        Items are changed places and changed lines of upstream. A binary file counts as one item.
        """
        return self.hunks + self.changed + self.binary


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """A file that upstream does not have. `lines` is 0 for a binary file."""

    path: str
    patches: tuple[str, ...]
    lines: int
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """The surface of a series.

    `upstream` contains the upstream files in descending order of cost. `own` contains the series' own files, sorted by
    path.
    """

    upstream: tuple[UpstreamFile, ...]
    own: tuple[OwnFile, ...]

    @property
    def hunks(self) -> int:
        return sum(file.hunks for file in self.upstream)

    @property
    def inserted(self) -> int:
        return sum(file.inserted for file in self.upstream)

    @property
    def changed(self) -> int:
        return sum(file.changed for file in self.upstream)

    @property
    def own_lines(self) -> int:
        return sum(file.lines for file in self.own)


def measure_surface(objects: Objects, base: str, prefixes: Sequence[tuple[str, str]]) -> Surface:
    """Return the surface of a series.

    `prefixes` contains the label and tree of every applied patch, in order. A renamed upstream file counts as removed,
    and the file with the new name counts as one of the series' own files. Raises `MissingObject` if the content of a
    file is not available.
    """
    patches: dict[bytes, list[str]] = {}
    before = base
    for label, tree in prefixes:
        for change in compare_trees(objects, before, tree):
            patches.setdefault(change.path, []).append(label)
        before = tree
    changes = {change.path: change for change in compare_trees(objects, base, before)}
    pin = TreeOverlay(objects, base)
    upstream: list[UpstreamFile] = []
    own: list[OwnFile] = []
    for path in sorted(patches.keys() | changes.keys()):
        found, by = changes.get(path), tuple(patches.get(path, ()))
        if found is None:
            if pin.obstacle(path) is None and pin.entry(path) is not None:
                upstream.append(_upstream_file(objects, PathChange(path=path, old=None, new=None), by))
        elif found.old is None:
            own.append(_own_file(objects, found, by))
        else:
            upstream.append(_upstream_file(objects, found, by))
    upstream.sort(key=lambda file: (-file.cost, -len(file.patches), -file.inserted, file.path))
    return Surface(upstream=tuple(upstream), own=tuple(own))


def _upstream_file(objects: Objects, change: PathChange, by: tuple[str, ...]) -> UpstreamFile:
    hunks = inserted = changed = 0
    binary = False
    if (change.old and change.old[1]) != (change.new and change.new[1]):
        compared = _Comparison(objects, change, context=0)
        binary = compared.binary
        if not binary:
            _, inserted, changed = compared.patch.line_stats
            hunks = len(compared.patch.hunks)
    return UpstreamFile(
        path=_shown(change.path),
        patches=by,
        hunks=hunks,
        inserted=inserted,
        changed=changed,
        removed=change.old is not None and change.new is None,
        binary=binary,
    )


def _own_file(objects: Objects, change: PathChange, by: tuple[str, ...]) -> OwnFile:
    data = content(objects, change.new, change.path)
    binary = b"\0" in data[:_BINARY_LOOK]
    lines = 0 if binary else data.count(b"\n") + (data[-1:] not in (b"\n", b""))
    return OwnFile(path=_shown(change.path), patches=by, lines=lines, binary=binary)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """A file that one patch touches, with the number of added and removed lines (0 for a binary file).

    `was` is the old name of a renamed file.
    """

    path: str
    was: str | None
    inserted: int
    removed: int
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDiff:
    """A patch in a form for readers.

    `files` lists the touched files. `diff` is a text diff in which every hunk has context.
    """

    files: tuple[FileCount, ...]
    diff: str


def readable_diff(objects: Objects, data: bytes, trees: tuple[str, str] | None) -> ReadableDiff:
    """Return the diff of a patch file for reading.

    `trees` contains the trees before and after the patch; None if the patch was not applied. A text diff whose hunks
    have context is returned unchanged. Any other diff has hunks without context, or contains changes that only git can
    read (binary data, links, …). If `trees` is not None, such a diff is made again from the trees, with three lines of
    context.
    """
    try:
        parse_diffs(data)
    except Unsupported:
        if trees:
            return _from_trees(objects, *trees)
        return ReadableDiff(files=(), diff=unparsed_diff(data).decode("utf-8", "replace").rstrip("\n") + "\n")
    files = read_text(data).files
    lines = [line.decode("utf-8", "replace") + "\n" for line in data.split(b"\n")]
    text: list[str] = []
    for file in files:
        change = _change(objects, file, trees) if trees and _bare(file) else None
        if change is None:
            text += lines[file.number - 1 : file.end - 1]
        else:
            text += lines[file.number - 1 : file.hunks[0].number - 1]
            text += _Comparison(objects, change, context=3).hunks()
    return ReadableDiff(files=tuple(_count(file) for file in files), diff="".join(text))


def _bare(file: PatchedFile) -> bool:
    """Return whether a hunk in the middle of a file has no context."""
    return file.old is not None and file.new is not None and any(hunk.bare for hunk in file.hunks)


def _change(objects: Objects, file: PatchedFile, trees: tuple[str, str]) -> PathChange | None:
    old, new = (
        TreeOverlay(objects, tree).entry(name or b"") for tree, name in zip(trees, (file.old, file.new), strict=True)
    )
    return PathChange(path=file.path, old=old, new=new) if old and new else None


def _count(file: PatchedFile) -> FileCount:
    return FileCount(
        path=_shown(file.path),
        was=_shown(file.old) if file.old and file.new and file.old != file.new else None,
        inserted=len(file.added),
        removed=len(file.removed),
        binary=False,
    )


def _from_trees(objects: Objects, before: str, after: str) -> ReadableDiff:
    files = []
    text: list[str] = []
    for change in compare_trees(objects, before, after):
        compared = _Comparison(objects, change, context=3)
        binary = compared.binary
        _, inserted, removed = (0, 0, 0) if binary else compared.patch.line_stats
        files.append(
            FileCount(path=_shown(change.path), was=None, inserted=inserted, removed=removed, binary=binary),
        )
        text += _head(change)
        names = [f"{side}/{_shown(change.path)}" if entry else "/dev/null" for side, entry in _sides(change)]
        if binary:
            text.append(f"Binary files {names[0]} and {names[1]} differ\n")
        elif inserted or removed:
            text += [f"--- {names[0]}\n", f"+++ {names[1]}\n", *compared.hunks()]
    return ReadableDiff(files=tuple(files), diff="".join(text))


def _sides(change: PathChange) -> Iterator[tuple[str, Entry | None]]:
    yield from (("a", change.old), ("b", change.new))


def _head(change: PathChange) -> Iterator[str]:
    path, old, new = _shown(change.path), change.old, change.new
    yield f"diff --git a/{path} b/{path}\n"
    if new is None and old is not None:
        yield f"deleted file mode {old[0]:06o}\n"
    elif old is None and new is not None:
        yield f"new file mode {new[0]:06o}\n"
    elif old is not None and new is not None and old[0] != new[0]:
        yield from (f"old mode {old[0]:06o}\n", f"new mode {new[0]:06o}\n")


class _Comparison:
    """A file on both sides of a comparison.

    Both contents are kept as attributes, because libgit2's patch points into them.
    """

    def __init__(self, objects: Objects, change: PathChange, *, context: int) -> None:
        self._old, self._new = content(objects, change.old, change.path), content(objects, change.new, change.path)
        self.patch = pygit2.Patch.create_from(self._old, self._new, context_lines=context)

    @property
    def binary(self) -> bool:
        return bool(self.patch.delta.is_binary)

    def hunks(self) -> Iterator[str]:
        """Yield the hunks in the same form as git writes them."""
        for hunk in self.patch.hunks:
            yield hunk.header if hunk.header.endswith("\n") else hunk.header + "\n"
            for line in hunk.lines:
                text = line.raw_content.decode("utf-8", "replace")
                # A missing last newline is reported as a separate line, with the words that git uses.
                text = text.lstrip("\n") if line.origin in "<>=" else line.origin + text
                yield text if text.endswith("\n") else text + "\n"


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "replace")
