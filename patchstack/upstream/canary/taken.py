"""Find the hunks of a patch that upstream's tree contains.

A tree contains a hunk if it has all lines that the hunk adds, and none of the lines that the hunk removes.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from patchstack.git.overlay import Entry
from patchstack.git.patch.diff import FileDiff, Hunk, Unsupported
from patchstack.git.patch.effort import SPARE, Effort, Pool
from patchstack.git.patch.hunks import effort_for, fits_alone, place_hunks
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.similarity import says_something
from patchstack.upstream.merge.edits import Lines
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch_edits import PathEdit

_AT = attrgetter("at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The parts of a patch that a tree contains.

    `some` is true if the tree contains at least one hunk with significant lines. `remains` describe the hunks that the
    tree lacks.
    """

    some: bool
    remains: tuple[str, ...]


class TakenHunks:
    """Compares the patches of a series with upstream trees, hunk by hunk."""

    def __init__(self, diagnoser: Diagnoser) -> None:
        self._diagnoser = diagnoser
        self._own = diagnoser.own
        self.pool = Pool(5 * SPARE)
        self._diffs: dict[int, dict[bytes, FileDiff]] = {}  # for the last patch only

    def of(self, tree: str, index: int) -> Taken:
        """Return the parts of one patch that a tree contains. The patch must apply to the pin."""
        there = self._diagnoser.chain.touched.entries(tree)
        moved = self._diagnoser.moved(tree)
        some, remains = False, []
        for path, change in self._own.of(index).items():
            here = moved[path][1] if path in moved else there[self._diagnoser.chain.touched.place[path]]
            for label, taken, telling in self._parts(path, change, here, index):
                some = some or (taken and telling)
                if not taken:
                    remains.append(label)
        return Taken(some=some, remains=tuple(remains))

    def _parts(self, path: bytes, change: PathEdit, here: Entry | None, index: int) -> Iterator[tuple[str, bool, bool]]:
        """Yield the parts of a change to one file.

        Each part is given as its name, whether the tree contains it, and whether it is significant.
        """
        shown = path.decode("utf-8", "replace")
        if change.new is None:
            yield f"{shown}: the removal of the file", here is None, True
            return
        if self._diagnoser.own.bulky(index):
            yield f"{shown}: the {'new file' if change.old is None else 'new content'}", here == change.new, True
            return
        if change.old is not None and change.old[0] != change.new[0]:
            yield f"{shown}: the mode {change.new[0]:o}", here is not None and here[0] == change.new[0], False
        lines, after = self._own.lines(here), self._own.lines(change.new)
        if change.old is None:
            if after is None or lines is None:
                yield f"{shown}: the new file", here == change.new, True
            else:
                yield f"{shown}: the new file", _contains(lines, after), any(map(says_something, after))
            return
        before = self._own.lines(change.old)
        if before is None or after is None or change.edits is None:
            yield f"{shown}: the new content", here is not None and here[1] == change.new[1], True
            return
        present = frozenset(lines or ())
        theirs = functools.cache(lambda: self._own.between(change.old, here))
        hunks = self._hunks(path, change, index)
        effort = effort_for(lines or (), [hunk for _, _, hunk in hunks if hunk is not None], self.pool)
        for number, (start, end, hunk) in enumerate(hunks, 1):
            inside = change.edits[bisect_left(change.edits, start, key=_AT) : bisect_right(change.edits, end, key=_AT)]
            edits = [edit for edit in inside if edit.at + edit.removed <= end]
            header = f" ({hunk.header.decode('ascii', 'replace')})" if hunk is not None else f" (line {start + 1})"
            changed = [line for edit in edits for line in _changed(edit, before, after)]
            # Most hunks add a line that the file does not contain. No diff is needed for them.
            possible = all(present.issuperset(after[edit.to : edit.to + edit.added]) for edit in edits)
            taken = (
                lines is not None
                and possible
                and (
                    all(self._has(path, edit, before, after, lines, theirs(), index) for edit in edits)
                    or (hunk is not None and applies_backwards(lines, (hunk,), effort))
                )
            )
            yield f"{shown}: hunk {number}{header}", taken, any(map(says_something, changed))

    def _hunks(self, path: bytes, change: PathEdit, index: int) -> list[tuple[int, int, Hunk | None]]:
        """Return the hunks of a change, each with its range of lines in the old file.

        If the hunks of the patch are unknown, return the edits of the change.
        """
        if index not in self._diffs:
            self._diffs = {index: {diff.path: diff for diff in self._diagnoser.chain.steps(index) or ()}}
        diff = self._diffs[index].get(path)
        if diff is not None and len(diff.hunks) == len(change.spans):
            hunks = sorted(diff.hunks, key=lambda hunk: hunk.new_start)
            return [(start, end, hunk) for (start, end), hunk in zip(change.spans, hunks, strict=True)]
        return [(edit.at, edit.at + edit.removed, None) for edit in change.edits or ()]

    def _has(
        self, path: bytes, edit: Edit, before: Lines, after: Lines, here: Lines, theirs: Sequence[Edit], index: int
    ) -> bool:
        """Return whether a text contains the result of one edit.

        The result must be at the place to which upstream's changes moved the edit.
        """
        start, end = _region(edit, theirs)
        place = list(here[start:end])
        added = list(after[edit.to : edit.to + edit.added])
        removed = [line for line in before[edit.at : edit.at + edit.removed] if line not in added]
        if not any(map(says_something, _changed(edit, before, after))):
            return place == added
        if not added and self._diagnoser.ownership.of_lines(path, index, edit.at, edit.at + edit.removed):
            return False  # the edit removes lines that the series added, which were never in upstream
        return _contains(place, added) and not any(says_something(line) and line in place for line in removed)


