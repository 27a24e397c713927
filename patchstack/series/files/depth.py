"""Rewrite the names in a patch, from any depth to depth 1. The depth is the N of `git apply -pN`.

All readers in this package expect names as git writes them, for -p1: `a/src/x.c`. Only names are changed, not the rest
of the patch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.diff import HUNK_HEADER, unescaped

DEFAULT = 1
_DEEPEST = 20
_MOST_SPACES = 200  # maximum number of spaces in both names together
_EPOCH = re.compile(rb"\t(?:1969-12-31|1970-01-01) ")
_DATE = re.compile(rb" +\d{4}-\d\d-\d\d \d\d:.*\Z")
_MOVED = re.compile(rb"(?:rename|copy) (?:from|to) ")
_HEADER = re.compile(
    rb"(?:index |old mode |new mode |new file mode |deleted file mode |rename |copy |(?:dis)?similarity index )"
)
_USUAL = re.compile(rb'^(?:--- (?:"?a/|/dev/null)|diff --git "?a/)', re.MULTILINE)
_ANY = re.compile(rb"^(?:diff --git |--- [^\n]*\n\+\+\+ )", re.MULTILINE)


class TooShallow(Exception):
    """A name has fewer directories than `-pN` removes."""

    def __init__(self, name: bytes, depth: int, line: int) -> None:
        text = name.decode("utf-8", "replace")
        super().__init__(f"line {line}: the name {text} does not have {depth} directories to remove (-p {depth})")


@dataclass(slots=True, kw_only=True)
class _Diff:
    """The lines that name the file of one diff, as indices from 0. `makes` and `deletes` are true if the diff creates
    or deletes the file."""

    git: int | None = None
    old: int | None = None
    new: int | None = None
    moved: list[int] = field(default_factory=list)
    makes: bool = False
    deletes: bool = False


def looks_usual(data: bytes) -> bool:
    """Return whether a patch names files as git does, with a leading `a/`. Return True for a patch without a diff."""
    if b"\ndiff --git a/" in data or (b"diff --git " not in data and b"--- " not in data):
        return True  # a quick test that is enough for most patches
    return _USUAL.search(data) is not None or _ANY.search(data) is None


def rewritten(data: bytes, depth: int) -> bytes:
    """Return the patch with its names rewritten for -p1. The given patch has names for `-pN`, with N = `depth`.

    Raises `TooShallow` for a name with too few directories.
    """
    if depth == DEFAULT:
        return data
    lines = data.split(b"\n")
    for diff in _diffs(lines):
        if diff.git is not None:
            pair = _pair(lines[diff.git][11:], depth)
            if pair is not None:
                lines[diff.git] = b"diff --git " + b" ".join(
                    _placed(name, depth, side, diff.git) for name, side in zip(pair, (b"a/", b"b/"), strict=True)
                )
        for at in diff.moved if depth else ():
            # These names have no a/ or b/, so git strips one fewer path component.
            head = _MOVED.match(lines[at])
            assert head is not None
            lines[at] = head.group(0) + _shortened(lines[at][head.end() :], depth - 1, depth - 1, at)
        for place, side in ((diff.old, b"a/"), (diff.new, b"b/")):
            if place is not None and not _is_null(lines[place]):
                lines[place] = lines[place][:4] + _placed(lines[place][4:], depth, side, place)
    return b"\n".join(lines)


def fitting_depths(patches: Sequence[bytes], tree: TreeOverlay) -> list[int]:
    """Return the depths at which every changed file exists.

    A file exists if it is in the tree or if an earlier patch created it.
    """
    named = [(lines, _diffs(lines)) for lines in (data.split(b"\n") for data in patches)]
    steps = [_step(lines, diff) for lines, diffs in named for diff in diffs]
    deepest = max((name.count(b"/") for names, _, _ in steps for name in names), default=0)
    return [depth for depth in range(min(deepest, _DEEPEST) + 1) if _fits(steps, tree, depth)]


def named_at(data: bytes, depth: int) -> set[bytes]:
    """Return the paths that a patch names at a given depth."""
    lines = data.split(b"\n")
    found = {_cut(name, depth) for diff in _diffs(lines) for name in _step(lines, diff)[0]}
    return {name for name in found if name}


def deepest(data: bytes) -> int:
    """Return the number of directories in the deepest name of a patch. A number above 20 is returned as 20."""
    lines = data.split(b"\n")
    return min(max((name.count(b"/") for diff in _diffs(lines) for name in _step(lines, diff)[0]), default=0), _DEEPEST)


_Step = tuple[list[bytes], bool, bool]


def _step(lines: list[bytes], diff: _Diff) -> _Step:
    """Return the full names in one diff, and whether the diff creates its file or deletes it."""
    names = [
        _plain(lines[place][4:]) for place in (diff.old, diff.new) if place is not None and not _is_null(lines[place])
    ]
    if not names and diff.git is not None:
        pair = _pair(lines[diff.git][11:], DEFAULT) or _pair(lines[diff.git][11:], 0)
        names = [_plain(name) for name in pair or ()]
    return names, diff.makes, diff.deletes


def _fits(steps: Sequence[_Step], tree: TreeOverlay, depth: int) -> bool:
    made: dict[bytes, bool] = {}

    def exists(path: bytes) -> bool:
        if path in made:
            return made[path]
        return tree.obstacle(path) is None and tree.entry(path) is not None

    for names, makes, deletes in steps:
        paths = [path for path in (_cut(name, depth) for name in names) if path]
        if len(paths) < len(names):
            return False
        if not makes and paths and not any(map(exists, paths)):
            return False
        made.update((path, not deletes) for path in paths)
    return True


def _diffs(lines: list[bytes]) -> list[_Diff]:
    """Return every diff in a patch. Lines inside hunks are skipped, because a removed line may look like a name."""
    found: list[_Diff] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            diff = _Diff(git=at)
            at += 1
            while at < len(lines) and _HEADER.match(lines[at]):
                diff.makes |= lines[at].startswith((b"new file ", b"copy "))
                diff.deletes |= lines[at].startswith(b"deleted ")
                if _MOVED.match(lines[at]):
                    diff.moved.append(at)
                at += 1
        elif _begins(lines, at) and lines[at + 2 : at + 3] and lines[at + 2].startswith(b"@@ -"):
            diff = _Diff()
        else:
            at += 1
            continue
        if _begins(lines, at):
            diff.old, diff.new = at, at + 1
            diff.makes |= _is_null(lines[at]) or _EPOCH.search(lines[at]) is not None
            diff.deletes |= _is_null(lines[at + 1]) or _EPOCH.search(lines[at + 1]) is not None
            at += 2
        at = _after_hunks(lines, at)
        found.append(diff)
    return found


def _begins(lines: list[bytes], at: int) -> bool:
    return at + 1 < len(lines) and lines[at].startswith(b"--- ") and lines[at + 1].startswith(b"+++ ")


def _after_hunks(lines: list[bytes], at: int) -> int:
    while at < len(lines) and (header := HUNK_HEADER.match(lines[at])):
        old, new = (1 if count is None else int(count) for count in (header[2], header[4]))
        at += 1
        while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith(b"\\")):
            sign = lines[at][:1]
            if sign not in (b" ", b"+", b"-", b"\\", b"", b"\r"):
                break
            old -= sign in (b" ", b"-", b"", b"\r")
            new -= sign in (b" ", b"+", b"", b"\r")
            at += 1
    return at


def _pair(text: bytes, depth: int) -> tuple[bytes, bytes] | None:
    """Return the two names of a `diff --git` line, as written.

    Names may contain spaces, so there may be several ways to split the line. If some splits name the same file on both
    sides at `depth`, only these are considered. Return None unless exactly one split remains.
    """
    text = text.rstrip(b"\r")
    if text[:1] == b'"':
        end = re.match(rb'"(?:[^"\\]|\\.)*"', text)
        return (end.group(0), text[end.end() + 1 :]) if end and text[end.end() : end.end() + 1] == b" " else None
    spaces = [at for at, byte in enumerate(text) if byte == 0x20]
    if len(spaces) > _MOST_SPACES:
        return None
    splits = [(text[:at], text[at + 1 :]) for at in spaces]
    same = [pair for pair in splits if _cut(_plain(pair[0]), depth) == _cut(_plain(pair[1]), depth) != b""]
    found = same or splits
    return found[0] if len(found) == 1 else None


def _is_null(line: bytes) -> bool:
    return re.match(rb"(?:---|\+\+\+) /dev/null\s*(?:\t|\r?\Z)", line) is not None


def _placed(name: bytes, depth: int, side: bytes, at: int) -> bytes:
    """Return the name with the prefix for -p1.

    With -p1, the result names the same path as the original name with -p`depth`.
    """
    if depth:
        return _shortened(name, depth - 1, depth, at)
    return b'"' + side + name[1:] if name[:1] == b'"' else side + name


def _shortened(name: bytes, count: int, least: int, at: int) -> bytes:
    """Return a name, as written, without its first `count` directories.

    Raises `TooShallow` if the name has fewer than `least` directories.
    """
    quoted = name[:1] == b'"'
    rest = name[1:] if quoted else name
    if _plain(name).count(b"/") < least:
        raise TooShallow(_plain(name), least, at + 1)
    for _ in range(count):
        rest = rest.partition(b"/")[2]
    return b'"' + rest if quoted else rest


def _plain(name: bytes) -> bytes:
    """Return the plain name, without quotes, date or revision."""
    name = name.rstrip(b"\r")
    if name[:1] == b'"' and (end := re.match(rb'"((?:[^"\\]|\\.)*)"', name)):
        return unescaped(end.group(1))
    return _DATE.sub(b"", name.split(b"\t", 1)[0]).rstrip(b" ")


def _cut(name: bytes, depth: int) -> bytes:
    """Return a name without its first directories. Return an empty name if it has too few directories."""
    for _ in range(depth):
        name = name.partition(b"/")[2]
    return name.lstrip(b"/")
