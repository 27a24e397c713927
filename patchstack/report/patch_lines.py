"""The lines of a patch file that a remark is about."""

from __future__ import annotations

import re

from patchstack.git.patch.text import PatchedFile, PatchedHunk, PatchText

_EXPECTED = re.compile(r"expected `(.*?)` at line ", re.DOTALL)
_NUMBERED = re.compile(
    r"(?:corrupt patch at (?:line |<stdin>:)|fragment without header at (?:line |<stdin>:)|^line )(\d+)"
)
_OLD_LINE = re.compile(r"a hunk does not match at line (\d+)")


def failing_line(text: PatchText, detail: str) -> int:
    """Where a patch fails, by the words that tell why: the line of the hunk, else the hunk, the diff, the subject."""
    for file in text.files:
        if not _named(file, detail):
            continue
        for hunk in file.hunks:
            if hunk.header.decode("ascii", "replace") in detail or _starts_at(hunk, detail):
                return _expected(hunk, detail)
        return file.number
    if found := _NUMBERED.search(detail):
        return int(found.group(1))
    return text.subject_line


def edited_line(text: PatchText, path: str, diff: str) -> int:
    """Where a patch says something else than its fork commit, by the diff from the series' file to the fork's: an added
    line that the fork does not have, else the place where one of the fork's is missing, else the file's diff."""
    wanted = path.encode("utf-8", "replace")
    file = next((one for one in text.files if wanted in (one.old, one.new)), None)
    if file is None:
        return text.subject_line
    lines = diff.encode("utf-8", "replace").split(b"\n")
    body = [line for line in lines if not line.startswith((b"--- ", b"+++ ", b"@@ "))]
    ours = {line[1:] for line in body if line.startswith(b"-")}
    for line in file.added:
        if line.text in ours:
            return line.number
    for at, shown in enumerate(body):
        if shown.startswith(b"+") and at:
            before = next(
                (line.number for line in file.lines if line.text == body[at - 1][1:] and line.text.strip()), None
            )
            if before is not None:
                return before
    return file.number


def added_line(text: PatchText, path: str) -> int:
    """Where a patch begins to change a file."""
    wanted = path.encode("utf-8", "replace")
    return next((one.number for one in text.files if wanted in (one.old, one.new)), text.subject_line)


def _named(file: PatchedFile, detail: str) -> bool:
    for path in {file.old, file.new} - {None}:
        assert path is not None
        if re.search(rf"(?<![\w/.-]){re.escape(path.decode('utf-8', 'replace'))}(?![\w/-])", detail):
            return True
    return False


def _starts_at(hunk: PatchedHunk, detail: str) -> bool:
    found = _OLD_LINE.search(detail)
    return found is not None and int(found.group(1)) == hunk.old_start


def _expected(hunk: PatchedHunk, detail: str) -> int:
    """The line of a hunk that was expected and not found; the hunk's own where that is not told."""
    at = detail.find(hunk.header.decode("ascii", "replace"))
    found = _EXPECTED.search(detail, max(at, 0))
    if found is None:
        return hunk.number
    told = found.group(1)
    start = told.removesuffix("...") if told.endswith("...") else None
    for line in hunk.lines:
        said = line.text.decode("utf-8", "replace")
        if line.sign != b"+" and (said == told or (start is not None and said.startswith(start))):
            return line.number
    return hunk.number
