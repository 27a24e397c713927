"""Apply the hunks of one file diff at the places that `git apply` chooses.

The context must match exactly, without fuzz. Any offset is allowed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from patchstack.git.patch.diff import Hunk, Unsupported
from patchstack.git.patch.effort import A_FILE_LINE, A_PATCH_LINE, Effort, Pool, PooledEffort, TooCostly, unbounded

# Try a hunk at every line up to this distance from its expected line, before searching the whole file.
_NEAR = 20
_COMMON = 50  # a line that occurs more often than this does not help to place a hunk

# Costs in nanoseconds: a try at a place, each line compared in a try, each line searched, and each place found.
_TRY, _COMPARED, _SCANNED, _FOUND = 400, 30, 30, 600
_WIDEST = 50_000
"""The maximum number of lines in one step of the search before or after a hunk's line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A hunk that fits nowhere.

    `number` counts from 1. `at` is the 1-based line number of the first difference in the file, at the best place for
    the hunk. There, the hunk expects the line `expected`, and the file has the line `found`. `found` is None if the
    file ends before this line. The two lines are equal if the hunk matches the best place but may not go there.
    `offset` is the index of `expected` among the old lines of the hunk. `already` is true if the file already has the
    hunk's new lines.
    """

    number: int
    hunk: Hunk
    at: int
    offset: int
    expected: bytes
    found: bytes | None
    already: bool

    def line(self, data: bytes) -> int:
        """Return the 1-based line of the patch file `data` that does not fit.

        Return the line of the hunk's header if the file already has the hunk's new lines.
        """
        from patchstack.git.patch.text import old_line

        return self.hunk.line if self.already else old_line(data, self.hunk.line, self.offset)

    def describe(self) -> str:
        """Return one line for the user: the hunk, the expected line, and the line that was found."""
        where = f"hunk {self.number} ({self.hunk.header.decode('ascii')})"
        if self.already:
            return f"{where}: its lines already exist"
        expected = f"expected {_shown(self.expected)}"
        if self.found is None:
            return f"{where}: {expected} at line {self.at}, the file ends before it"
        if self.found == self.expected:
            reason = "but the hunk may not go there (it must match the end of the file, or another hunk has the lines)"
            return f"{where}: its lines fit at line {self.at}, {reason}"
        if self.expected == self.found + b"\r":
            return f"{where}: {expected} at line {self.at}, found it without the CR: was the patch mangled to CRLF?"
        return f"{where}: {expected} at line {self.at}, found {_shown(self.found)}"


def _shown(line: bytes) -> str:
    if not line:
        return "an empty line"
    text = line.decode("utf-8", "replace")
    if len(text) > 90:
        text = text[:87] + "..."
    return "`" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text) + "`"


def apply_hunks(
    content: Sequence[bytes], hunks: tuple[Hunk, ...], effort: Effort | None = None
) -> list[bytes] | Misfit:
    """Return the new lines of a file, or the first hunk that fits nowhere.

    `content` is the result of `split(b"\\n")`. Its last item is the text after the last newline, which is empty for a
    file that ends with a newline. The rules are the same as in `git apply` without `--unidiff-zero` and without
    whitespace fixing. A hunk that starts at line 0 or 1 must match the beginning of the file. A hunk without trailing
    context must match the end. Any other hunk goes to the exact match nearest to its line. If two matches are equally
    near, it goes to the later one. No hunk may touch lines that an earlier hunk placed.

    Raises `Unsupported` for an insertion without context after a last line that has no newline, because git joins the
    inserted text to this line. Raises `TooCostly` if placing the hunks exceeds the effort. The explanation of a misfit
    uses only the remaining effort.
    """
    effort = effort or unbounded()
    lines = list(content)
    places = place_hunks(lines, hunks, effort)
    if len(places) < len(hunks):
        return _misfit(lines, len(places) + 1, hunks[len(places)], effort)
    return lines


def misfit_alone(lines: list[bytes], number: int, hunk: Hunk, effort: Effort) -> Misfit | None:
    """Return why one hunk alone fits nowhere in a file, or None if it fits.

    The file is not changed. Raises the same errors as `apply_hunks`.
    """
    return None if fits_alone(lines, hunk, effort) else _misfit(lines, number, hunk, effort)


def fits_alone(lines: list[bytes], hunk: Hunk, effort: Effort) -> bool:
    """Return whether one hunk alone fits in a file.

    Raises the same errors as `apply_hunks`.
    """
    return _position(lines, hunk, _Placed(), effort) is not None


def place_hunks(lines: list[bytes], hunks: tuple[Hunk, ...], effort: Effort | None = None) -> list[int]:
    """Apply hunks to `lines` in place, by the rules of `apply_hunks`.

    Stop at the first hunk that fits nowhere. Return the line index of each applied hunk.
    """
    effort = effort or unbounded()
    placed = _Placed()
    places: list[int] = []
    for hunk in hunks:
        at = _position(lines, hunk, placed, effort)
        if at is None:
            break
        count, new_count = len(hunk.before), len(hunk.after)
        effort.spend(_TRY + (len(lines) - at if count != new_count else 0))
        _place(lines, hunk, at)
        places.append(at)
        placed.add(at, count, new_count, effort)
    return places


def effort_for(lines: Sequence[bytes], hunks: Sequence[Hunk], pool: Pool) -> Effort:
    """Return the effort limit for placing hunks in a file.

    The limit grows with the sizes of the file and its hunks. Work beyond the limit comes from the pool.
    """
    changed = sum(len(hunk.before) + len(hunk.after) for hunk in hunks)
    return PooledEffort(A_FILE_LINE * len(lines) + A_PATCH_LINE * changed, pool)


class _Placed:
    """The lines that earlier hunks placed, as sorted ranges that do not overlap.

    Adjacent ranges are joined, so that a search can pass many adjacent hunks in one step.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def touches(self, at: int, count: int) -> bool:
        """Return whether an earlier hunk placed any of the `count` lines starting at `at`."""
        next_one = bisect_right(self._ends, at)
        return next_one < len(self._starts) and self._starts[next_one] < at + count

    def free_below(self, at: int, count: int) -> int:
        """Return the first place, at or after `at`, with `count` free lines.

        A line is free if no earlier hunk placed it.
        """
        next_one = bisect_right(self._ends, at)
        while next_one < len(self._starts) and self._starts[next_one] < at + count:
            at = self._ends[next_one]
            next_one += 1
        return at

    def free_above(self, at: int, count: int) -> int:
        """Return the last place, at or before `at`, with `count` free lines.

        The result is negative if no such place exists.
        """
        last = bisect_left(self._starts, at + count) - 1
        while last >= 0 and self._ends[last] > at:
            at = self._starts[last] - count
            last -= 1
        return at

    def add(self, at: int, count: int, new_count: int, effort: Effort) -> None:
        """Add the `new_count` lines that replaced `count` lines at `at`, and shift all later ranges."""
        shift = new_count - count
        if shift:
            moved = range(bisect_left(self._starts, at + count), len(self._starts))
            effort.spend(len(moved) * _SCANNED * 3)
            for number in moved:
                self._starts[number] += shift
                self._ends[number] += shift
        if new_count:
            start, end = at, at + new_count
            number = after = bisect_left(self._starts, at)
            if number and self._ends[number - 1] == start:
                number -= 1
                start = self._starts[number]
            if after < len(self._starts) and self._starts[after] == end:
                end = self._ends[after]
                after += 1
            self._starts[number:after] = [start]
            self._ends[number:after] = [end]


