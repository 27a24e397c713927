"""Find the errors in a patch that git calls corrupt.

Each error has its line and its likely cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.git.patch.diff import HUNK_HEADER

_NAMES = (b"diff --git ", b"Index: ", b"From ", b"@@ -")
_ENCODING = re.compile(rb"^Content-Transfer-Encoding:[ \t]*(quoted-printable|base64)", re.MULTILINE | re.IGNORECASE)
_SIGNS = (b" ", b"+", b"-", b"")
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One error in a patch.

    `line` is its 1-based line. `what` describes the error and, if possible, how to repair it.
    """

    line: int
    what: str


def find_damage(data: bytes) -> tuple[Damage, ...]:
    """Return the errors in the text of a patch, sorted by line."""
    found: list[Damage] = []
    ended = data.count(b"\r\n")
    newlines = data.count(b"\n")
    if ended and ended * 10 > newlines * 9:
        found.append(Damage(line=1, what="its lines end in CRLF: sed -i 's/\\r$//' removes it"))
        data = data.replace(b"\r\n", b"\n")
    head = data.partition(b"\n\n")[0]
    if encoded := _ENCODING.search(head):
        place = head.count(b"\n", 0, encoded.start()) + 1
        kind = encoded[1].decode().lower()
        found.append(Damage(line=place, what=f"the mail is {kind}, which git am decodes and git apply does not"))
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        header = HUNK_HEADER.match(line)
        if header is not None:
            found += _hunk(lines, at, header)
    return tuple(sorted(found, key=lambda one: one.line))


def _hunk(lines: Sequence[bytes], at: int, header: re.Match[bytes]) -> Iterator[Damage]:
    """Yield the errors of the hunk whose header is at line index `at`."""
    first = header[0].decode("ascii")
    wanted = tuple(1 if count is None else int(count) for count in (header[2], header[4]))
    after = _after(lines, at + 1, *wanted)
    if after is not None:
        if lines[after][:1] in (b" ", b"+", b"-") and not _bounds(lines, after):
            yield Damage(line=after + 1, what=f"{_shown(lines[after])} is more than {first} counts: git ignores it")
        return
    end = _end(lines, at + 1)
    body = lines[at + 1 : end]
    strange = [n for n, line in enumerate(body) if line[:1] not in (*_SIGNS, b"\\")]
    given = _counts(line[:1] for line in body)
    if strange:
        mended = _counts(b" " if n in strange else line[:1] for n, line in enumerate(body))
        what = "does not begin with a blank, + or - like a line of a hunk"
        if given == wanted:
            what = "belongs to the line above, which was wrapped"
        elif mended == wanted:
            what = "lost the blank that each line of context begins with"
        else:
            del strange[1:]
        for n in strange:
            yield Damage(line=at + 2 + n, what=f"{_shown(body[n])} {what}")
    elif end == len(lines) and lines[-1]:
        yield Damage(line=end, what="the file ends in the middle of this line: without a newline, or cut short")
    else:
        old, new = given
        cut = end >= len(lines) - 1 and old < wanted[0] and new < wanted[1]
        why = "it was edited by hand" + (", or lines at its end were lost" if cut else "")
        right = f"@@ -{int(header[1])},{old} +{int(header[3])},{new} @@ would be right (git apply --recount)"
        told = f"the hunk has {old} old and {new} new lines, but {first} counts {wanted[0]} and {wanted[1]}"
        yield Damage(line=at + 1, what=f"{told}: {why}; {right}")


def _after(lines: Sequence[bytes], at: int, old: int, new: int) -> int | None:
    """Return the index after the lines of a hunk.

    Return None unless the number of lines matches the hunk's counts and all lines end with a newline.
    """
    while old > 0 or new > 0:
        sign = lines[at][:1] if at < len(lines) - 1 else None
        if sign is None or (sign not in _SIGNS and sign != b"\\"):
            return None
        old -= sign in (b" ", b"-", b"")
        new -= sign in (b" ", b"+", b"")
        at += 1
    return at if (old, new) == (0, 0) else None


def _bounds(lines: Sequence[bytes], at: int) -> bool:
    """Return whether a line ends a hunk, whatever the hunk's counts are."""
    line = lines[at]
    names = line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ ")
    return names or line.startswith(_NAMES) or line in (b"-- ", b"--")


def _counts(signs: Iterator[bytes]) -> tuple[int, int]:
    old = new = 0
    for sign in signs:
        old += sign in (b" ", b"-", b"")
        new += sign in (b" ", b"+", b"")
    return old, new


def _end(lines: Sequence[bytes], at: int) -> int:
    """Return the index after the last line that can belong to a hunk."""
    start = at
    while at < len(lines) and not _bounds(lines, at):
        at += 1
    # Empty lines at the end are not context. They separate the hunk from the text after it.
    while at > start and at >= len(lines) - 1 and not lines[at - 1]:
        at -= 1
    return at


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return "`" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text) + "`"
