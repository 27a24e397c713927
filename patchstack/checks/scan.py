"""Search file contents for patterns. Each blob is searched once for a pattern, even if many trees contain it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable

from patchstack.checks.literals import needed_texts
from patchstack.checks.model import Place, TreeFile
from patchstack.checks.scopes import scope_at
from patchstack.git.objects import Objects

_KEPT = 64 << 20  # the maximum size of the cached contents, in bytes
_LOOKED_AT = 8000  # like git, treat a file with a NUL in its first 8,000 bytes as binary


class MatchesNothing(Exception):
    """A pattern matched the empty string. Such a pattern matches everywhere."""


class Scanner:
    """Searches file contents for patterns, and caches the results."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._hits: dict[tuple[str, str], tuple[tuple[int, str], ...]] = {}
        self._needed: dict[str, tuple[bytes, ...]] = {}
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def places(self, pattern: re.Pattern[str], files: Iterable[TreeFile]) -> tuple[Place, ...]:
        """Return every match, in the order of the files and of their lines.

        Matches in the same line count once if their names are equal.

        Raises `MissingObject` if a blob is not available, and `MatchesNothing` if the pattern matches the empty string.
        """
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
        """Return the content of a blob.

        The most recently used blobs are cached, because the next check often reads the same files.
        """
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
    """Return the matching lines of a file, each with the name of its site.

    Line numbers start at 1. A binary file has no matches.
    """
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
    """Return the position of a match.

    With `grouped`, this is the start of the group. Otherwise, it is the first character that is not whitespace.
    """
    if grouped:
        return match.start(1)
    text = match.group()
    return match.start() + len(text) - len(text.lstrip())


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `^` and `$` match at every line. Raises `re.error` if the pattern is invalid."""
    return re.compile(pattern, re.MULTILINE)
