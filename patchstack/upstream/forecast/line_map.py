"""Map a range of lines of a text to an earlier or later version."""

from __future__ import annotations

from collections.abc import Iterable

from patchstack.upstream.merge.histogram import Edit

Range = tuple[int, int]
"""A range of lines, counted from 0: the first line, and the line after the last.

If both are equal, the range is a place between two lines.
"""


def before(range_: Range, edits: Iterable[Edit]) -> Range:
    """Return the lines of the old text that became a range of the new text.

    If an edit overlaps the range, all old lines of the edit are included. The result for inserted lines is an empty
    range.
    """
    start, end = range_
    low, high = start, end
    for edit in edits:
        if edit.to + edit.added <= start:
            low += edit.removed - edit.added
            high += edit.removed - edit.added
        elif edit.to < end:
            low -= max(0, start - edit.to)
            high += edit.removed - edit.added + max(0, edit.to + edit.added - end)
    return low, max(low, high)


def behind(range_: Range, edits: Iterable[Edit]) -> Range:
    """Return the lines of the new text that a range of the old text became."""
    return before(range_, (Edit(edit.to, edit.added, edit.at, edit.removed) for edit in edits))


def distance(edit: Edit, range_: Range) -> int:
    """Return the number of lines between an edit and a range of the new text. Return 0 if the two touch or overlap."""
    return max(0, edit.to - range_[1], range_[0] - edit.to - edit.added)
