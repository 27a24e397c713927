"""Apply a series strictly to many trees, and skip patches that fail.

No patch is tried twice on the same lines. The result of a patch depends only on the contents at its paths, so results
are cached by these contents, file by file. A patch is passed to `Applier`, and from there to git
(patchstack/git/apply.py), if it is not a plain text diff of regular files, or if it is too costly to apply here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from patchstack.git.apply import Applier, Outcome
from patchstack.git.handover import every_path
from patchstack.git.objects import EMPTY_TREE, FULL_ID, Objects
from patchstack.git.overlay import EXECUTABLE, FILE, TreeOverlay
from patchstack.git.patch.diff import FileDiff, Unsupported, parse_diffs
from patchstack.git.patch.effort import Pool, TooCostly, bulky
from patchstack.git.patch.hunks import effort_for, place_hunks
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import PatchFile
from patchstack.series.verify.prefix_trees import apply_patch
from patchstack.upstream.canary.touched_paths import OBSTRUCTED, TouchedPaths
from patchstack.upstream.merge.patch import Picker
from patchstack.upstream.replay import Replay

Content = str | int
"""The content of a file: a blob id, or the number of a text that this module created."""
Slot = tuple[int, Content] | None
"""The mode and content at a path."""

Journal = tuple[tuple[int, Slot, Slot], ...]
"""The changes of a patch.