def applies_backwards(lines: Lines, hunks: Sequence[Hunk], effort: Effort) -> bool:
    """Return whether hunks apply to a text in reverse, as with `git apply --reverse`, and no hunk applies forwards.

    Return False if the search needs more than `effort`.
    """
    text = list(lines)
    turned = tuple(_reversed(hunk) for hunk in hunks)
    try:
        if len(turned) == 1:
            return fits_alone(text, turned[0], effort) and not fits_alone(text, hunks[0], effort)
        if len(place_hunks(list(text), turned, effort)) < len(turned):
            return False
        return not any(fits_alone(text, hunk, effort) for hunk in hunks)
    except Unsupported:
        return False


def _region(edit: Edit, theirs: Sequence[Edit]) -> tuple[int, int]:
    """Return the range that corresponds to an edit's old lines in a different version of the text.

    `theirs` are the edits of that version. The range includes those edits that touch the lines.
    """
    first, last = edit.at, edit.at + edit.removed
    shift = 0
    start: int | None = None
    for one in theirs:
        if one.at > last:
            break
        if one.at + one.removed >= first and start is None:
            start = min(first + shift, one.to)
        shift += one.added - one.removed
    touching = [one for one in theirs if one.at <= last and one.at + one.removed >= first]
    end = last + shift
    if touching:
        end = max(end, touching[-1].to + touching[-1].added)
    return (first + shift if start is None else start), end


def _contains(lines: Sequence[bytes], wanted: Sequence[bytes]) -> bool:
    """Return whether the wanted lines occur in `lines` in the same order."""
    found = iter(lines)
    return all(line in found for line in wanted)


def _changed(edit: Edit, before: Lines, after: Lines) -> list[bytes]:
    return [*before[edit.at : edit.at + edit.removed], *after[edit.to : edit.to + edit.added]]


def _reversed(hunk: Hunk) -> Hunk:
    return replace(
        hunk,
        old_start=hunk.new_start,
        new_start=hunk.old_start,
        before=hunk.after,
        after=hunk.before,
        before_no_newline=hunk.after_no_newline,
        after_no_newline=hunk.before_no_newline,
    )
