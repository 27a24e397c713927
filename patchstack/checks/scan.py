"""Where a pattern is found in the contents of files: each content is searched once, whatever trees it is in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable

from patchstack.checks.literals import needed_texts
from patchstack.checks.model import Place, TreeFile
from patchstack.checks.scopes import scope_at
from patchstack.git.objects import Objects

_KEPT = 64 << 20  # bytes of contents that are kept
_LOOKED_AT = 8000  # bytes in which git looks for a NUL to tell a binary file


class MatchesNothing(Exception):
    """A pattern matched an empty text: it could be found everywhere."""


class Scanner:
    """Searches contents, and remembers what it found in each."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._hits: dict[tuple[str, str], tuple[tuple[int, str], ...]] = {}
        self._needed: dict[str, tuple[bytes, ...]] = {}
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def places(self, pattern: re.Pattern[str], files: Iterable[TreeFile]) -> tuple[Place, ...]:
        """Return every place, by file and line. Raises `MissingObject` if a content is not available,
        `MatchesNothing`."""
        return tuple(
            Place(path=file.path, line=line, name=name)
            for file in files
            for line, name in self._found(pattern, file.oid, file.path)
        )

    def _found(self, pattern: re.Pattern[str], oid: str, path: str) -> tuple[tuple[int, str], ...]:
        key = (pattern.pattern, oid)
        found = self._hits.get(key)
        if found is None:
            needed = self._needed.get(pattern.pattern)
            if needed is None:
                needed = self._needed[pattern.pattern] = needed_texts(pattern)
            content = self._content(oid, path)
            may_match = not needed or any(text in content for text in needed)
            found = self._hits[key] = _searched(pattern, content) if may_match else ()
        return found

    def _content(self, oid: str, path: str) -> bytes:
        """Return a content; those used last are kept, as the next check often looks at the same."""
        content = self._contents.get(oid)
        if content is not None:
            self._contents.move_to_end(oid)
            return content
        content = self._contents[oid] = self._objects.blob(oid, path)
        self._size += len(content)
        while self._size > _KEPT and len(self._contents) > 1:
            self._size -= len(self._contents.popitem(last=False)[1])
        return content


def _searched(pattern: re.Pattern[str], content: bytes) -> tuple[tuple[int, str], ...]:
    """Return the lines (from 1) at which a pattern is found in a content, each with its site's name; none in a binary
    file."""
    if b"\0" in content[:_LOOKED_AT]:
        return ()
    text = content.decode("utf-8", "replace")
    starts: list[int] = []
    lines: list[str] = []
    found: dict[tuple[int, str], None] = {}
    for match in pattern.finditer(text):
        if match.end() == match.start():
            raise MatchesNothing
        if not lines:
            lines = text.split("\n")
            at = 0
            for line in lines:
                starts.append(at)
                at += len(line) + 1
        caught = " ".join(match.group(1).split()) if pattern.groups and match.group(1) else ""
        number = bisect_right(starts, _start(match, grouped=bool(caught))) - 1
        name = scope_at(lines, number)
        found[number + 1, f"{name}: {caught}" if caught else name] = None
    return tuple(found)


def _start(match: re.Match[str], *, grouped: bool) -> int:
    """Return where a match is: at its group if that caught something, else at its first character that is not a
    blank."""
    if grouped:
        return match.start(1)
    text = match.group()
    return match.start() + len(text) - len(text.lstrip())


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern as checks use it: `^` and `$` hold at each line. Raises `re.error`."""
    return re.compile(pattern, re.MULTILINE)
