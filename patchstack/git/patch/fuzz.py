"""Place hunks with fuzz: some context lines may be different, as in GNU patch and quilt.

`git apply` has no fuzz. Hunks go to the same places as in GNU patch 2.7 (`locate_hunk` in patch.c). A place may be
wrong, so a person must review the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchstack.git.patch.text import PatchedHunk

MOST = 2  # the default of patch and quilt
_LINES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a hunk.

    `line` is a 1-based line of the file before the patch. `fuzz` is the maximum number of context lines that were
    ignored at one end.
    """

    line: int
    fuzz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The content of a file after all hunks were applied, and the place of each hunk."""

    content: bytes
    places: tuple[Place, ...]


class Tries:
    """The remaining number of comparisons.

    A hunk that needs more comparisons is treated as a hunk that fits nowhere.
    """

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
    """Apply hunks to a file, each with the smallest possible fuzz, up to `most`.

    If a hunk fits nowhere, or fits only after a last line without newline, return its number, counted from 1. Two lines
    are equal if `key` returns the same value for both.
    """
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
            return number  # GNU patch would append to the last line, which has no newline. This is never intended.
        made += added
        places.append(Place(line=at, fuzz=fuzz))
    made += lines[frozen:]
    # As in GNU patch, text after an added line without newline starts a new line.
    made[:-1] = [line if line.endswith(b"\n") else line + b"\n" for line in made[:-1]]
    return Placed(content=b"".join(made), places=tuple(places))


class _Parts:
    """The old lines of a hunk, and the number of context lines at its beginning and end."""

    def __init__(self, hunk: PatchedHunk, key: Callable[[bytes], bytes] | None) -> None:
        signs = [line.sign for line in hunk.lines]
        self.leading = next((n for n, sign in enumerate(signs) if sign != b" "), len(signs))
        self.trailing = min(hunk.trailing, len(signs) - self.leading)
        self.context = max(self.leading, self.trailing)
        old = [_whole(line.text, ends=line.ends) for line in hunk.lines if line.sign != b"+"]
        self.old = old if key is None else [key(line) for line in old]
        # The header of a hunk without old lines contains the number of the line before the hunk.
        self.first = hunk.old_start + (not old)


def _locate(lines: Sequence[bytes], parts: _Parts, fuzz: int, frozen: int, shift: int, tries: Tries) -> int | None:
    """Return the 1-based line at which the old lines of a hunk fit, or None if they fit nowhere.

    The hunk may not change the first `frozen` lines. `shift` is the offset of the hunk before it.
    """
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

    if before < 0 and parts.first <= 1:  # only at the beginning of the file
        if after < 0 and (len(old) != len(lines) or parts.leading < frozen):
            return None
        ok = frozen <= parts.leading and 1 - guess <= up and fits(1, 0, max(after, 0))
        return 1 if ok else None
    before = max(before, 0)
    if after < 0:  # only at the end of the file
        at = len(lines) - len(old) + 1
        return at if guess - at <= down and fits(at, before, 0) else None
    least = guess - highest if up < 0 else guess - (frozen + 1) if down < 0 else 0
    # Search near the hunk's own line first, because searching all of a huge file for a long hunk is slow.
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
    """Return the end of a hunk's changes in the file, and the new lines of the changed range.

    The end is the index of the line after the last change. The new lines go from the first to the last change. Context
    lines are copied from the file.
    """
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
    """Split content into lines, only at newlines."""
    return [line + b"\n" for line in content.split(b"\n")[:-1]] + [line for line in content.split(b"\n")[-1:] if line]
