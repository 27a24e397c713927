"""Read the text before the diffs of a patch that is not a mail.

The text is a Mercurial header, a Debian (DEP-3) header, or plain prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.git.patch.text import read_text

# Tools write these lines directly before a diff, so they belong to the diff.
_LEAD = re.compile(rb"(?:Index: |diff -|={5,}\r?\Z)")
_MERCURIAL = re.compile(rb"# (User|Date) +([^\n]*)")
_FIELD = re.compile(rb"(Description|Subject|Author|From):[ \t]*([^\n]*)", re.IGNORECASE)
_PERSON = re.compile(rb"[^<>\n]*\S[ \t]*<[^<>\s]+>\Z")
_LONGEST = 120
_DIFF = re.compile(rb"^(?:diff |--- |\+\+\+ |@@ -|Index: |From )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The contents of a header.

    `subject` is the title. `author` has the form `Name <address>`. `date` has a form that git reads. A field is empty
    if the header lacks it. `body` is the rest of the text.
    """

    subject: bytes
    author: bytes
    date: bytes
    body: bytes


def head_text(data: bytes) -> bytes:
    """Return the text of a patch before its first diff.

    Return the complete text if it has no diff.
    """
    files = read_text(data).files
    if not files:
        return data
    lines = data.split(b"\n")[: files[0].number - 1]
    while lines and _LEAD.match(lines[-1]):
        lines.pop()
    return b"".join(line + b"\n" for line in lines)


def read_head(data: bytes) -> Head:
    """Read the header of a patch that is not a mail.

    Does not raise: text of an unknown form becomes the body.
    """
    text = head_text(data).replace(b"\r\n", b"\n")
    if text.startswith(b"# HG changeset patch\n"):
        return _mercurial(text)
    subject = author = b""
    rest: list[bytes] = []
    for line in text.split(b"\n"):
        found = _FIELD.match(line)
        name = found[1].lower() if found else b""
        value = found[2].strip() if found else b""
        if name in (b"description", b"subject") and not subject and value:
            subject = value
            continue
        if name in (b"author", b"from") and not author and _PERSON.match(value):
            author = value
        rest.append(b"" if line.strip() == b"." else line.removeprefix(b" ") if subject else line)
    if len(subject) > _LONGEST:
        subject, rest = b"", [subject, *rest]
    return Head(subject=subject, author=author, date=b"", body=_harmless(b"\n".join(rest).strip(b"\n")))


def _harmless(body: bytes) -> bytes:
    """Return the message in a form that `git apply` does not read as a diff.

    If necessary, all lines are indented.
    """
    if _DIFF.search(body) is None:
        return body
    return b"\n".join(b"    " + line if line else line for line in body.split(b"\n"))


def _mercurial(text: bytes) -> Head:
    lines = text.split(b"\n")
    comments = [line for line in lines if line.startswith(b"# ")]
    said = {found[1]: found[2].strip() for line in comments if (found := _MERCURIAL.match(line))}
    body = b"\n".join(line for line in lines if not line.startswith(b"#")).strip(b"\n")
    subject, _, rest = body.partition(b"\n")
    user = said.get(b"User", b"")
    return Head(
        subject=subject.strip(),
        author=user if _PERSON.match(user) else b"",
        date=_date(said.get(b"Date", b"")),
        body=_harmless(rest.strip(b"\n")),
    )


def _date(text: bytes) -> bytes:
    """Convert Mercurial's date (seconds since 1970, and seconds west of UTC) to a form that git reads."""
    found = re.fullmatch(rb"(\d{1,12}) (-?\d{1,6})", text)
    if found is None:
        return b""
    minutes = -int(found[2]) // 60
    return b"@%s %s%02d%02d" % (found[1], b"-" if minutes < 0 else b"+", abs(minutes) // 60, abs(minutes) % 60)