Each change consists of the index of its path among the touched paths, and the slots before and after the patch.
"""

_Edits = tuple[tuple[int, Slot], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRun:
    """The result of a chain over one tree.

    `applied` tells for each patch whether it applied. `offset` is, for each patch, the largest distance in lines
    between a hunk and the line in its header. It is 0 if all hunks apply at their lines.
    """

    applied: tuple[bool, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """One file of a patch: its diff, and the indices of its old and its new path. The index of a missing path is -1."""

    number: int
    diff: FileDiff
    old: int
    new: int


class _Contents:
    """A cache of the lines of recently used files.

    `pool` is the additional work for placing hunks that all patches on one tree share. The cache also records, for each
    new content, the old content and the diff that produced it.
    """

    LIMIT = 300_000_000  # approximate limit in bytes
    _LINE, _SHARED = 41, 8  # overhead in bytes of a stored line, and of a line that is shared
    _MOST_SHARED = 1_000_000  # maximum number of shared lines

    def __init__(self, objects: Objects) -> None:
        self.pool = Pool()
        self._objects = objects
        self._kept: OrderedDict[Content, list[bytes]] = OrderedDict()
        self._same: dict[bytes, bytes] = {}
        self._weights: dict[Content, int] = {}
        self._weight = 0
        self._made: list[tuple[Content | None, FileDiff]] = []
        self._results: dict[tuple[Content | None, int], tuple[Content | None, int] | Unsupported] = {}

    def after(self, content: Content | None, step: _Step) -> tuple[Content | None, int]:
        """Apply the hunks of a file.

        Return the new content and the largest offset of a hunk. The content is None if the hunks do not fit. Raises
        `Unsupported` for a diff that git must apply.
        """
        key = (content, step.number)
        found = self._results.get(key)
        if found is None:
            try:
                found = self._applied(content, step.diff)
            except Unsupported as unsupported:
                found = unsupported
            self._results[key] = found
        if isinstance(found, Unsupported):
            raise found.with_traceback(None)
        return found

    def lines(self, content: Content | None) -> list[bytes]:
        """Return the lines of the given content. The caller must not change this list."""
        if content is None:
            return [b""]
        trail: list[int] = []
        at: Content | None = content
        while isinstance(at, int) and at not in self._kept:
            trail.append(at)
            at = self._made[at][0]
        if at is None:
            found = [b""]
        elif at in self._kept:
            found = self._kept[at]
            self._kept.move_to_end(at)
        else:
            assert isinstance(at, str)
            text = self._objects.blob(at)
            found = self._shared_lines(text.split(b"\n"))
            self._keep(at, found, len(text) + self._LINE * len(found))
        for number in reversed(trail):
            found = list(found)
            place_hunks(found, self._made[number][1].hunks)
            self._keep(number, found, self._SHARED * len(found))
        return found

    def _shared_lines(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines, with the same object for all equal lines.

        Versions of a file can then be compared much faster.
        """
        if len(self._same) > self._MOST_SHARED:
            self._same = {}
        return list(map(self._same.setdefault, lines, lines))

    def blob(self, content: Content) -> str:
        """Store content as a blob and return the blob's id."""
        return content if isinstance(content, str) else self._objects.add("blob", b"\n".join(self.lines(content)))

    def _applied(self, content: Content | None, diff: FileDiff) -> tuple[Content | None, int]:
        lines = list(self.lines(content))
        places = place_hunks(lines, diff.hunks, effort_for(lines, diff.hunks, self.pool))
        if len(places) < len(diff.hunks) or (diff.new is None and lines != [b""]):
            return None, 0
        self._made.append((content, diff))
        number = len(self._made) - 1
        self._keep(number, lines, self._SHARED * len(lines))
        offsets = [at - max(hunk.new_start - 1, 0) for at, hunk in zip(places, diff.hunks, strict=True)]
        return number, max(offsets, key=abs, default=0) if diff.old is not None else 0

    def _keep(self, content: Content, lines: list[bytes], weight: int) -> None:
        self._kept[content] = lines
        self._weights[content] = weight
        self._weight += weight
        while self._weight > self.LIMIT and len(self._kept) > 1:
            self._weight -= self._weights[self._kept.popitem(last=False)[0]]


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the paths of one patch just before the patch is applied, in a chain over a tree."""

    chain: StrictChain
    tree: str
    index: int
    given: tuple[Slot, ...]

    def slot(self, path: bytes) -> Slot:
        """Return the mode and content at a path of the patch."""
        return self.given[bisect_left(self.chain.places(self.index), self.chain.touched.place[path])]

    def lines(self, path: bytes) -> list[bytes] | None:
        """Return the lines of a regular file. Return None for any other entry. The caller must not change this list."""
        slot = self.slot(path)
        return self.chain.lines(slot[1]) if slot is not None and slot[0] in (FILE, EXECUTABLE) else None


class StrictChain:
    """Applies a series to many trees. This is a context manager, because git needs a temporary directory.

    An anchored patch names the blobs before and after the patch. If the tree has a different blob, the patch is merged
    three-way from its own blobs, and counts as applied if it merges. Its own blobs must be in the store: run the chain
    over the pin first.
    """

    def __init__(self, objects: Objects, patches: Sequence[PatchFile]) -> None:
        self._objects = objects
        self._patches = patches
        self._contents = _Contents(objects)
        self._picker = Picker(objects)
        self._applier: Applier | None = None
        self._steps: list[tuple[_Step, ...] | None] = []
        parsed = [_parsed(patch) for patch in patches]
        named = [_paths(patch, diffs) for patch, diffs in zip(patches, parsed, strict=True)]
        self.touched = TouchedPaths(objects, {path for paths in named for path in paths})
        place = self.touched.place
        crowded = _crowded(set(place))
        self._places = [tuple(place[path] for path in sorted(paths | _around(paths, crowded))) for paths in named]
        number = 0
        for diffs, paths in zip(parsed, named, strict=True):
            steps = None
            if diffs is not None and not paths & crowded:
                steps = tuple(
                    _Step(number + at, diff, place[diff.old] if diff.old else -1, place[diff.new] if diff.new else -1)
                    for at, diff in enumerate(diffs)
                )
                number += len(steps)
            self._steps.append(steps)
        self._bulky = frozenset(index for index, patch in enumerate(patches) if bulky(patch.data or b""))
        self._given: dict[tuple[int, tuple[Slot, ...]], tuple[_Edits | None, int]] = {}
        self._costly: set[int] = set()
        self._outcomes: dict[tuple[int, tuple[Slot, ...]], Outcome] = {}
        self._tree = ""
        self._replay: Replay[Slot, tuple[bool, int]] = Replay(self._places, self._tried)
        self._supposed: Replay[Slot, tuple[bool, int]] = Replay(self._places, self._tried)
        self._last: tuple[list[Slot], ChainRun] | None = None

    def __enter__(self) -> StrictChain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._applier is not None:
            self._applier.__exit__(kind, error, trace)

    def run(self, tree: str) -> ChainRun:
        """Run the chain over a tree. Raises `MissingObject` if the content of a touched file is not available."""
        base: list[Slot] = list(self.touched.entries(tree))
        if self._last is None or self._last[0] != base:
            self._tree, self._contents.pool = tree, Pool()
            results = self._replay.run(base)
            run = ChainRun(applied=tuple(one[0] for one in results), offset=tuple(one[1] for one in results))
            self._last = base, run
        return self._last[1]

    def supposed(self, tree: str) -> tuple[bool, ...]:
        """Return whether each patch applies in a chain over a hypothetical tree.

        Hypothetical trees have a separate cache, because they may differ greatly from the trees of `run`.
        """
        self._tree, self._contents.pool = tree, Pool()
        return tuple(one[0] for one in self._supposed.run(list(self.touched.entries(tree))))

    def journal(self, tree: str) -> list[Journal | None]:
        """Return the changes of every patch in a chain over a tree. The result for a failing patch is None."""
        run, replay = self.run(tree), self._replay
        return [
            tuple(
                (place, old, new)
                for place, old, new in zip(places, replay.inputs[index], replay.outputs[index], strict=True)
                if old != new
            )
            if run.applied[index]
            else None
            for index, places in enumerate(self._places)
        ]

    def places(self, index: int) -> tuple[int, ...]:
        """Return the indices of the paths that determine the result of a patch, in ascending order."""
        return self._places[index]

    def standing(self, tree: str, index: int) -> Standing:
        """Return the state of a patch's paths just before the patch is applied, in the chain over a tree."""
        self.run(tree)
        return Standing(self, tree, index, self._replay.inputs[index])

    def outcome(self, standing: Standing, index: int) -> Outcome:
        """Apply one patch to the state `standing`, and return the outcome with its reasons."""
        known = self._outcomes.get((index, standing.given))
        if known is not None:
            return known
        tree = self._materialized(standing.tree, index, standing.given).write()
        return apply_patch(self._open(tree), self._patches[index])

    def data(self, index: int) -> bytes:
        """Return the bytes of a patch file. Return no bytes if the file is too large to read."""
        return self._patches[index].data or b""

    def left_to_git(self, index: int) -> bool:
        """Return whether only git reads a patch, because it is too large or was too costly on an earlier tree."""
        return index in self._bulky or index in self._costly

    def steps(self, index: int) -> tuple[FileDiff, ...] | None:
        """Return the file diffs of a patch that is applied here.

        Return None for a patch that is passed to `Applier`.
        """
        steps = self._steps[index]
        return None if steps is None else tuple(step.diff for step in steps)

    def lines(self, content: Content) -> list[bytes]:
        """Return the lines of the given content. The caller must not change this list."""
        return self._contents.lines(content)

    def _tried(self, index: int, given: tuple[Slot, ...]) -> tuple[tuple[Slot, ...], tuple[bool, int]]:
        """Return the slots after a patch, whether the patch applies, and its largest offset."""
        places = self._places[index]
        edits, offset = self._edits(index, places, given)
        if edits is None:
            return given, (False, 0)
        state = dict(zip(places, given, strict=True)) | dict(edits)
        return tuple(state[place] for place in places), (True, offset)

    def _edits(self, index: int, places: tuple[int, ...], given: tuple[Slot, ...]) -> tuple[_Edits | None, int]:
        """Return the changes of a patch by path index, and its largest offset.

        The changes are None if the patch fails.
        """
        steps = self._steps[index]
        if steps is not None:
            try:
                return self._stepped(steps, dict(zip(places, given, strict=True)))
            except TooCostly:
                self._costly.add(index)
            except Unsupported:
                pass
        key = (index, given)
        if key not in self._given:
            self._given[key] = self._handed_on(self._materialized(self._tree, index, given).write(), index, given)
        return self._given[key]

    def _stepped(self, steps: tuple[_Step, ...], state: Mapping[int, Slot]) -> tuple[_Edits | None, int]:
        removed: list[tuple[int, Slot]] = []
        made: list[tuple[int, Slot]] = []
        largest = 0
        fits = True
        for step in steps:
            for place in (step.old, step.new):
                slot = state[place] if place >= 0 else None
                if slot is not None and slot[0] not in (FILE, EXECUTABLE):
                    raise Unsupported("not a regular file", step.diff.line)
            if not fits:
                continue
            old = state[step.old] if step.old >= 0 else None
            if (old is None) is not (step.old < 0) or (
                step.new >= 0 and step.new != step.old and state[step.new] is not None
            ):
                fits = False
                continue
            content: Content | None = old[1] if old is not None else None
            if step.diff.hunks or step.new < 0 or old is None:
                content, offset = self._contents.after(content, step)
                largest = max(largest, offset, key=abs)
                fits = content is not None
            if step.old >= 0 and step.old != step.new:
                removed.append((step.old, None))
            if step.new >= 0 and content is not None:
                made.append((step.new, (step.diff.new_mode or (old[0] if old is not None else FILE), content)))
        return ((*removed, *made), largest) if fits else (None, 0)

    def _handed_on(self, tree: str, index: int, given: tuple[Slot, ...]) -> tuple[_Edits | None, int]:
        """Apply a patch to a tree with `Applier`."""
        patch = self._patches[index]
        if index in self._costly and patch.data is not None:
            outcome = self._open(tree).leave_to_git(patch.data)
        else:
            outcome = apply_patch(self._open(tree), patch)
        self._outcomes[index, given] = outcome
        after = outcome.tree
        if after is None and patch.anchored:
            after = self._merged(tree, patch)
        if after is None:
            return None, 0
        place = self.touched.place
        changes = compare_trees(self._objects, tree, after)
        return tuple((place[change.path], change.new) for change in changes), outcome.offset

    def _merged(self, tree: str, patch: PatchFile) -> str | None:
        """Merge an anchored patch from its blobs, and return the tree.

        Return None if the blobs are not available or the patch does not merge.
        """
        try:
            diffs = parse_diffs(patch.data or b"")
        except Unsupported:
            return None
        there = TreeOverlay(self._objects, tree)
        before, after = (TreeOverlay(self._objects, EMPTY_TREE) for _ in range(2))
        for diff in diffs:
            entry = there.entry(diff.path) if there.obstacle(diff.path) is None else None
            mode = entry[0] if entry is not None and entry[0] in (FILE, EXECUTABLE) else FILE
            for side, name, oid in ((before, diff.old, diff.old_id), (after, diff.new, diff.new_id)):
                if name is not None:
                    if not FULL_ID.match(oid) or not self._objects.has(oid):
                        return None
                    side.put(name, (diff.new_mode or mode) if side is after else mode, oid)
        return self._picker.merge(before.write(), after.write(), tree).tree

    def _open(self, tree: str) -> Applier:
        if self._applier is None:
            self._applier = Applier(self._objects, tree)
        else:
            self._applier.restart(tree)
        return self._applier

    def _materialized(self, tree: str, index: int, given: tuple[Slot, ...]) -> TreeOverlay:
        """Return a tree that contains the given slots at the paths of a patch."""
        overlay = TreeOverlay(self._objects, tree)
        base = self.touched.entries(tree)
        changed = [(place, slot) for place, slot in zip(self._places[index], given, strict=True) if slot != base[place]]
        for place, slot in changed:
            before = base[place]
            if slot is None and before is not None and before[0] != OBSTRUCTED:
                overlay.remove(self.touched.paths[place])
        for place, slot in changed:
            if slot is not None and slot[0] != OBSTRUCTED:
                overlay.put(self.touched.paths[place], slot[0], self._contents.blob(slot[1]))
        return overlay


