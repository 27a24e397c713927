"""Read the mail header of a patch file.

The mail header consists of the lines that `git format-patch` writes before the body of the commit message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.git.objects import NULL_ID

_FROM_LINE = re.compile(rb"From ([0-9a-f]{40}) ")
_PATCH_TAG = re.compile(r"\s*\[[^\]]*\bPATCH\b[^\]]*\]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMail:
    """The header of a patch file.

    `commit` is the id in the `From` line. It is None if the id is missing or contains only zeros. `subject` is the
    subject of the commit without `[PATCH n/m]`. It is empty if the file has no mail header.
    """

    commit: str | None
    subject: str


def read_mail(data: bytes) -> PatchMail:
    """Read the header of a patch file.

    Does not raise: the subject of a file without a header is empty.
    """
    head = data[: 64 * 1024]
    commit = None
    found = _FROM_LINE.match(head)
    if found:
        commit = found.group(1).decode("ascii")
        head = head.partition(b"\n")[2]
        if commit == NULL_ID:
            commit = None
    subject: list[bytes] = []
    collecting = False
    for line in head.split(b"\n"):
        line = line.rstrip(b"\r")
        if not line or line.startswith((b"diff --git ", b"--- ")):
            break
        if collecting and line[:1] in (b" ", b"\t"):
            subject.append(line.strip())
            continue
        collecting = False
        if line[:8].lower() == b"subject:" and not subject:
            subject.append(line[8:].strip())
            collecting = True
    text = _decoded(b" ".join(subject))
    tag = _PATCH_TAG.match(text)
    return PatchMail(commit=commit, subject=text[tag.end() :].strip() if tag else text)


def _decoded(subject: bytes) -> str:
    """Return the text of a header.

    RFC 2047 words are decoded. Other text is read as UTF-8.
    """
    if b"=?" not in subject:
        return subject.decode("utf-8", "replace")
    from email.errors import HeaderParseError
    from email.header import decode_header, make_header

    try:
        return str(make_header(decode_header(subject.decode("ascii", "replace"))))
    except (HeaderParseError, LookupError, UnicodeDecodeError, ValueError):
        return subject.decode("utf-8", "replace")
