"""Rule `numbering`: every patch has a number, and the numbers ascend in the order of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject

ID = "numbering"
_FOUR = re.compile(r"\d{4}[-_.]")


def check(subject: Subject) -> Iterator[Finding]:
    """Report file names without a four-digit number, and numbers that do not ascend."""
    highest, holder = -1, ""
    for patch in subject.patches:
        number = patch.file.number
        if number is None:
            yield patch.finding(ID, 1, "the file name has no number: it must start with four digits and a dash")
            continue
        if not _FOUR.match(patch.file.file):
            digits = re.match(r"\d+", patch.file.file)
            given = digits.group(0) if digits else ""
            yield patch.finding(ID, 1, f"the number {given} does not have four digits ({number:04d})")
        if number < highest:
            yield patch.finding(ID, 1, f"number {number} follows number {highest} ({holder}) in file order")
        else:
            highest, holder = number, patch.file.file


RULE = Rule(
    id=ID,
    reason="patches are applied in file name order and referred to by number: the two orders must agree",
    check=check,
)
