"""Find the functions of a source text, as git does for its hunk headers.

The head line of a function is not indented. It begins with a letter, `_` or `$`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_HEAD = re.compile(rb"[A-Za-z_$][^;]*\(|(?:struct|class|enum|union|namespace|def|function)\b[^;]*\Z")
_NONE = re.compile(rb"\w+:\s*\Z|.*;\s*\Z")  # labels and declarations, which are not heads of functions
_FIRST = frozenset(bytes((letter,)) for letter in b"}_$abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME = re.compile(
    rb"([A-Za-z_$][\w:~$]*)\s*\(|(?:struct|class|enum|union|namespace|def|function)\s+(?:class\s+)?(\w+)"
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its name, its head line, and its lines from the head to the closing brace.

    Lines are counted from 0.
    """

    name: str
    head: bytes
    start: int
    end: int


def functions(lines: Sequence[bytes]) -> list[Function]:
    """Return the functions of a text, in order. Functions do not overlap."""
    found: list[Function] = []
    start: int | None = None
    for number in [number for number, line in enumerate(lines) if line[:1] in _FIRST]:
        line = lines[number]
        if line[:1] == b"}":
            if start is not None:
                found.append(_function(lines, start, number + 1))
            start = None
        elif _HEAD.match(line) and not _NONE.match(line):
            if start is not None:
                found.append(_function(lines, start, number))
            start = number
    if start is not None:
        found.append(_function(lines, start, len(lines)))
    return found


def function_at(found: Sequence[Function], line: int) -> Function | None:
    """Return the function that contains a line."""
    at = bisect_right([one.start for one in found], line) - 1
    return found[at] if at >= 0 and line < found[at].end else None


def heads_at(lines: Sequence[bytes], numbers: Iterable[int]) -> set[bytes]:
    """Return the heads of the functions that contain the given lines.

    The line numbers must be in ascending order. Unlike `functions`, this function reads only the needed part of the
    text, and reads every line at most once.
    """
    found: set[bytes] = set()
    before, head = -1, None
    for number in numbers:
        line = min(number, len(lines) - 1)
        for at in range(line, before, -1):
            text = lines[at]
            ends = text[:1] == b"}" and at < number
            if ends or (text[:1] in _FIRST and _HEAD.match(text) and not _NONE.match(text)):
                head = None if ends else text
                break
        else:
            if 0 <= before < number and lines[before][:1] == b"}":
                head = None
        before = line
        if head is not None:
            found.add(head)
    return found


def _function(lines: Sequence[bytes], start: int, end: int) -> Function:
    head = lines[start]
    name = _NAME.search(head)
    told = (name.group(1) or name.group(2)) if name is not None else head.strip()
    return Function(told.decode("utf-8", "replace")[:80], head, start, end)
