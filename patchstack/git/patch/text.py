"""Read a patch file as text.

The result contains the message and the diffs of the file, with line numbers. This reader does not decide whether a
patch applies, because `git.apply` does. It reads everything that `git apply` accepts, including binary diffs and quoted
names, so that lint rules see every applied line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from patchstack.git.patch.diff import HUNK_HEADER, unescaped


class Line(NamedTuple):
    """A line of a hunk.

    `number` is its line number in the patch file. `sign` is `+`, `-` or a blank. `text` does not include the newline.
    `ends` is true if the line ends with a newline.
    """

    number: int
    sign: bytes
    text: bytes
    ends: bool


class TextLine(NamedTuple):
    """A line outside of all hunks."""

    number: int
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedHunk:
    """A hunk.

    `number` is the line number of its header, and `end` is the line number after its last line. `header` is the text of
    the header, and `lines` are the lines of the hunk.
    """

    number: int
    end: int
    header: bytes
    old_start: int
    lines: tuple[Line, ...]

    @property
    def before(self) -> list[bytes]:
        return [line.text for line in self.lines if line.sign != b"+"]

    @property
    def bare(self) -> bool:
        """Whether the hunk has no context lines."""
        return all(line.sign != b" " for line in self.lines)

    @property
    def trailing(self) -> int:
        """The number of context lines at the end."""
        return next((n for n, line in enumerate(reversed(self.lines)) if line.sign != b" "), len(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedFile:
    """The diff of one file.

    The diff begins at line `number` and ends before line `end`. `old` is None for a creation, and `new` is None for a
    deletion. `binary` is the text of a binary diff. `modes` are the mode lines. `copied` is true for a copy, and false
    for a rename and for all other changes.
    """

    number: int
    end: int
    old: bytes | None
    new: bytes | None
    hunks: tuple[PatchedHunk, ...]
    binary: bytes
    modes: tuple[bytes, ...]
    copied: bool

    @property
    def path(self) -> bytes:
        return self.new or self.old or b""

    @property
    def lines(self) -> list[Line]:
        return [line for hunk in self.hunks for line in hunk.lines]

    @property
    def added(self) -> list[Line]:
        return [line for hunk in self.hunks for line in hunk.lines if line.sign == b"+"]

    @property
    def removed(self) -> list[Line]:
        return [line for hunk in self.hunks for line in hunk.lines if line.sign == b"-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchText:
    """A parsed patch file.

    `subject` is the subject header, unfolded but not decoded. `subject_line` is the line number of this header, or 1 if
    the file has no subject. `message` is the body up to the `---` that git wrote. `outside` contains all lines outside
    of hunks.
    """

    subject: bytes
    subject_line: int
    message: tuple[TextLine, ...]
    files: tuple[PatchedFile, ...]
    outside: tuple[TextLine, ...]

    @property
    def own(self) -> list[TextLine]:
        """All lines that the patch itself contributes: the lines outside of hunks, and the added lines."""
        found = [*self.outside, *(TextLine(line.number, line.text) for file in self.files for line in file.added)]
        return sorted(found)


_HEADER = re.compile(
    rb"(?:index |old mode |new mode |new file mode |deleted file mode |rename |copy |similarity index "
    rb"|dissimilarity index |--- |GIT binary patch|Binary files )"
)
_MAIL = re.compile(rb"From [0-9a-f]{40} |[A-Za-z][A-Za-z0-9-]*: ")
_STAT = re.compile(rb"\s*\Z| .* \| | \d+ files? changed| (?:create|delete|rename|copy|mode change|rewrite) ")
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')


def read_text(data: bytes) -> PatchText:
    """Parse a patch file. Does not raise."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    reader = _Reader(lines)
    reader.read()
    subject, subject_line, body = _head(lines)
    end = _separator(lines, body) if body else 0
    return PatchText(
        subject=subject,
        subject_line=subject_line,
        message=tuple(TextLine(at + 1, lines[at]) for at in range(body, end)),
        files=tuple(reader.files),
        outside=tuple(reader.outside),
    )


