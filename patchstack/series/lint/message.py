"""Find lines of a message that `git am` misreads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from patchstack.git.patch.text import TextLine
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject, shown

ID = "message"

# git also recognizes these at the start of a body (mailinfo.c, header[] and check_header()).
_IN_BODY = re.compile(rb"(?i:(from|subject|date):\s)|>From [0-9a-f]{40} Mon Sep 17 00:00:00 2001\s*\Z|\[PATCH\]\s")


def check(subject: Subject) -> Iterator[Finding]:
    """Report lines of the message at which `git am` stops or loses text."""
    for patch in subject.patches:
        yield from _first_lines(patch)
        yield from _breaks(patch)


def ends_message(line: bytes) -> bool:
    """Return whether `git am` treats a line as the end of the message.

    Source: git's mailinfo.c, patchbreak.
    """
    if line.startswith((b"diff -", b"Index: ")):
        return True
    if not line.startswith(b"---"):
        return False
    return not line[3:].strip() or (line[3:4] == b" " and not line[4:5].isspace())


def starts_mail(line: bytes) -> bool:
    """Return whether `git am` treats a line as the start of the next mail.

    Source: git's mailsplit.c, is_from_line.
    """
    if len(line) < 19 or not line.startswith(b"From "):
        return False
    colon = line.rfind(b":", 5, len(line) - 1)
    if colon < 9:
        return False
    digits = [line[colon + offset : colon + offset + 1] for offset in (-4, -2, -1, 1, 2)]
    year = re.match(rb"\s*\+?(\d+)", line[colon + 3 :])
    return all(digit.isdigit() for digit in digits) and year is not None and int(year.group(1)) > 90


def kept_message(message: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines of a message before the line that `git am` treats as its end."""
    kept = []
    for line in message:
        if ends_message(line.text) or starts_mail(line.text):
            break
        kept.append(line)
    return kept


def _first_lines(patch: LintedPatch) -> Iterator[Finding]:
    for line in patch.text.message:
        if not line.text.strip():
            continue
        match = _IN_BODY.match(line.text + b"\n")
        if match is None:
            return
        taken = (match.group(1) or b"subject").decode().lower()
        if line.text.startswith(b">From"):
            yield patch.finding(ID, line.number, f"git am drops {shown(line.text)} at the start of a message")
        else:
            what = {"from": "the author", "date": "the author's date", "subject": "the subject"}[taken]
            message = f"git am treats {shown(line.text)} at the start of a message as {what}, and drops it"
            yield patch.finding(ID, line.number, message)


def _breaks(patch: LintedPatch) -> Iterator[Finding]:
    message = patch.text.message
    for place, line in enumerate(message):
        if starts_mail(line.text):
            told = f"git am treats {shown(line.text)} as the start of the next mail, and fails"
            yield patch.finding(ID, line.number, told)
            return
        if ends_message(line.text):
            lost = len(message) - place
            fails = any(rest.text.startswith(b"diff --git ") for rest in message[place:])
            effect = "and may fail at it" if fails else f"and loses {lost} line{'s' if lost > 1 else ''}"
            told = f"git am treats {shown(line.text)} as the end of the message, {effect}"
            yield patch.finding(ID, line.number, told)
            return


RULE = Rule(
    id=ID,
    reason="git am loses these lines of the message, or the whole patch",
    check=check,
)
