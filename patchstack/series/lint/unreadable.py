"""Rule for readable patches: every patch can be read, and applies."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject

ID = "unreadable"


def check(subject: Subject) -> Iterator[Finding]:
    """Report patches that are malformed or do not apply after the patches before them. Rule `duplicate` reports empty
    ones."""
    for patch in subject.patches:
        if patch.applied or (not patch.text.files and patch.file.data is not None and not _is_odd(patch)):
            continue
        for problem in patch.link.outcome.problems if patch.link.outcome else ():
            yield patch.finding(ID, problem.line or 1, f"{problem.fault}: {problem.detail}")


def _is_odd(patch: LintedPatch) -> bool:
    """Return whether a file without a diff contains something that looks like one."""
    return any(line.text.startswith((b"@@ ", b"diff --git ")) for line in patch.text.outside)


RULE = Rule(
    id=ID,
    reason="a patch that does not apply was checked by no other rule, and cannot be shipped",
    check=check,
)
