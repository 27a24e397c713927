"""Anchored patches carry our lines, not upstream's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject, also, named, shown

ID = "anchored"
_LONGER_THAN = 20
_COMMON = 3
_BOILERPLATE = re.compile(rb"#\s*(?:include|pragma|if|ifdef|ifndef|else|elif|endif)\b")
_WORD = re.compile(rb"\w{3,}")


def check(subject: Subject) -> Iterator[Finding]:
    """Added lines of an anchored patch that the pin's file has word for word: longer than 20 characters, no
    preprocessor boilerplate, and not so common that the file has them more than three times. Once a file."""
    for patch in subject.patches:
        if not patch.file.anchored:
            continue
        for file in patch.text.files:
            pin = Counter(text.strip() for text in subject.pin_lines(file.old or file.path) or ())
            same = [
                line for line in file.added if _telling(line.text.strip()) and 0 < pin[line.text.strip()] <= _COMMON
            ]
            if same:
                rest = also(line.number for line in same[1:])
                message = f"{named(file.path)}: adds a line that upstream's file has: {shown(same[0].text)}{rest}"
                yield patch.finding(ID, same[0].number, message)


def _telling(text: bytes) -> bool:
    return len(text) > _LONGER_THAN and not _BOILERPLATE.match(text) and _WORD.search(text) is not None


RULE = Rule(
    id=ID,
    reason="an anchored patch is published because it holds no line of upstream's: one that does breaks that",
    check=check,
)