def _line_count(lines: list[bytes]) -> int:
    return len(lines) - (lines[-1] == b"")


def _position(lines: list[bytes], hunk: Hunk, placed: _Placed, effort: Effort) -> int | None:
    before = list(hunk.before)
    count, total = len(before), _line_count(lines)
    last = total - count
    if last < 0:
        return None

    def fits(at: int) -> bool:
        effort.spend(_TRY + _COMPARED * count)
        return not placed.touches(at, count) and lines[at : at + count] == before

    must_begin = hunk.old_start <= 1
    if not hunk.trailing:  # must match the end of the file, with or without a last newline
        if must_begin and last:
            return None
        if not count and lines[-1]:
            raise Unsupported("an insertion after a last line without newline", hunk.line)
        if count and hunk.before_no_newline == (lines[-1] == b""):
            return None
        return last if fits(last) else None
    if must_begin:
        return 0 if _complete(lines, 0, count) and fits(0) else None
    wanted = min(max(hunk.new_start - 1, 0), total)
    for distance in range(_NEAR):
        effort.spend(_TRY)
        for at in (wanted + distance, wanted - distance):
            if 0 <= at <= last and lines[at] == before[0] and _complete(lines, at, count) and fits(at):
                return at
    # The longest line usually occurs least often, so few places remain to try.
    longest = max(before, key=len)
    lead = before.index(longest)
    for near, far in _rings(max(wanted, last - wanted)):
        places = merge(
            _below(lines, longest, lead, wanted + near, min(wanted + far, last + 1), placed, count, effort),
            _above(lines, longest, lead, max(wanted - far + 1, 0), min(wanted - near, last) + 1, placed, count, effort),
            key=lambda at: (abs(at - wanted), at < wanted),
        )
        for at in places:
            if _complete(lines, at, count) and fits(at):
                return at
    return None