def _parsed(patch: PatchFile) -> tuple[FileDiff, ...] | None:
    """Return the diffs of a patch. Return None if the patch is passed to `Applier`."""
    if patch.anchored or patch.data is None or bulky(patch.data):
        return None
    try:
        return parse_diffs(patch.data)
    except Unsupported:
        return None


def _paths(patch: PatchFile, diffs: tuple[FileDiff, ...] | None) -> set[bytes]:
    if diffs is not None:
        return _paths_of(diffs)
    if patch.anchored:
        try:
            return _paths_of(parse_diffs(patch.data or b""))
        except Unsupported:
            return set()  # it applies nowhere
    return every_path(patch.data or b"")


def _paths_of(diffs: tuple[FileDiff, ...]) -> set[bytes]:
    return {path for diff in diffs for path in (diff.old, diff.new) if path is not None}


def _crowded(paths: set[bytes]) -> set[bytes]:
    """Return the paths that are a parent directory of another path, or have another path as parent directory.

    If one of the two is created, the other may be removed.
    """
    found: set[bytes] = set()
    for path in paths:
        parent = path
        while b"/" in parent:
            parent = parent.rpartition(b"/")[0]
            if parent in paths:
                found |= {path, parent}
    return found


def _around(paths: set[bytes], crowded: set[bytes]) -> set[bytes]:
    """Return the crowded paths that are parent directories of the given paths, or that are inside them."""
    return {
        other
        for path in paths & crowded
        for other in crowded
        if other.startswith(path + b"/") or path.startswith(other + b"/")
    }
