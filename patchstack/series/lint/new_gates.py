"""Rule `new-gate`: every `New-Gate` trailer names a gate, so that `accept` can find the gate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject
from patchstack.series.lint.trailers import trailers_of

ID = "new-gate"
_NAME = re.compile(r"(?:[^\s,/]+/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def check(subject: Subject) -> Iterator[Finding]:
    """Report `New-Gate` trailers that name no gate."""
    for patch in subject.patches:
        values = [trailer.value for trailer in trailers_of(patch) if trailer.key.lower() == "new-gate"]
        for value in values:
            bad = [name for name in re.split(r"[\s,]+", value) if not _NAME.match(name)]
            if bad:
                told = f"names no gate with {bad[0]!r}" if bad[0] else "names no gate"
                yield patch.finding(ID, patch.text.subject_line, f"New-Gate {told}: NAME or SUITE/NAME")


RULE = Rule(
    id=ID,
    reason="accept runs the gate that a patch adds, without the patch and with it",
    check=check,
)
