"""Merge a series onto another tree three-way, as edits instead of texts, so that no whole file is compared twice.
Upstream's changes to a file since the pin are compared once. For each next patch these edits are only shifted, or
combined with the lines of a skipped patch; only the few lines of touching edits are compared again. The merge itself is
that of `text.merge_texts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.upstream.merge.histogram import Edit, Places, histogram
from patchstack.upstream.merge.text import SHORT, Change, Side, myers, overlay, refine

Lines = Sequence[bytes]
"""A text split at its newlines, without them: the last item is what follows the last newline."""

NEWLINE = b"\n"


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


def compare(old: Lines, new: Lines, index: Places | None = None) -> tuple[Edit, ...]:
    """Return the edits between two texts given as lines. `index` has the positions of the old text's lines, to save
    time."""
    if not old or not new:
        return (Edit(0, len(old), 0, len(new)),) if old or new else ()
    if old == new:
        return ()
    return histogram(old, new, myers(_text(old), _text(new)) if len(old) > SHORT else None, index)


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
    found = iter(upstream)
    one = next(found, None)
    for edit in patch:
        while one is not None and one.at + one.removed < edit.at:
            one = next(found, None)
        if one is None:
            return True
        if one.at <= edit.at + edit.removed:
            return False
    return True


def _beside(ours: Lines, theirs: Lines, upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> MergedEdits:
    """Merge edits that do not touch each other."""
    merged: list[bytes] = []
    left: list[Edit] = []
    at = grown = 0
    pending = iter(patch)
    edit = next(pending, None)
    for one in upstream:
        while edit is not None and edit.at < one.at:
            here = edit.at + one.to - one.at
            merged += ours[at:here]
            merged += theirs[edit.to : edit.to + edit.added]
            at = here + edit.removed
            grown += edit.added - edit.removed
            edit = next(pending, None)
        left.append(Edit(one.at + grown, one.removed, one.to + grown, one.added))
    ahead = len(ours) - len(theirs) + sum(edit.added - edit.removed for edit in patch)
    while edit is not None:
        merged += ours[at : edit.at + ahead]
        merged += theirs[edit.to : edit.to + edit.added]
        at = edit.at + ahead + edit.removed
        edit = next(pending, None)
    merged += ours[at:]
    return MergedEdits(clean=True, nothing=False, lines=merged, left=tuple(left))


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
    pieces = sorted(
        [(edit.at, edit.at + edit.removed, 0, edit) for edit in patch]
        + [(edit.at, edit.at + edit.removed, 1, edit) for edit in upstream],
        key=lambda piece: piece[:3],
    )
    groups: list[tuple[int, int, list[tuple[int, Edit]]]] = []
    for start, end, side, edit in pieces:
        if groups and start <= groups[-1][1]:
            last = groups[-1]
            groups[-1] = (last[0], max(last[1], end), [*last[2], (side, edit)])
        else:
            groups.append((start, end, [(side, edit)]))
    found: list[Edit] = []
    shift = [0, 0]  # the line shifts of the patch's result and of our text against the base
    for start, end, members in groups:
        grown = [sum(edit.added - edit.removed for side, edit in members if side == one) for one in (0, 1)]
        there, here = start + shift[0], start + shift[1]
        theirs_end, ours_end = end + shift[0] + grown[0], end + shift[1] + grown[1]
        shift = [shift[0] + grown[0], shift[1] + grown[1]]
        if all(side == 1 for side, _ in members):
            found += [Edit(edit.at - start + there, edit.removed, edit.to, edit.added) for _, edit in members]
            continue
        old, new = theirs[there:theirs_end], ours[here:ours_end]
        for edit in compare(old, new):
            found.append(Edit(edit.at + there, edit.removed, edit.to + here, edit.added))
    return tuple(found)


def _both(upstream: tuple[Edit, ...], patch: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return upstream's edits relative to the patch's result, and the reverse of the patch's own, if they do not
    touch."""
    found: list[Edit] = []
    grown = ahead = 0
    pending = iter(upstream)
    one = next(pending, None)
    for edit in patch:
        while one is not None and one.at < edit.at:
            found.append(Edit(one.at + grown, one.removed, one.to, one.added))
            ahead += one.added - one.removed
            one = next(pending, None)
        found.append(Edit(edit.to, edit.added, edit.at + ahead, edit.removed))
        grown += edit.added - edit.removed
    while one is not None:
        found.append(Edit(one.at + grown, one.removed, one.to, one.added))
        one = next(pending, None)
    return tuple(found)


def _text(lines: Lines) -> bytes:
    return NEWLINE.join(lines) + NEWLINE if lines else b""
