"""Find similar changes.

Changes are compared by their patch-ids under every diff algorithm, by their changed lines, and by the words of their
titles.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pygit2.enums import DiffOption

from patchstack.upstream.merge.edits import Lines, compare
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import myers

# The algorithms of `git diff --diff-algorithm` that libgit2 supports. Both changes are diffed again, so the algorithm
# of the patch file does not matter.
_ALGORITHMS = (
    DiffOption.NORMAL,
    DiffOption.INDENT_HEURISTIC,
    DiffOption.MINIMAL,
    DiffOption.PATIENCE,
    DiffOption.PATIENCE | DiffOption.INDENT_HEURISTIC,
)
_CONTEXT = 3
_TELLING = 4  # the minimum number of letters in a significant line
_BLANKS = b" \t\n\r\v\f"
_NO_LETTERS = bytes(set(range(256)) - set(b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))

Change = tuple[bytes, bytes, bytes]
"""A path, and its text before and after."""

ChangedLines = Counter[tuple[bytes, bytes]]
"""The lines that a change adds (`+`) and removes (`-`), with their whitespace removed."""


def patch_ids(changes: Sequence[Change]) -> set[str]:
    """Return the patch-ids of a change, one for each diff algorithm.

    As in `git patch-id`, an id is computed from the changed lines and their context, without whitespace.
    """
    return {_id(changes, algorithm) for algorithm in _ALGORITHMS}


def growth(changes: Iterable[Change]) -> dict[bytes, tuple[int, int]]:
    """Return the growth of each file in lines and in non-blank bytes.

    Changes with the same patch-id have the same growth, under any diff algorithm.
    """
    return {path: (new.count(b"\n") - old.count(b"\n"), _bare(new) - _bare(old)) for path, old, new in changes}


def bare_lines(text: bytes) -> list[bytes]:
    """Return the lines of a text, with their whitespace removed."""
    return text.translate(None, _BLANKS.replace(b"\n", b"")).split(b"\n")


def says_something(line: bytes) -> bool:
    """Return whether a line has enough letters to identify it. A brace, for example, does not."""
    return len(line.translate(None, _NO_LETTERS)) >= _TELLING


def _bare(text: bytes) -> int:
    return len(text.translate(None, _BLANKS))


def _id(changes: Sequence[Change], algorithm: DiffOption) -> str:
    digest = hashlib.sha256()
    for path, old, new in sorted(changes):
        before, after = old.split(b"\n"), new.split(b"\n")
        digest.update(path + b"\0")
        found = myers(old + b"\n", new + b"\n", algorithm)
        at = 0
        for edit in found:
            _feed(digest, before[max(at, edit.at - _CONTEXT) : edit.at], b" ")
            _feed(digest, before[edit.at : edit.at + edit.removed], b"-")
            _feed(digest, after[edit.to : edit.to + edit.added], b"+")
            at = edit.at + edit.removed
            ahead = next((one.at for one in found if one.at >= at and one is not edit), at + _CONTEXT)
            _feed(digest, before[at : min(at + _CONTEXT, ahead)], b" ")
            at = min(at + _CONTEXT, ahead)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, lines: Lines, sign: bytes) -> None:
    for line in lines:
        digest.update(sign + b"".join(line.split()) + b"\0")


def changed_lines(changes: Iterable[tuple[Lines, Lines, Sequence[Edit] | None]]) -> ChangedLines:
    """Return the significant lines that a change adds and removes.

    For each file, `changes` contains the lines before and after. It also contains the edits between them, or None if
    the edits are unknown.
    """
    counted: ChangedLines = Counter()
    for before, after, known in changes:
        for edit in compare(before, after) if known is None else known:
            for sign, lines in (
                (b"-", before[edit.at : edit.at + edit.removed]),
                (b"+", after[edit.to : edit.to + edit.added]),
            ):
                for line in lines:
                    bare = b"".join(line.split())
                    if says_something(bare):
                        counted[sign, bare] += 1
    return counted


_WORD = re.compile(r"[a-z0-9]{4,}")
_PREFIX = re.compile(r"\b([a-z]{2,3})-(?=[a-z])")  # so that "de-dup" counts as "dedup"
_STEM = 6  # two forms of a word match if their prefixes of this length are equal


def words(title: str) -> frozenset[str]:
    """Return the words of a title, each shortened to its first characters.

    Numbers, and words with fewer than 4 characters, are ignored.
    """
    joined = _PREFIX.sub(r"\1", title.lower())
    return frozenset(word[:_STEM] for word in _WORD.findall(joined) if not word.isdigit())


def rare(titles: Iterable[str]) -> frozenset[str]:
    """Return the words that occur in few titles. Only such words distinguish titles."""
    counted: Counter[str] = Counter()
    number = 0
    for title in titles:
        number += 1
        counted.update(words(title))
    return frozenset(word for word, count in counted.items() if count <= max(2, number // 20))
