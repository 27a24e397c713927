"""Merge a series onto another tree three-way, as edits instead of texts, so that no whole file is compared twice.
Upstream's changes to a file since the pin are compared once. For each next patch these edits are only shifted, or
combined with the lines of a skipped patch; only the few lines of touching edits are compared again. The merge itself is
that of `text.merge_texts`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from patchstack.upstream.merge.histogram import Edit, Index, histogram
from patchstack.upstream.merge.text import Change, Side, overlay, refine

Lines = Sequence[bytes]
"""A text split at its newlines, without them: the last item is what follows the last newline."""

NEWLINE = b"\n"

_AT = attrgetter("at")


@dataclass(frozen=True, slots=True)
class MergedEdits:
    """The result of merging a patch's edits into another version of a text. `clean` is whether there were no conflicts,
    `nothing` whether the patch changes nothing there; `lines` are the merged text, `left` the edits from the patch's
    own result to it.
    """

    clean: bool
    nothing: bool
    lines: Lines
    left: tuple[Edit, ...]


def compare(old: Lines, new: Lines, index: Index | None = None) -> tuple[Edit, ...]:
    """Return the edits between two texts given as lines. `index` is an index of the old text, to save time."""
    if not old or not new:
        return (Edit(0, len(old), 0, len(new)),) if old or new else ()
    if old == new:
        return ()
    return histogram(old, new, index)


def merge_edits(
    base: Lines, ours: Lines, theirs: Lines, upstream: tuple[Edit, ...], patch: tuple[Edit, ...]
) -> MergedEdits:
    """Merge a patch's edits (base to theirs) with upstream's (base to ours).

    A conflict is settled in `lines`: if both sides only inserted, both insertions are kept, ours first; else ours is
    kept.
    """
    if not upstream:
        return MergedEdits(clean=True, nothing=not patch, lines=theirs, left=())
    if not patch:
        return MergedEdits(clean=True, nothing=True, lines=ours, left=upstream)
    if _apart(upstream, patch):
        return _beside(ours, theirs, upstream, patch)
    changes = list(refine(overlay(upstream, patch, base, ours, theirs), ours, theirs, NEWLINE))
    clean = all(change.side is not Side.BOTH for change in changes)
    nothing = all(change.side in (Side.OURS, Side.SAME) for change in changes)
    merged: list[bytes] = []
    left: list[Edit] = []
    at = 0
    for change in changes:
        start, count = change.ours
        merged += ours[at:start]
        at = start + count
        _take(change, ours, theirs, merged, left)
    merged += ours[at:]
    return MergedEdits(clean=clean, nothing=nothing, lines=merged, left=tuple(left))


def _apart(upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> bool:
    """Return whether no edit of one side touches one of the other, which is the usual case."""
    for edit in patch:
        after = bisect_left(upstream, edit.at, key=_AT)
        if after and upstream[after - 1].at + upstream[after - 1].removed >= edit.at:
            return False
        if after < len(upstream) and upstream[after].at <= edit.at + edit.removed:
            return False
    return True


def _beside(ours: Lines, theirs: Lines, upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> MergedEdits:
    """Merge edits that do not touch each other."""
    merged: list[bytes] = []
    left: list[Edit] = []
    at = grown = done = 0
    ahead = len(ours) - len(theirs) + sum(edit.added - edit.removed for edit in patch)
    for edit in patch:
        after = bisect_left(upstream, edit.at, done, key=_AT)
        left += _moved(upstream[done:after], grown, grown)
        done = after
        here = edit.at + (upstream[after].to - upstream[after].at if after < len(upstream) else ahead)
        merged += ours[at:here]
        merged += theirs[edit.to : edit.to + edit.added]
        at = here + edit.removed
        grown += edit.added - edit.removed
    left += _moved(upstream[done:], grown, grown)
    merged += ours[at:]
    return MergedEdits(clean=True, nothing=False, lines=merged, left=tuple(left))


def _moved(found: Sequence[Edit], at: int, to: int) -> Sequence[Edit]:
    """Return the edits with their lines in the old text shifted by `at`, and those in the new text by `to`."""
    if not at and not to:
        return found
    return [Edit(one.at + at, one.removed, one.to + to, one.added) for one in found]


def _take(change: Change, ours: Lines, theirs: Lines, merged: list[bytes], left: list[Edit]) -> None:
    """Add one place to the merged text, and to the edits that lead to it from the patch's result."""
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

    `upstream` leads from the patch's base to our text, `patch` from that base to its result.
    """
    if _apart(upstream, patch):
        return _both(upstream, patch)
    found: list[Edit] = []
    grown = ahead = 0  # the line shifts of the patch's result and of our text against the base
    done = place = 0
    while place < len(patch):
        start, end = patch[place].at, patch[place].at
        first = bisect_left(upstream, start, done, key=_AT)
        while first > done and upstream[first - 1].at + upstream[first - 1].removed >= start:
            first -= 1
            start = upstream[first].at
        found += _moved(upstream[done:first], grown, 0)
        ahead += sum(edit.added - edit.removed for edit in upstream[done:first])
        # Edits of either side that touch are compared again.
        there, here, done = start + grown, start + ahead, first
        while True:
            if done < len(upstream) and upstream[done].at <= end:
                end = max(end, upstream[done].at + upstream[done].removed)
                ahead += upstream[done].added - upstream[done].removed
                done += 1
            elif place < len(patch) and patch[place].at <= end:
                end = max(end, patch[place].at + patch[place].removed)
                grown += patch[place].added - patch[place].removed
                place += 1
            else:
                break
        for edit in compare(theirs[there : end + grown], ours[here : end + ahead]):
            found.append(Edit(edit.at + there, edit.removed, edit.to + here, edit.added))
    return (*found, *_moved(upstream[done:], grown, 0))


def _both(upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return upstream's edits relative to the patch's result, and the reverse of the patch's own, if they do not
    touch."""
    found: list[Edit] = []
    grown = ahead = done = 0
    for edit in patch:
        after = bisect_left(upstream, edit.at, done, key=_AT)
        found += _moved(upstream[done:after], grown, 0)
        ahead += sum(one.added - one.removed for one in upstream[done:after])
        done = after
        found.append(Edit(edit.to, edit.added, edit.at + ahead, edit.removed))
        grown += edit.added - edit.removed
    return (*found, *_moved(upstream[done:], grown, 0))