def old_line(data: bytes, header: int, offset: int) -> int:
    """Return the 1-based line number, in the patch file, of a line of a hunk's pre-image.

    `header` is the line number of the hunk's header. `offset` is the index of the line in the pre-image. Return
    `header` if the pre-image has no such line.
    """
    before = -1
    for number, line in enumerate(data.split(b"\n")[header:], header + 1):
        if line.startswith((b"+", b"\\")):
            continue
        if line[:1] not in (b" ", b"-", b""):
            break
        before += 1
        if before == offset:
            return number
    return header


_NO_LINES = b",0 +"
_MOST_LOOKED_AT = 10_000
_BARE = re.compile(rb"@@ -[1-9]\d{0,8},0 \+\d{1,9}(?:,\d{1,9})? @@")


def bare_insertions(data: bytes, most: int) -> list[tuple[bytes, bytes]]:
    """Return the path and header of up to `most` hunks that insert lines without context.

    The rest of the file is not read.
    """
    found: list[tuple[bytes, bytes]] = []
    at = data.find(_NO_LINES)
    for _ in range(_MOST_LOOKED_AT):
        if at < 0 or len(found) == most:
            break
        if header := _BARE.match(data, data.rfind(b"\n", 0, at) + 1):
            name = data.rfind(b"\n+++ ", 0, at)
            path = data[name + 5 : data.find(b"\n", name + 5)] if name >= 0 else b""
            found.append((_stripped(path) or b"", header.group(0)))
        at = data.find(_NO_LINES, at + 1)
    return found


def unparsed_diff(data: bytes) -> bytes:
    """Return the diffs of a patch file as unparsed text, up to the mail signature.

    Return the complete file if it has no diff.
    """
    start = max(data.find(b"\ndiff --git "), data.find(b"\n--- a/") if b"\ndiff --git " not in data else -1, -1) + 1
    return data[start:].partition(b"\n-- \n")[0]


def starts_diff(lines: list[bytes], at: int) -> bool:
    """Return whether a line begins a diff in the form that git writes."""
    return (
        lines[at].startswith(b"diff --git ")
        and at + 1 < len(lines)
        and (_HEADER.match(lines[at + 1]) is not None or lines[at + 1].startswith(b"diff --git "))
    )


def _head(lines: list[bytes]) -> tuple[bytes, int, int]:
    """Return the subject, its line, and the index of the first line of the body.

    This index is 0 for a file without a mail header.
    """
    if not lines or not _MAIL.match(lines[0]) or lines[0].startswith(b"Index: "):
        return b"", 1, 0
    subject, number = b"", 1
    for at, line in enumerate(lines):
        if not line.strip():
            return subject, number, at + 1
        if line[:8].lower() == b"subject:" and not subject:
            subject, number = line[8:].strip(), at + 1
            for more in lines[at + 1 :]:
                if more[:1] not in (b" ", b"\t") or not more.strip():
                    break
                subject += b" " + more.strip()
    return subject, number, len(lines)


def _separator(lines: list[bytes], body: int) -> int:
    """Return the index of the `---` line that git wrote after the message.

    It is the first `---` that is followed only by a diffstat and a diff. If no line qualifies, it is the last `---`
    before the first diff. If there is no `---`, return the index of the first diff, or of the end of the file.
    """
    last = None
    for at in range(body, len(lines)):
        if starts_diff(lines, at):
            return at if last is None else last
        if lines[at].rstrip() == b"---":
            last = at
            after = at + 1
            while after < len(lines) and _STAT.match(lines[after]):
                after += 1
            if after < len(lines) and starts_diff(lines, after):
                return at
    return len(lines) if last is None else last


