"""Read the diffs of a patch file in the form that git writes for text files.

`git apply` accepts many other forms (traditional diffs, binary data, quoted names, symlinks, copies, a path touched
twice, …). For these forms, `Unsupported` is raised, and the caller lets git apply the complete file. So this reader
never guesses, and each of its results can be compared with git's result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchstack.git.overlay import EXECUTABLE, FILE


class Unsupported(Exception):
    """A form of diff that git itself must apply.

    `line` is the 1-based line of the patch file.
    """

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk.

    Lines do not include their newline. `before_no_newline` and `after_no_newline` are true if the last line of that
    side ends the file without a newline. `context` is the number of context lines, and `trailing` is the number of
    context lines at the end. `line` is the 1-based line of the hunk's header in the patch file.
    """

    old_start: int
    new_start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    context: int
    trailing: int
    before_no_newline: bool
    after_no_newline: bool
    line: int
    header: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The change of one file.

    `old` is None for a creation, and `new` is None for a deletion. The two names are different for a rename. `new_mode`
    is None if the diff does not set a mode. `old_id` and `new_id` are the ids in the `index` line, as written. They are
    empty if the diff has no such line. `line` is the 1-based line at which the diff begins in the patch file.
    """

    old: bytes | None
    new: bytes | None
    new_mode: int | None
    hunks: tuple[Hunk, ...]
    old_id: str
    new_id: str
    line: int

    @property
    def path(self) -> bytes:
        path = self.old if self.new is None else self.new
        assert path is not None
        return path


_GIT_HEADER = re.compile(rb"diff --git [^/\s\"]+/([!-~]+) [^/\s\"]+/([!-~]+)\Z")
_INDEX = re.compile(rb"index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: (100644|100755))?\Z")
HUNK_HEADER = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SCORE = re.compile(rb"(?:dis)?similarity index \d{1,3}%\Z")
_NAME = re.compile(rb"[!-~]+\Z")
_KEY = re.compile(rb"index |--- |\+\+\+ |old mode |new mode |new file mode |deleted file mode |rename from |rename to ")
_CONTENT_ONLY = frozenset({b"index ", b"--- ", b"+++ "})
"""The header lines of a diff that changes a file's content, but not the file's name or mode."""
_BEGINS = (b"d", b"@", b"-")
"""The first bytes of lines that may begin a diff or a hunk."""
_KINDS = (b"new file mode ", b"deleted file mode ", b"rename from ")
_LEFT_TO_GIT = (b"copy ", b"rename ", b"similarity index ", b"dissimilarity index ")
_MODES = {b"100644": FILE, b"100755": EXECUTABLE}

# git has more rules for some names: `.git…`, `git~1`, `.`, `..`, empty components. Patches with them are left to git.
_ODD_NAME = re.compile(rb"(?i)\.git|git~|(?:^|/)\.{0,2}(?:/|\Z)|[\"\\:]")


def parse_diffs(data: bytes) -> tuple[FileDiff, ...]:
    """Return the diffs of a patch file in order. There is at least one diff, and no path is touched twice.

    Raises `Unsupported` for anything except plain text diffs as git writes them.
    """
    if b"\0" in data:
        raise Unsupported("NUL byte", data.count(b"\n", 0, data.index(b"\0")) + 1)
    reader = _Reader(data)
    diffs = reader.read()
    if not diffs:
        raise Unsupported("no diff", 1)
    _check_paths(diffs)
    return diffs


def _check_paths(diffs: tuple[FileDiff, ...]) -> None:
    touched: set[bytes] = set()
    for diff in diffs:
        for name in {diff.old, diff.new} - {None}:
            assert name is not None
            if name in touched:
                raise Unsupported("a path touched twice", diff.line)
            touched.add(name)
    for name in touched:
        parent = name
        while b"/" in parent:
            parent = parent.rpartition(b"/")[0]
            if parent in touched:
                raise Unsupported("a file and a directory with the same name", 1)


# Enough for two quoted names of the maximum path length.
_LONGEST_NAMES = 8 * 4096
_OLD = b"\n--- a/"
_NAMING = re.compile(rb"^(?:diff --git|---|\+\+\+|rename (?:from|to|old|new)|copy (?:from|to)) (.+)$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\(?:([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def old_names(data: bytes) -> Iterator[bytes]:
    """Yield the names of files with changed contents, from a patch in git's form.

    This is a quick search: a removed line may be mistaken for a name, and unusual names are skipped.
    """
    at = data.find(_OLD)
    while at >= 0:
        at += len(_OLD)
        end = data.find(b"\n", at)
        if end < 0:
            return
        yield data[at:end]
        at = data.find(_OLD, end)


def named_paths(data: bytes) -> set[bytes]:
    """Return every path that a patch file may touch.

    If the patch must be left to git, the result may include paths that the patch does not touch. `every_path` is faster
    for a large patch.
    """
    try:
        return {name for diff in parse_diffs(data) for name in (diff.old, diff.new) if name is not None}
    except Unsupported:
        return _guessed_paths(data)


def _guessed_paths(data: bytes) -> set[bytes]:
    names: set[bytes] = set()
    for line in _NAMING.finditer(data):
        text = line[1][:_LONGEST_NAMES]
        for word in {text, *text.split(), *text.split(b"\t"), *text.split(b" b/"), *_quoted(text)}:
            for name in (word, unescaped(word)):
                name = name.rstrip(b"\r")
                names.add(name)
                names.add(name.partition(b"/")[2])
    return set(filter(inside, names))


def inside(name: bytes) -> bool:
    """Return whether a name is a path below the directory in which a patch is applied."""
    return bool(name) and not name.startswith(b"/") and b"\0" not in name and not _DOTS.search(name)


_QUOTED = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"')
_DOTS = re.compile(rb"(?:^|/)\.\.?(?:/|\Z)|//|/\Z")


def _quoted(text: bytes) -> list[bytes]:
    """Return the quoted names at the beginning of a line, or at its end after an unquoted name."""
    found = []
    at = 0 if text[:1] == b'"' else text.find(b' "') + 1
    while text[at : at + 1] in (b'"', b" ") and (match := _QUOTED.match(text, at)) is not None:
        found.append(match.group(1))
        at = match.end()
    return found


def unescaped(word: bytes) -> bytes:
    """Return a name without git's C-style quoting.

    If a backslash does not begin one of git's escapes, it is removed.
    """
    if b"\\" not in word:
        return word

    def plain(match: re.Match[bytes]) -> bytes:
        octal, letter = match.groups()
        return bytes([int(octal, 8)]) if octal else _ESCAPED.get(letter, letter)

    return _ESCAPE.sub(plain, word)


class _Reader:
    """Reads the lines of one patch file in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines = data.split(b"\n")
        self.at = 0

    def read(self) -> tuple[FileDiff, ...]:
        """Return every diff of the file.

        As in git, text between diffs is skipped, unless git would see a diff in this text.
        """
        diffs: list[FileDiff] = []
        lines, end = self.lines, len(self.lines)
        while True:
            at = self.at
            while at < end and lines[at][:1] not in _BEGINS:
                at += 1
            self.at = at
            if at == end:
                return tuple(diffs)
            line = lines[at]
            if line.startswith(b"diff --git "):
                diffs.append(self._file())
                continue
            if line.startswith(b"@@ -"):
                raise self._refuse("a hunk without header")
            self.at += 1
            if (
                line.startswith(b"--- ")
                and self.lines[self.at : self.at + 1]
                and self.lines[self.at].startswith(b"+++ ")
            ):
                raise self._refuse("a traditional diff")

    def _line(self) -> bytes | None:
        """Return the current line if it ends with a newline, otherwise None."""
        return self.lines[self.at] if self.at + 1 < len(self.lines) else None

    def _refuse(self, reason: str) -> Unsupported:
        return Unsupported(reason, self.at + 1)

    def _file(self) -> FileDiff:
        start = self.at
        header = _GIT_HEADER.match(self.lines[start])
        if header is None or start + 1 >= len(self.lines):
            raise self._refuse("an unusual diff header")
        first, second = header.groups()
        seen: dict[bytes, bytes] = {}
        self.at += 1
        while (text := self._line()) is not None and text[:1] != b"@":
            found = _KEY.match(text)
            key = found[0] if found is not None else text if _SCORE.match(text) else None
            if key is None:
                if text.startswith(_LEFT_TO_GIT):
                    raise self._refuse("a copy or an unusual header line")
                break
            if key in seen:
                raise self._refuse("a duplicate header line")
            seen[key] = text[len(key) :]
            self.at += 1
        if text is None and self.lines[self.at]:
            raise self._refuse("a truncated diff")
        return self._described(first, second, seen, start)

    def _described(self, first: bytes, second: bytes, seen: dict[bytes, bytes], start: int) -> FileDiff:
        """Convert the header lines to a `FileDiff`.

        Raises `Unsupported` for a combination of lines that git does not write.
        """
        old: bytes | None = first
        new: bytes | None = second
        kinds: list[bytes] = []
        mode = None
        if seen.keys() != _CONTENT_ONLY:
            kinds, mode = self._kinds(first, second, seen)
            old = None if b"new file mode " in seen else first
            new = None if b"deleted file mode " in seen else second
        if b"rename from " not in seen and first != second:
            raise self._refuse("file names that contradict each other")
        self._check_names(old, new, seen)
        old_id = new_id = ""
        if b"index " in seen:
            index = _INDEX.match(b"index " + seen[b"index "])
            if index is None:
                raise self._refuse("an unusual index line")
            old_id, new_id = index.group(1).decode(), index.group(2).decode()
        hunks = self._hunks() if b"--- " in seen else ()
        if b"--- " in seen and not hunks:
            raise self._refuse("file names without a hunk")
        if not hunks and not kinds and b"old mode " not in seen:
            raise self._refuse("a diff that changes nothing")
        if not hunks and b"index " in seen and kinds not in ([b"new file mode "], [b"deleted file mode "]):
            raise self._refuse("content changes without hunks")
        line = self._line()
        if line is not None and line.startswith((b"GIT binary patch", b"Binary files ", b"Files ")):
            raise self._refuse("binary data")
        if old is None and (len(hunks) > 1 or any(hunk.before or hunk.old_start for hunk in hunks)):
            raise self._refuse("a new file with old contents")
        if new is None and any(hunk.after for hunk in hunks):
            raise self._refuse("a deleted file with remaining contents")
        return FileDiff(old=old, new=new, new_mode=mode, hunks=hunks, old_id=old_id, new_id=new_id, line=start + 1)

    def _kinds(self, first: bytes, second: bytes, seen: dict[bytes, bytes]) -> tuple[list[bytes], int | None]:
        """Read the kinds of change and the new mode from the header lines.

        The kinds are creation, deletion and rename. The mode is None if the lines do not set it. Raises `Unsupported`
        if the lines contradict each other.
        """
        kinds: list[bytes] = [key for key in _KINDS if key in seen]
        if len(kinds) > 1 or (b"rename from " in seen) != (b"rename to " in seen):
            raise self._refuse("contradicting header lines")
        if (b"old mode " in seen) != (b"new mode " in seen) or (
            b"old mode " in seen and kinds[:1] not in ([], [b"rename from "])
        ):
            raise self._refuse("contradicting mode lines")
        if (b"--- " in seen) != (b"+++ " in seen):
            raise self._refuse("only one of the lines --- and +++")
        if b"rename from " in seen and (
            seen[b"rename from "] != first or seen[b"rename to "] != second or first == second
        ):
            raise self._refuse("file names that contradict each other")
        mode = None
        for key in (b"old mode ", b"new mode ", b"new file mode ", b"deleted file mode "):
            if key in seen:
                if seen[key] not in _MODES:
                    raise self._refuse("not a regular file")
                if key != b"deleted file mode ":
                    mode = _MODES[seen[key]]
        return kinds, mode

    def _check_names(self, old: bytes | None, new: bytes | None, seen: dict[bytes, bytes]) -> None:
        for name in (old,) if old == new else (old, new):
            if name is not None and (_ODD_NAME.search(name) or b"//" in name):
                raise self._refuse("an unusual file name")
        if b"--- " in seen:
            for key, name in ((b"--- ", old), (b"+++ ", new)):
                given = seen[key]
                if name is None:
                    if given != b"/dev/null":
                        raise self._refuse("file names that contradict each other")
                elif given.partition(b"/")[2] != name or given.startswith((b"/", b'"')) or not _NAME.match(given):
                    raise self._refuse("file names that contradict each other")

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks = []
        while (text := self.lines[self.at]).startswith(b"@@ -"):
            hunks.append(self._hunk(text))
        return tuple(hunks)

    def _hunk(self, text: bytes) -> Hunk:
        start = self.at
        match = HUNK_HEADER.match(text)
        if match is None:
            raise self._refuse("an unusual hunk header")
        old_start, old_count, new_start, new_count = (int(field) if field else 1 for field in match.groups())
        lines, end = self.lines, len(self.lines) - 1
        before: list[bytes] = []
        after: list[bytes] = []
        context = trailing = 0
        changed = False
        at = start + 1
        old_left, new_left = old_count, new_count
        marked = {b"-": False, b"+": False}
        # Keep this loop fast: it handles every line of every patch, and takes a large part of the time of `verify`.
        while old_left > 0 or new_left > 0:
            if at >= end:
                self.at = at
                raise self._refuse("a truncated hunk")
            line = lines[at]
            sign = line[:1]
            if sign == b" " or not sign:
                text = line[1:]
                before.append(text)
                after.append(text)
                context += 1
                trailing += 1
                old_left -= 1
                new_left -= 1
            elif sign == b"-":
                before.append(line[1:])
                changed, trailing = True, 0
                old_left -= 1
            elif sign == b"+":
                after.append(line[1:])
                changed, trailing = True, 0
                new_left -= 1
            elif line.startswith(b"\\ ") and len(line) >= 11:
                self.at = at
                self._mark(lines[at - 1][:1], old_left == 0, new_left == 0, marked)
            else:
                self.at = at
                raise self._refuse("an unusual hunk line")
            at += 1
        self.at = at
        if old_left or new_left or not changed:
            raise self._refuse("hunk counts that do not match the lines")
        if lines[at].startswith(b"\\"):
            if at >= end or not lines[at].startswith(b"\\ ") or len(lines[at]) < 12:
                raise self._refuse("an unusual end of hunk")
            self._mark(lines[at - 1][:1], True, True, marked)
            self.at += 1
        return Hunk(
            old_start=old_start,
            new_start=new_start,
            before=tuple(before),
            after=tuple(after),
            context=context,
            trailing=trailing,
            before_no_newline=marked[b"-"],
            after_no_newline=marked[b"+"],
            line=start + 1,
            header=match.group(0),
        )

    def _mark(self, sign: bytes, before_done: bool, after_done: bool, marked: dict[bytes, bool]) -> None:
        """Read a `\\ No newline` line. It is accepted only after the last removed or the last added line of a hunk.

        In other places, git's rules are less strict, so such patches are left to git.
        """
        if (sign == b"-" and before_done) or (sign == b"+" and after_done):
            marked[sign] = True
        else:
            raise self._refuse("a missing newline in an unusual place")
