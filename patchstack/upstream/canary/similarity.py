"""When are two changes one? Patch-ids under every diff algorithm, the lines that change, and words of a title."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pygit2.enums import DiffOption

from patchstack.upstream.merge.edits import Lines, compare
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import myers

# What `git diff --diff-algorithm` can write, as far as libgit2 knows it. Both sides are compared again: how the patch
# file was written does not matter.
_ALGORITHMS = (
    DiffOption.NORMAL,
    DiffOption.INDENT_HEURISTIC,
    DiffOption.MINIMAL,
    DiffOption.PATIENCE,
    DiffOption.PATIENCE | DiffOption.INDENT_HEURISTIC,
)
_CONTEXT = 3
_TELLING = 4  # letters of a line that says anything
_BLANKS = b" \t\n\r\v\f"
_NO_LETTERS = bytes(set(range(256)) - set(b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))

Change = tuple[bytes, bytes, bytes]
"""A path, and its text before and after."""

ChangedLines = Counter[tuple[bytes, bytes]]
"""Lines that a change adds (`+`) and removes (`-`), without blanks."""


def patch_ids(changes: Sequence[Change]) -> set[str]:
    """A change's id under every algorithm: as `git patch-id`, of the lines with their context, without blanks."""
    return {_id(changes, algorithm) for algorithm in _ALGORITHMS}


def growth(changes: Iterable[Change]) -> dict[bytes, tuple[int, int]]:
    """By how many lines, and by how many bytes that are not blanks, each text grows: what two changes of one patch-id
    have in common, whatever the algorithm."""
    return {path: (new.count(b"\n") - old.count(b"\n"), _bare(new) - _bare(old)) for path, old, new in changes}


def bare_lines(text: bytes) -> list[bytes]:
    """The lines of a text, without blanks."""
    return text.translate(None, _BLANKS.replace(b"\n", b"")).split(b"\n")


def says_something(line: bytes) -> bool:
    """Whether a line has letters enough to be known by them: a brace has not."""
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
    """The lines that a change adds and removes; those that say little are left out.

    Each file as its lines before and after, and the edits between them where they are known."""
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
_PREFIX = re.compile(r"\b([a-z]{2,3})-(?=[a-z])")  # de-dup is dedup
_STEM = 6  # letters by which two forms of a word are one


def words(title: str) -> frozenset[str]:
    """What a title is about, by the first letters of its words."""
    joined = _PREFIX.sub(r"\1", title.lower())
    return frozenset(word[:_STEM] for word in _WORD.findall(joined) if not word.isdigit())


def rare(titles: Iterable[str]) -> frozenset[str]:
    """The words that few of the titles have: those that tell one from another."""
    counted: Counter[str] = Counter()
    number = 0
    for title in titles:
        number += 1
        counted.update(words(title))
    return frozenset(word for word, count in counted.items() if count <= max(2, number // 20))
