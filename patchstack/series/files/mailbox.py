"""Read mailboxes, which are files with several patches. A mail without a diff may be a cover letter."""

from __future__ import annotations

import re

# As in `git mailsplit`, a mail starts with a From line that has a time and a year, followed by a header.
_MAIL = re.compile(rb"^From [^\n]*\d:\d\d:\d\d \d{4}\r?\n(?=[A-Za-z][A-Za-z0-9-]*:[ \t])", re.MULTILINE)
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]*\n\+\+\+ |@@ -\d|GIT binary patch|Binary files |Index: )", re.MULTILINE)
_COVER = re.compile(rb"^Subject:[^\n[]{0,99}\[[^]\n]{0,99}\b0+/\d+\]", re.MULTILINE | re.IGNORECASE)
_HEAD = 64 * 1024


def split_mails(data: bytes) -> list[tuple[int, bytes]]:
    """Return the mails of a mailbox in order, each with the line on which it begins, from 1.

    A file that is not a mailbox, or has only one mail, is returned whole.
    """
    starts = [found.start() for found in _MAIL.finditer(data)] if b"\nFrom " in data else []
    if len(starts) < 2 or data[: starts[0]].strip():
        return [(1, data)]
    ends = [*starts[1:], len(data)]
    return [(data.count(b"\n", 0, start) + 1, data[start:end]) for start, end in zip(starts, ends, strict=True)]


def has_diff(data: bytes) -> bool:
    """Return whether a text contains something that looks like a diff."""
    return _DIFF.search(data.replace(b"\r\n", b"\n") if b"\r\n" in data else data) is not None


def is_cover(data: bytes, number: int | None) -> bool:
    """Return whether a text is a cover letter.

    A cover letter has text but no diff, and its file name or subject has the number 0.
    """
    if number != 0:
        end = data.find(b"\ndiff --git ", 0, _HEAD)
        head = data[: end if end >= 0 else _HEAD]
        if b"0/" not in head or _COVER.search(head) is None:
            return False
    return bool(data.strip()) and not has_diff(data)
