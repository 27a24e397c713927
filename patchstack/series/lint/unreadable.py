"""Rule `unreadable`: every patch can be read and applied."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.git.patch.effort import LARGEST, MOST_FILES, MOST_HUNKS, MOST_LINES, bulky
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject
from patchstack.workspace import LintPolicy

ID = "unreadable"
_NEWLINE = b"\n"


def readable(data: bytes | None, policy: LintPolicy) -> bytes:
    """Return the text of a patch for the rules.

    The text is empty if `data` is None, or if checking the patch would take much longer than git needs to read it. If
    the policy sets a size limit that the patch does not exceed, the patch is read anyway.
    """
    if data is None:
        return b""
    if policy.patch_kib != LintPolicy().patch_kib and len(data) <= policy.patch_kib << 10:
        return data
    return b"" if bulky(data) else data


def check(subject: Subject) -> Iterator[Finding]:
    """Report patches that are malformed, are too large to check, or do not apply after the patches before them.

    Empty patches are reported by rule `duplicate`.
    """
    for patch in subject.patches:
        if patch.file.data and not patch.data:
            many = f"{len(patch.file.data) / 1e6:.1f} MB, {patch.file.data.count(_NEWLINE):,} lines"
            most = f"{LARGEST >> 20} MiB, {MOST_LINES:,} lines, {MOST_FILES:,} files and {MOST_HUNKS:,} hunks"
            told = f"it is too large for the rules: {many}. Rules read {most}"
            yield patch.finding(ID, 1, f"{told}; lint: {{size: {{patch_kib: N}}}} lets them read more")
            continue
        if patch.applied or (not patch.text.files and patch.file.data is not None and not _is_odd(patch)):
            continue
        for problem in patch.link.outcome.problems if patch.link.outcome else ():
            yield patch.finding(ID, problem.line or 1, f"{problem.fault}: {problem.detail}")


def _is_odd(patch: LintedPatch) -> bool:
    """Return whether a patch file without a diff contains something that looks like a diff."""
    return any(line.text.startswith((b"@@ ", b"diff --git ")) for line in patch.text.outside)


RULE = Rule(
    id=ID,
    reason="a patch that does not apply cannot be shipped, and no other rule checks it",
    check=check,
)
