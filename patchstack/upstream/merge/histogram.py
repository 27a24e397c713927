"""Find the changes between two texts with git's histogram diff, which its merges use. The algorithm is that of
xdiff/xhistogram.c: the common run with the rarest line, and of those the longest, splits the texts in two. Reading both
texts for every split is slow in Python. So a Myers diff by libgit2 finds long runs first, and the line counts of a
whole text are kept between comparisons. Neither affects the result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CHAIN = 64
"""A line that occurs more often than this does not split a text (xhistogram.c, max_chain_length)."""


class Edit(NamedTuple):
    """A change of one side: `removed` lines from line `at` of the old text, `added` from line `to` of the new one."""

    at: int
    removed: int
    to: int
    added: int


Places = dict[bytes, list[int]]
"""The positions of every line of a text."""


def places(lines: Iterable[bytes]) -> Places:
    """Return where every line of a text is."""
    found: Places = {}
    for number, line in enumerate(lines):
        found.setdefault(line, []).append(number)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of common lines: its first line in each text, and its length."""

    old: int
    new: int
    count: int


class _Compared:
    """Two texts, with the common runs that the Myers diff found."""

    def __init__(self, old: Sequence[bytes], new: Sequence[bytes], known: Sequence[Edit] | None, index: Places) -> None:
        self.old, self.new, self._index = old, new, index
        self.old_changed, self.new_changed = bytearray(len(old)), bytearray(len(new))
        self._runs: list[_Run] = []
        at = to = 0
        for edit in (*known, Edit(len(old), 0, len(new), 0)) if known is not None else ():
            if edit.at > at:
                self._runs.append(_Run(at, to, edit.at - at))
            at, to = edit.at + edit.removed, edit.to + edit.added
        self._starts = [run.new for run in self._runs]

    def split(self) -> None:
        """Mark the lines that change."""
        pending = [(0, len(self.old), 0, len(self.new))]
        while pending:
            first, last, start, end = pending.pop()
            if first == last or start == end:
                self._mark(first, last, start, end)
                continue
            run, common = self._best(first, last, start, end)
            if run is None and common:
                self._classic(first, last, start, end)
            elif run is None:
                self._mark(first, last, start, end)
            else:
                pending.append((first, run.old, start, run.new))
                pending.append((run.old + run.count, last, run.new + run.count, end))

    def _mark(self, first: int, last: int, start: int, end: int) -> None:
        self.old_changed[first:last] = b"\1" * (last - first)
        self.new_changed[start:end] = b"\1" * (end - start)

    def _classic(self, first: int, last: int, start: int, end: int) -> None:
        """Compare a region with Myers, because all its common lines are too frequent."""
        from patchstack.upstream.merge.text import myers

        for edit in myers(b"".join(self.old[first:last]), b"".join(self.new[start:end])):
            at, to = first + edit.at, start + edit.to
            self._mark(at, at + edit.removed, to, to + edit.added)

    def _best(self, first: int, last: int, start: int, end: int) -> tuple[_Run | None, bool]:
        """Return the common run that splits a region, and whether the region has any common line."""
        best: _Run | None = None
        rarest = CHAIN + 1
        common = False
        at = start
        while at < end:
            after = at + 1
            found = self._index.get(self.new[at], ())
            low, high = bisect_left(found, first), bisect_left(found, last)
            count = high - low
            if count:
                common = True
            if not count or count > rarest:
                at = after
                continue
            place = low
            while place < high:
                run, rare = self._extended(found[place], at, count, (first, last, start, end))
                after = max(after, run.new + run.count)
                if best is None or run.count > best.count or rare < rarest:
                    best, rarest = run, rare
                place = bisect_right(found, run.old + run.count - 1, place + 1, high)
            at = after
        return best, common

    def _extended(self, old: int, new: int, count: int, region: tuple[int, int, int, int]) -> tuple[_Run, int]:
        """Return the whole common run around two equal lines, and how often its rarest line is in the region."""
        first, last, start, end = region
        known = self._runs[max(bisect_right(self._starts, new) - 1, 0)] if self._runs else None
        above, below, to = old, old + 1, new + 1
        if known is not None and known.new <= new < known.new + known.count and known.old - known.new == old - new:
            above = max(known.old, first, old - (new - start))
            below = min(known.old + known.count, last, old + (end - new))
            to = new + below - old
        begin = new - (old - above)
        while above > first and begin > start and self.old[above - 1] == self.new[begin - 1]:
            above -= 1
            begin -= 1
        while below < last and to < end and self.old[below] == self.new[to]:
            below += 1
            to += 1
        rare = count
        # git's code counts lines until one is unique.
        for number in range(above, below) if rare > 1 else ():
            found = self._index[self.old[number]]
            rare = min(rare, bisect_left(found, last) - bisect_left(found, first))
            if rare == 1:
                break
        return _Run(above, begin, below - above), rare


def histogram(
    old: Sequence[bytes], new: Sequence[bytes], known: Sequence[Edit] | None = None, index: Places | None = None
) -> tuple[Edit, ...]:
    """Return the changes between two texts, given as lines with their newlines.

    `known` are the changes found by any diff, `index` has the positions of the old text's lines. Both only save time.
    """
    compared = _Compared(old, new, known, places(old) if index is None else index)
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
    """Return the end of the group of changed lines that starts at a line: the line itself, if it is not changed."""
    if start >= len(changed) or not changed[start]:
        return start
    found = changed.find(0, start)
    return len(changed) if found < 0 else found


def _groups(changed: bytearray) -> list[tuple[int, int, int]]:
    """Return the groups of changed lines: the number of unchanged lines before each, its first line, and the one after
    its last."""
    found = []
    passed = end = 0
    while (start := changed.find(1, end)) >= 0:
        passed += start - end
        end = _end(changed, start)
        found.append((passed, start, end))
    return found


def _compact(lines: Sequence[bytes], changed: bytearray, other: bytearray) -> None:
    """Slide groups of changed lines as far down as they go, or to where the other text changes too
    (xdl_change_compact without the indent heuristic)."""
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
