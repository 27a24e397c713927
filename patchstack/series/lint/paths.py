"""Rule `paths`: patches touch only source files, not results, models or build outputs."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.series.lint.globs import matching
from patchstack.series.lint.rule import Finding, Rule, Subject, named
from patchstack.workspace import LintPolicy

ID = "paths"


def path_complaint(path: str, policy: LintPolicy, *, upstreams: bool) -> str | None:
    """Return the reason why the policy forbids a patch to touch a path. Return None if the policy allows it.

    `upstreams` is true if the pin has the file. Only files that the series adds can be scratch files.
    """
    denied = matching(path, policy.deny)
    if denied:
        return f"{path}: no patch may touch {denied}"
    if matching(path, policy.allow) is None:
        return f"{path}: not among the paths that patches may touch ({', '.join(policy.allow)})"
    scratch = None if upstreams else matching(path, policy.scratch)
    if scratch:
        return f"{path}: {scratch} is scratch, not source: keep it out of the product's tree"
    return None


def check(subject: Subject) -> Iterator[Finding]:
    """Check every path that a patch touches, once for each patch.

    The old path of a removed or renamed file is skipped if the pin does not have it. An earlier patch added that path,
    and the path was checked for that patch.
    """
    for patch in subject.patches:
        seen: set[bytes] = set()
        for file in patch.text.files:
            for path in (file.old, file.new):
                if path is None or path in seen:
                    continue
                seen.add(path)
                upstreams = subject.contents.has(subject.base_tree, path)
                if path != file.new and not upstreams:
                    continue
                complaint = path_complaint(named(path), subject.policy, upstreams=upstreams)
                if complaint:
                    yield patch.finding(ID, file.number, complaint)


RULE = Rule(
    id=ID,
    reason="notes, results, models and build outputs in a patch end up in every product build",
    check=check,
)
