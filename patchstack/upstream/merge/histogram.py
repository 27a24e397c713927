"""Find the changes between two texts with git's histogram diff, which git uses for merges.

The algorithm is that of xdiff/xhistogram.c. It splits both texts at the common run that contains the rarest line. If
several runs are equally rare, it chooses the longest. An index of the old text stores the positions of its lines and
the result of each region. The next version of the new text differs in a few lines, so the results for most of its
regions are already stored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

CHAIN = 64
"""The maximum number of occurrences of a line that splits a text (max_chain_length in xhistogram.c)."""


_OFTEN, _LEAST = 64, 40_000_000
"""The effort limit of the search. Above the limit, the rest is compared with Myers' diff.

`_OFTEN` is how often a line may be examined on average. `_LEAST` is the number of examinations that are always allowed.
git has no such limit, so its time grows with the square of the number of changes.
"""


class Edit(NamedTuple):
    """A change between an old and a new text.

    It replaces `removed` lines, from line `at` of the old text, with `added` lines, from line `to` of the new text.
    """

    at: int
    removed: int
    to: int
    added: int


_Marks = tuple[bytes, bytes]
"""Whether each line of a region changes: first the old lines, then the new lines."""


class Index:
    """An old text that is compared with many new texts.

    It stores the positions of the lines, and the last result of each region. Comparisons are fastest if equal lines of
    all texts are the same object.
    """

    LIMIT = 16 << 20  # approximate limit in bytes
    _LINE = 10  # overhead in bytes for each line of a stored region

    def __init__(self, lines: Sequence[bytes], *, worth: int = 32) -> None:
        """Index the lines of an old text. A region is stored if it has at least `worth` lines."""
        self.worth = worth
        self.places: dict[bytes, list[int]] = {}
        for number, line in enumerate(lines):
            self.places.setdefault(line, []).append(number)
        self._regions: dict[tuple[int, int], tuple[Sequence[bytes], _Marks]] = {}
        self._size = 0

    def marks(self, first: int, last: int, lines: Sequence[bytes]) -> _Marks | None:
        """Return which lines change between the old lines `first` to `last` and these new lines.

        Return None if the result is not stored.
        """
        known = self._regions.get((first, last))
        return known[1] if known is not None and known[0] == lines else None

    def keep(self, first: int, last: int, lines: Sequence[bytes], marks: _Marks) -> None:
        """Store which lines change in a region, and replace the region's earlier result.

        If the index exceeds its limit, the oldest regions are removed.
        """
        self._forget(first, last)
        self._regions[first, last] = lines, marks
        self._size += self._LINE * (len(lines) + last - first)
        while self._size > self.LIMIT:
            self._forget(*next(iter(self._regions)))

    def _forget(self, first: int, last: int) -> None:
        known = self._regions.pop((first, last), None)
        if known is not None:
            self._size -= self._LINE * (len(known[0]) + last - first)


class _Run(NamedTuple):
    """A run of common lines: its first line in each text, and its length in lines."""

    old: int
    new: int
    length: int


class _Compared:
    """Two texts, and the changes between them found so far."""

    def __init__(self, old: Sequence[bytes], new: Sequence[bytes], index: Index) -> None:
        self.old, self.new, self._index = old, new, index
        self.old_changed, self.new_changed = bytearray(len(old)), bytearray(len(new))
        self._places = list(map(index.places.get, new))
        self._around: dict[tuple[int, int], tuple[int, int]] = {}

    def split(self) -> None:
        """Mark the lines that change."""
        whole = 0, len(self.old), 0, len(self.new)
        pending: list[tuple[int, int, int, int, Sequence[bytes] | None]] = [(*whole, None)]
        left = max(_LEAST, _OFTEN * (len(self.old) + len(self.new)))
        while pending:
            first, last, start, end, lines = pending.pop()
            if lines is not None:  # both parts are finished
                marks = bytes(self.old_changed[first:last]), bytes(self.new_changed[start:end])
                self._index.keep(first, last, lines, marks)
                continue
            if first == last or start == end:
                self._mark(first, last, start, end)
                continue
            if min(last - first, end - start) >= self._index.worth and (first, last, start, end) != whole:
                lines = self.new[start:end]
                known = self._index.marks(first, last, lines)
                if known is not None:
                    self.old_changed[first:last], self.new_changed[start:end] = known
                    continue
                pending.append((first, last, start, end, lines))
            left -= last - first + end - start
            run, common = self._best(first, last, start, end) if left > 0 else (None, True)
            if run is None and common:
                self._classic(first, last, start, end)
            elif run is None:
                self._mark(first, last, start, end)
            else:
                pending.append((first, run.old, start, run.new, None))
                pending.append((run.old + run.length, last, run.new + run.length, end, None))

    def _mark(self, first: int, last: int, start: int, end: int) -> None:
        self.old_changed[first:last] = b"\1" * (last - first)
        self.new_changed[start:end] = b"\1" * (end - start)

    def _classic(self, first: int, last: int, start: int, end: int) -> None:
        """Compare a region with Myers' diff.

        All common lines of the region are too frequent, or the effort limit is reached.
        """
        from patchstack.upstream.merge.text import myers

        # Numbers stand for the lines, because only their equality counts, and they may lack their newlines.
        numbers: dict[bytes, int] = {}
        old, new = (
            b"".join(b"%d\n" % numbers.setdefault(line, len(numbers)) for line in lines)
            for lines in (self.old[first:last], self.new[start:end])
        )
        for edit in myers(old, new):
            at, to = first + edit.at, start + edit.to
            self._mark(at, at + edit.removed, to, to + edit.added)

    def _best(self, first: int, last: int, start: int, end: int) -> tuple[_Run | None, bool]:
        """Return the common run that splits a region, and whether the region has any common line."""
        old, line_places, known = self.old, self._index.places, self._around
        best: tuple[int, int, int] | None = None
        longest = 0
        rarest = CHAIN + 1
        common = False
        at = start
        while at < end:
            found = self._places[at]
            if found is None:
                at += 1
                continue
            low = bisect_left(found, first)
            most = low + rarest
            if most < len(found) and found[most] < last:
                common = True
                at += 1
                continue
            high = bisect_left(found, last, low)
            after = at + 1
            place = low
            while place < high:
                common = True
                here = found[place]
                # The complete common run around two equal lines, and how often its rarest line occurs in the region.
                above, below = known.get((here, at)) or self._followed(here, at)
                above = max(above, first, here - (at - start))
                below = min(below, last, here + (end - at))
                rare, number = high - low, above
                while rare > 1 and number < below:  # git's code stops counting at a line that is unique
                    others = line_places[old[number]]
                    rare = min(rare, bisect_left(others, last) - bisect_left(others, first))
                    number += 1
                after = max(after, at + below - here)
                if below - above > longest or rare < rarest:
                    best, longest, rarest = (above, at - (here - above), below - above), below - above, rare
                place = bisect_right(found, below - 1, place + 1, high)
            at = after
        return _Run(*best) if best is not None else None, common

    def _followed(self, old: int, new: int) -> tuple[int, int]:
        """Return the common run around two equal lines in the complete texts.

        The run is given as its first old line, and the old line after its last. The result is stored, because smaller
        regions need it again.
        """
        shift = new - old
        first, last = max(0, -shift), min(len(self.old), len(self.new) - shift)
        ours, theirs = self.old, self.new
        above, below = old, old + 1
        while above > first and ours[above - 1] == theirs[above + shift - 1]:
            above -= 1
        while below < last and ours[below] == theirs[below + shift]:
            below += 1
        self._around[old, new] = above, below
        return above, below


def histogram(old: Sequence[bytes], new: Sequence[bytes], index: Index | None = None) -> tuple[Edit, ...]:
    """Return the changes between two texts.

    A text is a sequence of lines, all with or all without their newlines. An `index` of the old text saves time.
    """
    compared = _Compared(old, new, Index(old) if index is None else index)
    compared.split()
    changed, added = compared.old_changed, compared.new_changed
    _compact(old, changed, added)
    _compact(new, added, changed)
    return _script(changed, added)


def _script(removed: bytearray, added: bytearray) -> tuple[Edit, ...]:
    """Return the edits for the changed lines of two texts (xdl_build_script)."""
    found: list[Edit] = []
    at = to = 0
    while True:
        next_old, next_new = removed.find(1, at), added.find(1, to)
        gap_old = next_old - at if next_old >= 0 else None
        gap_new = next_new - to if next_new >= 0 else None
        if gap_old is None and gap_new is None:
            return tuple(found)
        gap = min(gap for gap in (gap_old, gap_new) if gap is not None)
        at, to = at + gap, to + gap
        end_old, end_new = _end(removed, at), _end(added, to)
        found.append(Edit(at, end_old - at, to, end_new - to))
        at, to = end_old, end_new


def _end(changed: bytearray, start: int) -> int:
    """Return the end of the group of changed lines that begins at `start`.

    Return `start` if this line does not change.
    """
    if start >= len(changed) or not changed[start]:
        return start
    found = changed.find(0, start)
    return len(changed) if found < 0 else found


def _groups(changed: bytearray) -> list[tuple[int, int, int]]:
    """Return the groups of changed lines.

    Each group is given as the number of unchanged lines before it, its first line, and the line after its last.
    """
    found = []
    passed = end = 0
    while (start := changed.find(1, end)) >= 0:
        passed += start - end
        end = _end(changed, start)
        found.append((passed, start, end))
    return found


def _compact(lines: Sequence[bytes], changed: bytearray, other: bytearray) -> None:
    """Move groups of changed lines down as far as possible, or to a place where the other text changes too.

    This is xdl_change_compact without the indent heuristic.
    """
    there = {passed for passed, _, _ in _groups(other)}
    start, passed = 0, 0
    while (found := changed.find(1, start)) >= 0:
        passed += found - start
        begin, end = found, _end(changed, found)
        while True:
            size = end - begin
            while begin > 0 and lines[begin - 1] == lines[end - 1]:
                begin, end, passed = begin - 1, end - 1, passed - 1
                changed[begin], changed[end] = 1, 0
                while begin > 0 and changed[begin - 1]:
                    begin -= 1
            highest = end
            matching = end if passed in there else -1
            while end < len(lines) and lines[begin] == lines[end]:
                changed[begin], changed[end] = 0, 1
                begin, end, passed = begin + 1, end + 1, passed + 1
                while end < len(lines) and changed[end]:
                    end += 1
                if passed in there:
                    matching = end
            if size == end - begin:
                break
        if end != highest and matching != -1:
            while passed not in there:
                begin, end, passed = begin - 1, end - 1, passed - 1
                changed[begin], changed[end] = 1, 0
                while begin > 0 and changed[begin - 1]:
                    begin -= 1
        start = end
