"""Merge two versions of a text that have a common base, in the same way as git (xdl_merge of xdiff)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pygit2
from pygit2.enums import DiffOption

from patchstack.upstream.merge.histogram import Edit, Index, histogram

_BINARY_LOOK = 8000  # git treats a file as binary if these first bytes contain a NUL (xdiff-interface.c)
_NEAR = 3  # the maximum number of common lines between joined conflicts (xmerge.c, xdl_simplify_non_conflicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """A place that both sides changed.

    `start` is the 0-based line of `base` in the old text. Lines include their newlines. `base` is empty if both sides
    only inserted lines.
    """

    start: int
    ours: tuple[bytes, ...]
    base: tuple[bytes, ...]
    theirs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMerge:
    """A merged text. `text` contains git's markers for every conflict that is not settled."""

    text: bytes
    collisions: tuple[Collision, ...]

    @property
    def clean(self) -> bool:
        return not self.collisions


class Side(Enum):
    """Who changed a place: one side, both sides differently, or both sides in the same way."""

    OURS = 1
    THEIRS = 2
    BOTH = 0
    SAME = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A place that at least one side changed.

    `side` is the side whose lines are taken. `BOTH` means a conflict. `base`, `ours` and `theirs` are each the first
    line and the number of lines in that text.
    """

    side: Side
    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


def is_binary(data: bytes) -> bool:
    """Return whether git treats the data as binary."""
    return b"\0" in data[:_BINARY_LOOK]


def edits(old: bytes, new: bytes, index: Index | None = None) -> tuple[Edit, ...]:
    """Return the changes that turn one text into another, in order.

    They are found with the histogram algorithm, as in git's merges. An `index` of the old text saves time.
    """
    if old == new:
        return ()
    if not old or not new:
        return (Edit(0, len(_lines(old)), 0, len(_lines(new))),)
    return histogram(_lines(old), _lines(new), index)


def myers(old: bytes, new: bytes, flags: DiffOption = DiffOption.NORMAL) -> tuple[Edit, ...]:
    """Return the changes that turn one text into another, in order.

    They are the same as in `git diff` without context.
    """
    if old == new:
        return ()
    patch = pygit2.Patch.create_from(old, new, context_lines=0, flag=flags | DiffOption.FORCE_TEXT)
    return tuple(
        # In a unified diff, the start of a side without lines is the line before the change.
        Edit(
            hunk.old_start - (hunk.old_lines > 0), hunk.old_lines, hunk.new_start - (hunk.new_lines > 0), hunk.new_lines
        )
        for hunk in patch.hunks
    )


def merge_texts(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    labels: tuple[str, str] = ("ours", "theirs"),
    *,
    union: bool = False,
    found: tuple[Sequence[Edit], Sequence[Edit]] | None = None,
) -> TextMerge:
    """Merge three texts.

    `labels` follow the conflict markers. `found` are the edits from the base to each side, if they are known. With
    `union`, conflicts are settled. If both sides only inserted lines, both insertions are kept, with that of `ours`
    first. Otherwise, the lines of `ours` are kept. Settled conflicts are still reported.
    """
    lines, mine, other = _lines(base), _lines(ours), _lines(theirs)
    changes = overlay(*(found or (edits(base, ours), edits(base, theirs))), mine, other)
    changes = list(refine(changes, mine, other))
    if not union:
        changes = _joined(changes)
    collisions = []
    text: list[bytes] = []
    at = 0
    for change in changes:
        start, count = change.ours
        text += mine[at:start]
        at = start + count
        if change.side is Side.OURS or change.side is Side.SAME:
            text += mine[start:at]
            continue
        yours = other[change.theirs[0] : sum(change.theirs)]
        if change.side is Side.THEIRS:
            text += yours
            continue
        old = lines[change.base[0] : sum(change.base)]
        collisions.append(
            Collision(
                start=change.base[0],
                ours=tuple(mine[start:at]),
                base=tuple(old),
                theirs=tuple(yours),
            )
        )
        if union:
            text += mine[start:at] if old else [*_ended(mine[start:at]), *yours]
        else:
            text += _marked(mine, start, at, other, change.theirs, lines, yours, labels)
    text += mine[at:]
    return TextMerge(text=b"".join(text), collisions=tuple(collisions))


def _lines(text: bytes) -> list[bytes]:
    """Split a text into lines with their newlines. As in git, a carriage return does not end a line."""
    parts = text.split(b"\n")
    last = parts.pop()
    found = [part + b"\n" for part in parts]
    if last:
        found.append(last)
    return found


def overlay(one: Sequence[Edit], two: Sequence[Edit], ours: Sequence[bytes], theirs: Sequence[bytes]) -> list[Change]:
    """Return the edits of both sides in order.

    Edits that touch become one conflict, and identical edits are omitted (xdl_do_merge).
    """
    changes: list[Change] = []
    first, second = 0, 0
    while first < len(one) or second < len(two):
        a = one[first] if first < len(one) else None
        b = two[second] if second < len(two) else None
        if b is None or (a is not None and a.at + a.removed < b.at):
            assert a is not None
            shift = b.to - b.at if b is not None else _grown(two)
            _append(changes, Side.OURS, (a.at, a.removed), (a.to, a.added), (a.at + shift, a.removed))
            first += 1
            continue
        if a is None or b.at + b.removed < a.at:
            shift = a.to - a.at if a is not None else _grown(one)
            _append(changes, Side.THEIRS, (b.at, b.removed), (b.at + shift, b.removed), (b.to, b.added))
            second += 1
            continue
        same = (a.at, a.removed, a.added) == (b.at, b.removed, b.added)
        if not same or ours[a.to : a.to + a.added] != theirs[b.to : b.to + b.added]:
            lead, tail = a.at - b.at, a.at + a.removed - b.at - b.removed
            start = (a.at - max(lead, 0), a.to - max(lead, 0), b.to + min(lead, 0))
            ends = (
                a.at + a.removed - min(tail, 0),
                a.to + a.added - min(tail, 0),
                b.to + b.added + max(tail, 0),
            )
            ranges = [(begin, end - begin) for begin, end in zip(start, ends, strict=True)]
            _append(changes, Side.BOTH, ranges[0], ranges[1], ranges[2])
        end_a, end_b = a.at + a.removed, b.at + b.removed
        second += end_a >= end_b
        first += end_b >= end_a
    return changes


def _grown(found: Sequence[Edit]) -> int:
    """Return by how many lines a text has grown after these edits."""
    return found[-1].to + found[-1].added - found[-1].at - found[-1].removed if found else 0


def _text(lines: Sequence[bytes], newline: bytes) -> bytes:
    return b"".join(lines) if not newline or not lines else newline.join(lines) + newline


def _append(
    changes: list[Change], side: Side, base: tuple[int, int], ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    if changes and (ours[0] <= sum(changes[-1].ours) or theirs[0] <= sum(changes[-1].theirs)):
        last = changes[-1]
        changes[-1] = Change(
            side=side if side is last.side else Side.BOTH,
            base=(last.base[0], sum(base) - last.base[0]),
            ours=(last.ours[0], sum(ours) - last.ours[0]),
            theirs=(last.theirs[0], sum(theirs) - last.theirs[0]),
        )
    else:
        changes.append(Change(side=side, base=base, ours=ours, theirs=theirs))


def refine(
    changes: Sequence[Change], ours: Sequence[bytes], theirs: Sequence[bytes], newline: bytes = b""
) -> Iterator[Change]:
    """Split conflicts at lines that both sides have in common (xdl_refine_conflicts).

    `newline` is the line end if the lines do not include it.
    """
    for change in changes:
        if change.side is not Side.BOTH or not change.ours[1] or not change.theirs[1]:
            yield change
            continue
        mine = ours[change.ours[0] : sum(change.ours)]
        other = theirs[change.theirs[0] : sum(change.theirs)]
        differing = edits(_text(mine, newline), _text(other, newline))
        if not differing:
            yield replace(change, side=Side.SAME)
        for edit in differing:
            yield replace(
                change,
                ours=(change.ours[0] + edit.at, edit.removed),
                theirs=(change.theirs[0] + edit.to, edit.added),
            )


def _joined(changes: list[Change]) -> list[Change]:
    """Join conflicts with very few lines between them (xdl_simplify_non_conflicts)."""
    found: list[Change] = []
    for change in changes:
        last = found[-1] if found else None
        if (
            last is not None
            and last.side is Side.BOTH
            and change.side is Side.BOTH
            and change.ours[0] - sum(last.ours) <= _NEAR
        ):
            found[-1] = replace(
                last,
                base=(last.base[0], max(sum(last.base), sum(change.base)) - last.base[0]),
                ours=(last.ours[0], sum(change.ours) - last.ours[0]),
                theirs=(last.theirs[0], sum(change.theirs) - last.theirs[0]),
            )
        else:
            found.append(change)
    return found


def _ended(lines: list[bytes], newline: bytes = b"\n") -> list[bytes]:
    """Return the lines, with a newline after the last line."""
    if lines and not lines[-1].endswith(b"\n"):
        return [*lines[:-1], lines[-1] + newline]
    return lines


def _marked(
    mine: list[bytes],
    start: int,
    end: int,
    other: list[bytes],
    place: tuple[int, int],
    base: list[bytes],
    yours: list[bytes],
    labels: tuple[str, str],
) -> list[bytes]:
    """Return a conflict with markers.

    The markers have the same line ends as the lines around them (is_cr_needed in xmerge.c).
    """
    around = (mine[max(start - 1, 0) :][:1], other[max(place[0] - 1, 0) :][:1], base[:1])
    newline = b"\r\n" if all(line and line[0].endswith(b"\r\n") for line in around) else b"\n"
    return [
        b"<<<<<<< " + labels[0].encode() + newline,
        *_ended(mine[start:end], newline),
        b"=======" + newline,
        *_ended(yours, newline),
        b">>>>>>> " + labels[1].encode() + newline,
    ]
