"""Every patch can be read, and applies."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.git.apply import Problem
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject

ID = "unreadable"


def check(subject: Subject) -> Iterator[Finding]:
    """Patches that are malformed or do not apply after the patches before them. One without a diff is `duplicate`'s."""
    for patch in subject.patches:
        if patch.applied or (not patch.text.files and patch.file.data is not None and not _is_odd(patch)):
            continue
        for problem in patch.link.outcome.problems if patch.link.outcome else ():
            yield patch.finding(ID, _line(patch, problem), f"{problem.fault}: {problem.detail}")


def _is_odd(patch: LintedPatch) -> bool:
    """Whether something in a file without a diff might have been meant for one."""
    return any(line.text.startswith((b"@@ ", b"diff --git ")) for line in patch.text.outside)


def _line(patch: LintedPatch, problem: Problem) -> int:
    """The line of the patch file a problem is about, as near as it can be told: the hunk, the diff, or the first."""
    for file in patch.text.files:
        if problem.path.encode("utf-8", "replace") in (file.old, file.new) and problem.path:
            for hunk in file.hunks:
                if hunk.header.decode("ascii", "replace") in problem.detail:
                    return hunk.number
            return file.number
    return 1


RULE = Rule(
    id=ID,
    reason="a patch that does not apply was checked by no other rule, and cannot be shipped",
    check=check,
)