def _rings(most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of distances up to `most`.

    Each range is twice as wide as the range before it, up to a limit.
    """
    near, wide = _NEAR, _NEAR
    while near <= most:
        yield near, near + wide
        near, wide = near + wide, min(wide * 2, _WIDEST)


def _below(
    lines: list[bytes], line: bytes, lead: int, at: int, end: int, placed: _Placed, count: int, effort: Effort
) -> Iterator[int]:
    """Yield places in ascending order, from `at` up to, but not including, `end`.

    Each place has `count` free lines, and `line` at index `lead`.
    """
    while (at := placed.free_below(at, count)) < end:
        try:
            found = lines.index(line, at + lead, end + lead) - lead
        except ValueError:
            effort.spend(_SCANNED * (end - at))
            return
        effort.spend(_FOUND + _SCANNED * (found - at))
        if not placed.touches(found, count):
            yield found
            found += 1
        at = found


def _above(
    lines: list[bytes], line: bytes, lead: int, start: int, end: int, placed: _Placed, count: int, effort: Effort
) -> Iterator[int]:
    """Yield the same places as `_below`, in reverse order."""
    at = placed.free_above(end - 1, count)
    if at < start:
        return
    effort.spend(_SCANNED * (at + 1 - start))
    upwards = lines[start + lead : at + 1 + lead]
    upwards.reverse()
    last = at
    while at >= start:
        try:
            found = last - upwards.index(line, last - at)
        except ValueError:
            return
        effort.spend(_FOUND)
        if not placed.touches(found, count):
            yield found
            found -= 1
        at = placed.free_above(found, count)


def _complete(lines: list[bytes], at: int, count: int) -> bool:
    """Return whether each of the `count` lines from `at` ends with a newline.

    This is the case if another item of `lines` follows them.
    """
    return at + count < len(lines)


def _place(lines: list[bytes], hunk: Hunk, at: int) -> None:
    end = at + len(hunk.before)
    after = list(hunk.after)
    if not hunk.trailing:  # the hunk reaches the end of the file
        lines[at:] = after if hunk.after_no_newline else [*after, b""]
    else:
        lines[at:end] = after


def _misfit(lines: list[bytes], number: int, hunk: Hunk, effort: Effort) -> Misfit:
    """Return the first difference between a hunk that fits nowhere and the best place for it.

    The best place contains the largest number of the hunk's lines. If several places are equally good, it is the one
    nearest to the line in the hunk's header. If the search reaches the limit of `effort`, only the places found so far
    are compared.
    """
    before, total = hunk.before, _line_count(lines)
    wanted = min(max(hunk.new_start - 1, 0), total)
    body = lines[:total]
    positions: dict[int, int] = {wanted: 0}
    already = False
    try:
        _count_positions(body, before, positions, effort)
        already = _holds(body, list(hunk.after), effort)
    except TooCostly:
        pass
    best = min(positions, key=lambda at: (-positions[at], abs(at - wanted)))
    for offset, line in enumerate(before):
        found_line = body[best + offset] if best + offset < total else None
        if found_line != line:
            break
    else:
        offset, line = 0, before[0] if before else b""
        found_line = body[best] if best < total else None
    return Misfit(
        number=number,
        hunk=hunk,
        at=best + offset + 1,
        offset=offset,
        expected=line,
        found=found_line,
        already=already,
    )


def _count_positions(body: list[bytes], before: Sequence[bytes], positions: dict[int, int], effort: Effort) -> None:
    """Count how many of the hunk's lines exist at each place.

    Frequent lines are ignored.
    """
    where: dict[bytes, list[int]] = {line: [] for line in before}
    effort.spend(_SCANNED * len(body))
    found_places = [(at, line) for at, line in enumerate(body) if line in where]
    effort.spend(_FOUND * len(found_places))
    for at, line in found_places:
        where[line].append(at)
    for offset, line in enumerate(before):
        found = where[line]
        if len(found) <= _COMMON:
            for index in found:
                if index >= offset:
                    positions[index - offset] = positions.get(index - offset, 0) + 1


def _holds(body: list[bytes], after: list[bytes], effort: Effort) -> bool:
    """Return whether a file contains the lines `after` as one block."""
    if not after:
        return False
    longest = max(after, key=len)
    lead = after.index(longest)
    for at in _below(body, longest, lead, 0, len(body) - len(after) + 1, _Placed(), 0, effort):
        effort.spend(_COMPARED * len(after))
        if body[at : at + len(after)] == after:
            return True
    return False