class _Reader:
    """Walks over the lines and separates the diffs from other lines."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.at = 0
        self.files: list[PatchedFile] = []
        self.outside: list[TextLine] = []

    def read(self) -> None:
        while self.at < len(self.lines):
            if starts_diff(self.lines, self.at) or self._traditional():
                self.files.append(self._file())
            else:
                self._leave()

    def _traditional(self) -> bool:
        following = self.lines[self.at : self.at + 3]
        return (
            len(following) == 3
            and following[0].startswith(b"--- ")
            and following[1].startswith(b"+++ ")
            and HUNK_HEADER.match(following[2]) is not None
        )

    def _leave(self) -> None:
        self.outside.append(TextLine(self.at + 1, self.lines[self.at]))
        self.at += 1

    def _file(self) -> PatchedFile:
        start = self.at
        first = self.lines[start]
        old, new = _both_names(first[11:]) if first.startswith(b"diff --git ") else (None, None)
        git = first.startswith(b"diff --git ")
        if git:
            self._leave()
        modes = []
        binary = b""
        created = deleted = copied = False
        while self.at < len(self.lines) and _HEADER.match(self.lines[self.at]):
            line = self.lines[self.at]
            self._leave()
            if line.startswith((b"rename from ", b"copy from ")):
                old = _unquoted(line.split(b" ", 2)[2])
                copied = line.startswith(b"copy ")
            elif line.startswith((b"rename to ", b"copy to ")):
                new = _unquoted(line.split(b" ", 2)[2])
            elif line.startswith((b"new file mode ", b"deleted file mode ", b"old mode ", b"new mode ")):
                created |= line.startswith(b"new file ")
                deleted |= line.startswith(b"deleted ")
                modes.append(line)
            elif line.startswith(b"--- "):
                old = _stripped(line[4:])
                if self.at < len(self.lines) and self.lines[self.at].startswith(b"+++ "):
                    new = _stripped(self.lines[self.at][4:])
                    self._leave()
                break
            elif line.startswith(b"GIT binary patch"):
                binary = self._binary()
                break
            elif line.startswith(b"Binary files "):
                binary = line
                break
        hunks = []
        while self.at < len(self.lines) and (match := HUNK_HEADER.match(self.lines[self.at])):
            hunks.append(self._hunk(match))
        return PatchedFile(
            number=start + 1,
            end=self.at + 1,
            old=None if created else old,
            new=None if deleted else new,
            hunks=tuple(hunks),
            binary=binary,
            modes=tuple(modes),
            copied=copied,
        )

    def _binary(self) -> bytes:
        start = self.at
        while self.at < len(self.lines) and not self.lines[self.at].startswith((b"diff --git ", b"-- ")):
            self.at += 1
        return b"\n".join(self.lines[start : self.at])

    def _hunk(self, match: re.Match[bytes]) -> PatchedHunk:
        start = self.at
        old_start, old_left, _, new_left = (1 if field is None else int(field) for field in match.groups())
        self._leave()
        found: list[Line] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            sign = line[:1] or b" "
            if sign == b"\\" and found:
                found[-1] = found[-1]._replace(ends=False)
            elif (old_left <= 0 and new_left <= 0) or sign not in (b" ", b"+", b"-"):
                break
            else:
                old_left -= sign != b"+"
                new_left -= sign != b"-"
                found.append(Line(self.at + 1, sign, line[1:], True))
            self.at += 1
        return PatchedHunk(
            number=start + 1, end=self.at + 1, header=match.group(0), old_start=old_start, lines=tuple(found)
        )


def _both_names(text: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the two names of a `diff --git` line.

    The names are assumed to be equal. If they are not, later header lines contain both names.
    """
    text = text.rstrip(b"\r")
    quoted = _QUOTED.match(text)
    if quoted:
        name = _stripped(quoted.group(0))
        return name, name
    half = text[: len(text) // 2].partition(b"/")[2]
    return half or None, half or None


def _stripped(name: bytes) -> bytes | None:
    """Return the name of a `---` or `+++` line without its first component.

    Return None for `/dev/null`.
    """
    name = _unquoted(name.split(b"\t")[0].rstrip(b"\r"))
    return None if name == b"/dev/null" else name.partition(b"/")[2] or name


def _unquoted(name: bytes) -> bytes:
    """Return a name without git's C-style quotes."""
    match = _QUOTED.fullmatch(name)
    return name if match is None else unescaped(match.group(1))
