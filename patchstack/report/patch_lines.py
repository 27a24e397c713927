"""The lines of a patch file that a remark is about."""

from __future__ import annotations

from patchstack.git.patch.text import PatchText


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
