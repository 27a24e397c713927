"""Patches and additions that nobody can review."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject, named

ID = "size"


def check(subject: Subject) -> Iterator[Finding]:
    """Patch files over the limit, and files to which one patch adds more lines than the limit."""
    policy = subject.policy
    for patch in subject.patches:
        kib = -(-len(patch.file.data or b"") // 1024)
        if kib > policy.patch_kib:
            yield patch.finding(ID, 1, f"the patch has {kib:,} KiB, over {policy.patch_kib:,}")
        for file in patch.text.files:
            count = len(file.added)
            if count > policy.file_lines:
                message = f"{named(file.path)}: {count:,} added lines, over {policy.file_lines:,}"
                yield patch.finding(ID, file.number, message)


RULE = Rule(
    id=ID,
    reason="what is too large to be read is not reviewed, and one odd file can hide in it",
    check=check,
)
