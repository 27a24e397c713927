"""Rule `anchored`: an anchored patch adds no copies of upstream lines."""

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
    """Report added lines of an anchored patch that are also in the pin's file, once for each file.

    Four kinds of lines are ignored: lines of up to 20 characters, lines without a word of at least three characters,
    preprocessor boilerplate, and lines that occur more than three times in the pin's file.
    """
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
    reason="an anchored patch may be published only if it contains no upstream lines",
    check=check,
)
