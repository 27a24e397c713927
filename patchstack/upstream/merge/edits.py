"""Merge a series three-way onto another tree, with edits instead of texts.

Complete files are compared only once: upstream's version of each file with the version at the pin. The result is
upstream's edits. If a patch merges, upstream's edits are only shifted. If a patch is skipped, the reverse of the
patch's edits is added to upstream's edits. Only the few lines of touching edits are compared again. The merge produces
the same result as `text.merge_texts`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from patchstack.upstream.merge.histogram import Edit, Index, histogram
from patchstack.upstream.merge.text import Change, Side, overlay, refine

Lines = Sequence[bytes]
"""A text split at its newlines. Lines do not include the newline. The last item is the text after the last newline."""

NEWLINE = b"\n"

_AT = attrgetter("at")
_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class MergedEdits:
    """The result of merging a patch's edits into a different version of a text.

    `clean` is true if there were no conflicts. `nothing` is true if the patch changes nothing in this version. `lines`
    are the merged text. `left` are the edits from the patch's own result to the merged text.
    """

    clean: bool
    nothing: bool
    lines: Lines
    left: tuple[Edit, ...]


def compare(old: Lines, new: Lines, index: Index | None = None) -> tuple[Edit, ...]:
    """Return the edits between two texts that are given as lines. An `index` of the old text saves time."""
    if not old or not new:
        return (Edit(0, len(old), 0, len(new)),) if old or new else ()
    if old == new:
        return ()
    return histogram(old, new, index)


def merge_edits(ours: Lines, theirs: Lines, upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> MergedEdits:
    """Merge a patch's edits (base to theirs) with upstream's edits (base to ours).

    In the merged `lines`, conflicts are settled. If both sides only inserted lines, both insertions are kept, with that
    of `ours` first. Otherwise, the lines of `ours` are kept.
    """
    if not upstream:
        return MergedEdits(clean=True, nothing=not patch, lines=theirs, left=())
    if not patch:
        return MergedEdits(clean=True, nothing=True, lines=ours, left=upstream)
    clean = nothing = True
    merged: list[bytes] = []
    left: list[Edit] = []
    at = passed = grown = 0  # counts: merged lines of ours, merged edits of upstream, lines that the patch has added
    for first, done, begun, ended in _places(upstream, patch):
        left += _moved(upstream[passed:first], grown, len(merged) - at)
        passed = done
        if first == done:  # no edit of upstream touches this place
            edit = patch[begun]
            here = edit.at + _shift(upstream, first)
            merged += ours[at:here]
            merged += theirs[edit.to : edit.to + edit.added]
            at = here + edit.removed
            nothing = False
        else:
            changes = overlay(upstream[first:done], patch[begun:ended], ours, theirs)
            for change in refine(changes, ours, theirs, NEWLINE):
                clean = clean and change.side is not Side.BOTH
                nothing = nothing and change.side in (Side.OURS, Side.SAME)
                start, count = change.ours
                merged += ours[at:start]
                at = start + count
                _take(change, ours, theirs, merged, left)
        grown = _shift(patch, ended)
    left += _moved(upstream[passed:], grown, len(merged) - at)
    merged += ours[at:]
    return MergedEdits(clean=clean, nothing=nothing, lines=merged, left=tuple(left))


def _places(upstream: Sequence[Edit], patch: Sequence[Edit]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the places that a patch changes.

    Each place is given as two half-open ranges of indices: its upstream edits, and its patch edits. The edits of one
    place touch each other, and no other edit. A place may have no upstream edits.
    """
    done = place = 0
    while place < len(patch):
        begun, start = place, patch[place].at
        end = start
        first = bisect_left(upstream, start, done, key=_AT)
        while first > done and _end(upstream[first - 1]) >= start:
            first -= 1
            start = upstream[first].at
        done = first
        while True:
            if done < len(upstream) and upstream[done].at <= end:
                end = max(end, _end(upstream[done]))
                done += 1
            elif place < len(patch) and patch[place].at <= end:
                end = max(end, _end(patch[place]))
                place += 1
            else:
                break
        yield first, done, begun, place


def _shift(found: Sequence[Edit], count: int) -> int:
    """Return by how many lines a text has grown after the first `count` edits. The result can be negative."""
    if not count:
        return 0
    last = found[count - 1]
    return last.to + last.added - last.at - last.removed


def _moved(found: Sequence[Edit], at: int, to: int) -> Sequence[Edit]:
    """Return the edits with shifted lines.

    Their lines in the old text are shifted by `at`, and their lines in the new text by `to`.
    """
    if not at and not to:
        return found
    # `Edit(...)` takes twice as long, and a merge shifts most of upstream's edits.
    return [_new(Edit, (first + at, removed, second + to, added)) for first, removed, second, added in found]


def _take(change: Change, ours: Lines, theirs: Lines, merged: list[bytes], left: list[Edit]) -> None:
    """Add one changed place to the merged text, and to the edits from the patch's result to the merged text."""
    (start, count), (there, their_count) = change.ours, change.theirs
    here = len(merged)
    if change.side is Side.THEIRS:
        merged += theirs[there : there + their_count]
        return
    merged += ours[start : start + count]
    if change.side is Side.BOTH and not change.base[1]:
        left.append(Edit(there, 0, here, count))
        merged += theirs[there : there + their_count]
    elif change.side is not Side.SAME:
        left.append(Edit(there, their_count, here, count))


def without(theirs: Lines, ours: Lines, upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return the edits from a patch's result to our text, which does not include the patch.

    `upstream` are the edits from the patch's base to our text. `patch` are the edits from the base to the patch's
    result.
    """
    places = list(_places(upstream, patch))
    apart = all(first == done for first, done, _, _ in places)
    found: list[Edit] = []
    passed = grown = 0  # counts: merged edits of upstream, and lines that the patch has added
    for first, done, begun, ended in places:
        found += _moved(upstream[passed:first], grown, 0)
        passed = done
        start = patch[begun].at if first == done else min(upstream[first].at, patch[begun].at)
        there, here = start + grown, start + _shift(upstream, first)
        grown = _shift(patch, ended)
        if apart:  # no edits touch each other, so this is the reverse of the patch's edit
            found.append(Edit(there, patch[begun].added, here, patch[begun].removed))
            continue
        end = _end(patch[ended - 1]) if first == done else max(_end(upstream[done - 1]), _end(patch[ended - 1]))
        for edit in compare(theirs[there : end + grown], ours[here : end + _shift(upstream, done)]):
            found.append(Edit(edit.at + there, edit.removed, edit.to + here, edit.added))
    return (*found, *_moved(upstream[passed:], grown, 0))


def _end(edit: Edit) -> int:
    return edit.at + edit.removed
