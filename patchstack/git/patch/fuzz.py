"""Place hunks with fuzz: lines of their context may differ, as in GNU patch and quilt. `git apply` has no fuzz. The
places are those of GNU patch 2.7 (`locate_hunk` in patch.c). They may be wrong, so a person must review them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchstack.git.patch.text import PatchedHunk

MOST = 2  # the default of patch and quilt
_LINES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a hunk: the 1-based line of the file before the patch, and the number of context lines at each end
    that were ignored."""

    line: int
    fuzz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A file with all hunks on it, and the place of each."""

    content: bytes
    places: tuple[Place, ...]


class Tries:
    """The remaining number of comparisons. A hunk that needs more counts as not fitting."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def place_with_fuzz(
    content: bytes,
    hunks: Sequence[PatchedHunk],
    *,
    most: int = MOST,
    key: Callable[[bytes], bytes] | None = None,
    tries: Tries | None = None,
) -> Placed | int:
    """Apply hunks to a file, each with the least fuzz it needs, up to `most`. If one fits nowhere, or only after a last
    line without newline, return its number, from 1. Lines are compared by `key`."""
    tries = tries or Tries(1 << 62)
    tries.left -= len(content)
    lines = content.splitlines(keepends=True) if b"\r" not in content else _lines(content)
    keys = lines if key is None else [key(line) for line in lines]
    made: list[bytes] = []
    places: list[Place] = []
    frozen = shift = 0
    for number, hunk in enumerate(hunks, 1):
        parts = _Parts(hunk, key)
        limit = min(most, parts.context)
        for fuzz in range(limit + 1):
            at = _locate(keys, parts, fuzz, frozen, shift, tries)
            if at is not None:
                break
        else:
            return number
        shift = at - parts.first
        head = parts.leading
        made += lines[frozen : at + head - 1]
        frozen, added = _changed(lines, hunk, at, head)
        if lines and not lines[-1].endswith(b"\n") and lines[-1] in (made[-1:] + added)[:-1]:
            return number  # GNU patch would append to the last line, which has no newline; this is never intended
        made += added
        places.append(Place(line=at, fuzz=fuzz))
    made += lines[frozen:]
    # Text after an added line without newline starts a new line, as in GNU patch.
    made[:-1] = [line if line.endswith(b"\n") else line + b"\n" for line in made[:-1]]
    return Placed(content=b"".join(made), places=tuple(places))


class _Parts:
    """The old lines of a hunk, and how many of them are context."""

    def __init__(self, hunk: PatchedHunk, key: Callable[[bytes], bytes] | None) -> None:
        signs = [line.sign for line in hunk.lines]
        self.leading = next((n for n, sign in enumerate(signs) if sign != b" "), len(signs))
        self.trailing = min(hunk.trailing, len(signs) - self.leading)
        self.context = max(self.leading, self.trailing)
        old = [_whole(line.text, ends=line.ends) for line in hunk.lines if line.sign != b"+"]
        self.old = old if key is None else [key(line) for line in old]
        # A hunk without old lines names the line after which it goes.
        self.first = hunk.old_start + (not old)


def _locate(lines: Sequence[bytes], parts: _Parts, fuzz: int, frozen: int, shift: int, tries: Tries) -> int | None:
    """Return the 1-based line at which the old lines of a hunk fit, or None."""
    old = parts.old
    guess = parts.first + shift
    if not old:
        return guess if frozen < guess <= len(lines) + 1 else None
    before = fuzz + parts.leading - parts.context
    after = fuzz + parts.trailing - parts.context
    highest = len(lines) - (len(old) - after) + 1
    up, down = highest - guess, min(guess - (frozen + 1), guess - 1)

    def fits(at: int, skip_first: int, skip_last: int) -> bool:
        start = at - 1 + skip_first
        wanted = old[skip_first : len(old) - skip_last]
        if start < 0 or (wanted and (start >= len(lines) or lines[start] != wanted[0])):
            return False
        tries.left -= len(wanted)
        return list(lines[start : start + len(wanted)]) == wanted

    if before < 0 and parts.first <= 1:  # only at the beginning
        if after < 0 and (len(old) != len(lines) or parts.leading < frozen):
            return None
        ok = frozen <= parts.leading and 1 - guess <= up and fits(1, 0, max(after, 0))
        return 1 if ok else None
    before = max(before, 0)
    if after < 0:  # only at the end
        at = len(lines) - len(old) + 1
        return at if guess - at <= down and fits(at, before, 0) else None
    least = guess - highest if up < 0 else guess - (frozen + 1) if down < 0 else 0
    # Search near its line first: a long hunk is not searched for in all of a huge file.
    farthest = least + _LINES // len(old)
    for offset in range(least, min(max(up, down), farthest) + 1):
        tries.left -= 20
        if tries.left < 0:
            return None
        if offset <= up and fits(guess + offset, before, after):
            return guess + offset
        if offset <= down and fits(guess - offset, before, after):
            return guess - offset
    return None


def _changed(lines: Sequence[bytes], hunk: PatchedHunk, at: int, leading: int) -> tuple[int, list[bytes]]:
    """Return how many of the file's lines a hunk consumes up to its last change, and the new lines from its first
    change on. Context lines are taken from the file."""
    place = at - 1 + leading
    result: list[bytes] = []
    used = place
    for line in hunk.lines[leading:]:
        if line.sign == b" ":
            place += 1
            continue
        result += lines[used:place]
        if line.sign == b"-":
            place += 1
        else:
            result.append(_whole(line.text, ends=line.ends))
        used = place
    return used, result


def _whole(text: bytes, *, ends: bool) -> bytes:
    return text + b"\n" if ends else text


def _lines(content: bytes) -> list[bytes]:
    """Split a content into lines at newlines only."""
    return [line + b"\n" for line in content.split(b"\n")[:-1]] + [line for line in content.split(b"\n")[-1:] if line]
