"""Rule `size`: patches and additions must be small enough to review."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject, named

ID = "size"


def check(subject: Subject) -> Iterator[Finding]:
    """Report patch files above the limit, and files to which one patch adds too many lines."""
    policy = subject.policy
    for patch in subject.patches:
        kib = -(-len(patch.file.data or b"") // 1024)
        if kib > policy.patch_kib:
            yield patch.finding(ID, 1, f"the patch has {kib:,} KiB, more than {policy.patch_kib:,}")
        for file in patch.text.files:
            count = len(file.added)
            if count > policy.file_lines:
                message = f"{named(file.path)}: {count:,} added lines, more than {policy.file_lines:,}"
                yield patch.finding(ID, file.number, message)


RULE = Rule(
    id=ID,
    reason="a patch that is too large to read is not reviewed, and a wrong file can hide in it",
    check=check,
)
