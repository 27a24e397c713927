"""Rule `whitespace`: no invisible blanks, because they cause conflicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from patchstack.git.patch.text import PatchedFile
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject, also, each_applied, named

ID = "whitespace"
_TRAILING = re.compile(rb"[ \t]\r?\Z")
_ENDS = (b" \n", b"\t\n", b" \r\n", b"\t\r\n")
_SPACE_TAB = re.compile(rb"[ \t]* \t")
_HARD_BREAK = re.compile(rb"[^ \t]  \r?\Z")


def check(subject: Subject) -> Iterator[Finding]:
    """Report added lines with trailing blanks, a space before a tab in the indent, or a CR at the end.

    Each kind is reported once per file, and only if the file did not contain this kind before. Two cases are allowed: a
    new file in which every line ends with a CR, and two spaces at the end of a line of Markdown.
    """
    for patch in each_applied(subject):
        for file in patch.text.files:
            if file.new is not None:
                yield from _check_file(subject, patch, file)


def _check_file(subject: Subject, patch: LintedPatch, file: PatchedFile) -> Iterator[Finding]:
    added = file.added
    joined = b"\n".join([line.text for line in added]) + b"\n"
    soft = named(file.path).endswith((".md", ".markdown"))
    kinds: dict[str, Callable[[bytes], bool]] = {
        "trailing blanks": lambda text: bool(_TRAILING.search(text)) and not (soft and bool(_HARD_BREAK.search(text))),
        "a space before a tab": lambda text: bool(_SPACE_TAB.match(text)),
        "a CR at the end of the line": lambda text: text.endswith(b"\r"),
    }
    marks = {"trailing blanks": _ENDS, "a space before a tab": (b" \t",), "a CR at the end of the line": (b"\r\n",)}
    for what, holds in kinds.items():
        if not any(mark in joined for mark in marks[what]):
            continue
        numbers = [line.number for line in added if holds(line.text)]
        if not numbers:
            continue
        known = _known(subject, patch, file)
        if any(holds(text) for text in known) or (not known and what.startswith("a CR") and len(numbers) == len(added)):
            continue
        yield patch.finding(ID, numbers[0], f"{named(file.path)}: {what}{also(numbers[1:])}")


def _known(subject: Subject, patch: LintedPatch, file: PatchedFile) -> list[bytes]:
    """Return the lines of the file at the pin or, if the pin does not have it, before this patch.

    The list is empty if the patch creates the file.
    """
    path = file.old or file.path
    return subject.pin_lines(path) or subject.contents.lines(patch.link.before, path) or []


RULE = Rule(
    id=ID,
    reason="invisible blanks cause diffs and conflicts that are hard to understand",
    check=check,
)
