"""Compute the edits that each patch makes on the pin, usually without comparing whole files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.git.overlay import EXECUTABLE, FILE
from patchstack.git.patch.diff import FileDiff, Hunk
from patchstack.git.patch.effort import Pool, TooCostly
from patchstack.git.patch.hunks import effort_for, place_hunks
from patchstack.upstream.canary.strict_chain import Content, Slot, StrictChain
from patchstack.upstream.merge.edits import NEWLINE, Lines, compare
from patchstack.upstream.merge.histogram import Edit, Index
from patchstack.upstream.merge.text import edits

_INDEXED = 60  # the number of texts whose index is cached
_LOOK = 200  # the number of first lines that are searched for a NUL, which marks a binary file


@dataclass(frozen=True, slots=True)
class PathEdit:
    """A patch's change at one path: the slots before and after, and the edits between their lines.

    `edits` is None if one side is not a text, or if the patch is too large or too costly to read here. `spans` are the
    ranges of the hunks in the old file, including context: the first line, and the line after the last. `spans` is
    empty if the hunks are not placed here, for example because git must apply the patch.
    """

    path: bytes
    old: Slot
    new: Slot
    edits: tuple[Edit, ...] | None
    spans: tuple[tuple[int, int], ...]


class OwnEdits:
    """The edits that each patch makes when its series is applied to the pin."""

    def __init__(self, chain: StrictChain, pin_tree: str) -> None:
        self.chain = chain
        self._journal = chain.journal(pin_tree)
        self._compared: dict[tuple[Content, Content], tuple[Edit, ...]] = {}
        self._indexed: dict[Content, Index] = {}
        self._texts: dict[Content, bool] = {}
        self._pool = Pool()
        self._bulky = frozenset(index for index in range(len(self._journal)) if chain.left_to_git(index))
        self._changes: list[dict[bytes, PathEdit] | None] = [None] * len(self._journal)

    def __len__(self) -> int:
        return len(self._journal)

    def applies(self, index: int) -> bool:
        """Return whether a patch applies to the pin."""
        return self._journal[index] is not None

    def bulky(self, index: int) -> bool:
        """Return whether a patch is too large or too costly to analyse. The edits of such a patch are unknown."""
        return index in self._bulky

    def of(self, index: int) -> Mapping[bytes, PathEdit]:
        """Return the changes of a patch by path. Return no changes if the patch does not apply to the pin."""
        found = self._changes[index]
        if found is None:
            paths = self.chain.touched.paths
            diffs = {diff.path: diff for diff in self.chain.steps(index) or ()}
            found = self._changes[index] = {}
            large = self.bulky(index)
            for place, old, new in self._journal[index] or ():
                found[paths[place]] = self._edit(paths[place], old, new, diffs.get(paths[place]), large=large)
        return found

    def lines(self, slot: Slot) -> Lines | None:
        """Return the lines of the text in a slot. Return None if the content is not a text."""
        if slot is None or slot[0] not in (FILE, EXECUTABLE):
            return None
        found = self.chain.lines(slot[1])
        text = self._texts.get(slot[1])
        if text is None:
            text = self._texts[slot[1]] = b"\0" not in b"".join(found[:_LOOK])
        return found if text else None

    def between(self, old: Slot, new: Slot) -> tuple[Edit, ...]:
        """Return the edits between two texts.

        Return no edits if either is not a text file. Each pair is compared only once.
        """
        before, after = self.lines(old), self.lines(new)
        if old is None or new is None or before is None or after is None:
            return ()
        key = (old[1], new[1])
        if key not in self._compared:
            self._compared[key] = compare(before, after, self._index(old[1], before))
        return self._compared[key]

    def _index(self, content: Content, lines: Lines) -> Index:
        """Return the index of a text. It is cached, because one text is usually compared with many others."""
        found = self._indexed.pop(content, None)
        if found is None:
            found = Index(lines)
            if len(self._indexed) >= _INDEXED:
                del self._indexed[next(iter(self._indexed))]
        self._indexed[content] = found
        return found

    def _edit(self, path: bytes, old: Slot, new: Slot, diff: FileDiff | None, *, large: bool) -> PathEdit:
        if large:  # the files of a large patch may be large too, so their lines are not read
            return PathEdit(path, old, new, None, ())
        before, after = self.lines(old), self.lines(new)
        if before is None or after is None:
            return PathEdit(path, old, new, None, ())
        if diff is None or diff.old != diff.new:
            return PathEdit(path, old, new, compare(before, after), ())
        try:
            places = place_hunks(list(before), diff.hunks, effort_for(before, diff.hunks, self._pool))
        except TooCostly:
            return PathEdit(path, old, new, None, ())
        spans: list[tuple[int, int]] = []
        found: list[Edit] = []
        shift = 0
        for place, hunk in sorted(zip(places, diff.hunks, strict=True), key=lambda pair: pair[0]):
            start, end = place - shift, place - shift + len(hunk.before)
            spans.append((start, end))
            here = _within(hunk, start, place)
            found += here
            shift += len(hunk.after) - len(hunk.before)
        if _replayed(before, after, found):
            return PathEdit(path, old, new, tuple(found), tuple(spans))
        return PathEdit(path, old, new, compare(before, after), tuple(spans))


def is_text(data: bytes) -> bool:
    """Return whether the data counts as text: its first lines contain no NUL."""
    return b"\0" not in b"".join(data.split(b"\n", _LOOK)[:_LOOK])


def _within(hunk: Hunk, start: int, place: int) -> list[Edit]:
    """Return the edits of one hunk.

    The first line of the hunk is `start` in the old file and `place` in the new file.
    """
    old, new = ((*lines, b"") for lines in (hunk.before, hunk.after))
    return [
        Edit(edit.at + start, edit.removed, edit.to + place, edit.added)
        for edit in edits(NEWLINE.join(old), NEWLINE.join(new))
    ]


def _replayed(before: Lines, after: Lines, found: list[Edit]) -> bool:
    """Return whether edits turn one text into the other.

    The edits may be wrong if a last line has no newline, or if hunks are out of order.
    """
    at = to = 0
    for edit in found:
        if edit.at < at or edit.at - at != edit.to - to:
            return False
        at, to = edit.at + edit.removed, edit.to + edit.added
    return len(before) - at == len(after) - to and before[at:] == after[to:]
