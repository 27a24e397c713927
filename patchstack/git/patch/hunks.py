"""Put the hunks of one file diff onto a file: exact context, any offset, no fuzz, at the place `git apply` chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from patchstack.git.patch.diff import Hunk, Unsupported
from patchstack.git.patch.text import old_line

# How far from its line a hunk is looked for one by one, before the whole file is searched.
_NEAR = 200
_COMMON = 50  # a line found more often than this does not tell where a hunk should stand


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A hunk that fits nowhere. `number` counts from 1; `at` is the 1-based line of the file where it should stand.

    `expected` and `found` are the first line that differs there (`found` None: the file ends before it), `offset` its
    place among the hunk's old lines, from 0.
    """

    number: int
    hunk: Hunk
    at: int
    offset: int
    expected: bytes
    found: bytes | None
    already: bool

    def line(self, data: bytes) -> int:
        """The 1-based line of the patch file `data` that fits nowhere: the line that was expected, or the hunk's header
        if its lines are there already."""
        return self.hunk.line if self.already else old_line(data, self.hunk.line, self.offset)

    def describe(self) -> str:
        """One line for the user: which hunk, what it expects, what is there."""
        where = f"hunk {self.number} ({self.hunk.header.decode('ascii')})"
        if self.already:
            return f"{where}: its lines are there already"
        expected = f"expected {_shown(self.expected)}"
        if self.found is None:
            return f"{where}: {expected} at line {self.at}, the file ends before it"
        if self.found == self.expected:
            reason = "but the hunk may not go there (it must end the file, or another hunk holds the lines)"
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


def apply_hunks(content: Sequence[bytes], hunks: tuple[Hunk, ...]) -> list[bytes] | Misfit:
    """The new lines of a file, or the first hunk that fits nowhere. Lines are as `split(b"\\n")` gives them: the last
    one is what follows the last newline, empty for a file that ends with one.

    The rules are `git apply`'s, with `--unidiff-zero` off and no whitespace fixing: a hunk that starts at line 0 or 1
    must match the beginning, one without trailing context must match the end; any other goes to the exact match nearest
    to the line it names, the later one first among equals; and no hunk may touch lines an earlier one has placed.

    Raises `Unsupported` for an insertion without context behind a last line that has no newline: git joins the two.
    """
    lines = list(content)
    places = place_hunks(lines, hunks)
    if len(places) < len(hunks):
        return _misfit(lines, len(places) + 1, hunks[len(places)])
    return lines


def place_hunks(lines: list[bytes], hunks: tuple[Hunk, ...]) -> list[int]:
    """Put hunks onto lines, in place, by the rules of `apply_hunks`, up to the first that fits nowhere. Gives the index
    of the line at which each came to stand."""
    placed: list[tuple[int, int]] = []
    places: list[int] = []
    for hunk in hunks:
        at = _position(lines, hunk, placed)
        if at is None:
            break
        _place(lines, hunk, at)
        places.append(at)
        count, new_count = len(hunk.before), len(hunk.after)
        shift = new_count - count
        if shift:
            placed = [(a + shift, b + shift) if a >= at + count else (a, b) for a, b in placed]
        if new_count:
            placed.append((at, at + new_count))
    return places


def _line_count(lines: list[bytes]) -> int:
    return len(lines) - (lines[-1] == b"")


def _position(lines: list[bytes], hunk: Hunk, placed: list[tuple[int, int]]) -> int | None:
    before = list(hunk.before)
    count, total = len(before), _line_count(lines)
    last = total - count
    if last < 0:
        return None

    def fits(at: int) -> bool:
        return lines[at : at + count] == before and not any(a < at + count and at < b for a, b in placed)

    must_begin = hunk.old_start <= 1
    if not hunk.trailing:  # must match the end, newline or not
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
        for at in (wanted + distance, wanted - distance):
            if 0 <= at <= last and lines[at] == before[0] and _complete(lines, at, count) and fits(at):
                return at
    candidates = [at for at in _where(lines, before[0], last) if _complete(lines, at, count)]
    candidates.sort(key=lambda at: (abs(at - wanted), at < wanted))
    return next((at for at in candidates if fits(at)), None)


def _where(lines: list[bytes], line: bytes, last: int) -> Iterator[int]:
    """The places of a line, up to and including `last`."""
    at = -1
    while True:
        try:
            at = lines.index(line, at + 1, max(last + 1, 0))
        except ValueError:
            return
        yield at


def _complete(lines: list[bytes], at: int, count: int) -> bool:
    """Whether every one of `count` lines ends with a newline, as lines with context behind them do."""
    return at + count < len(lines)


def _place(lines: list[bytes], hunk: Hunk, at: int) -> None:
    end = at + len(hunk.before)
    after = list(hunk.after)
    if not hunk.trailing:  # the hunk reaches the end of the file
        lines[at:] = after if hunk.after_no_newline else [*after, b""]
    else:
        lines[at:end] = after


def _misfit(lines: list[bytes], number: int, hunk: Hunk) -> Misfit:
    """Find the place where most of the hunk's lines stand, nearest to the one it names, and say what differs there."""
    before, total = hunk.before, _line_count(lines)
    wanted = min(max(hunk.new_start - 1, 0), total)
    body = lines[:total]
    positions: dict[int, int] = {wanted: 0}
    where = {line: list(islice(_where(body, line, total), _COMMON + 1)) for line in dict.fromkeys(before)}
    for offset, line in enumerate(before):
        found = where[line]
        if len(found) <= _COMMON:
            for index in found:
                if index >= offset:
                    positions[index - offset] = positions.get(index - offset, 0) + 1
    best = min(positions, key=lambda at: (-positions[at], abs(at - wanted)))
    for offset, line in enumerate(before):
        found_line = body[best + offset] if best + offset < total else None
        if found_line != line:
            break
    else:
        offset, line = 0, before[0] if before else b""
        found_line = body[best] if best < total else None
    after = list(hunk.after)
    already = bool(after) and any(
        body[at : at + len(after)] == after for at in _where(body, after[0], len(body) - len(after))
    )
    return Misfit(
        number=number,
        hunk=hunk,
        at=best + offset + 1,
        offset=offset,
        expected=line,
        found=found_line,
        already=already,
    )
