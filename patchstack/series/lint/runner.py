"""Run the rules, apply the waivers and return the findings. This module does not print or write."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects
from patchstack.git.patch.text import read_text
from patchstack.series.files.directory import Series
from patchstack.series.files.names import is_patch
from patchstack.series.lint import (
    additive,
    anchored,
    duplicates,
    home_paths,
    message,
    names,
    new_gates,
    numbering,
    paths,
    scope,
    secrets,
    size,
    trailers,
    unreadable,
    whitespace,
)
from patchstack.series.lint.rule import Contents, Finding, LintedPatch, Rule, Subject
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.tasks import counted, task
from patchstack.workspace import LintPolicy, Waiver

_CHECKED = (
    *(unreadable, numbering, names, duplicates, message, trailers, new_gates),
    *(paths, scope, additive, anchored, size, whitespace, secrets, home_paths),
)
UNUSED = Rule(
    id="unused-waiver",
    reason="an unused waiver hides the next finding, which no one has reviewed",
    check=lambda _: (),
)
_OF_FILES = (unreadable, numbering, size)
RULES: tuple[Rule, ...] = (*(module.RULE for module in _CHECKED), UNUSED)

# These rules cannot be waived: a patch that they report cannot be shipped, and an unused waiver must be removed.
_NEVER_WAIVED = frozenset({unreadable.ID, UNUSED.id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """A waived finding, with the reason of its waiver."""

    finding: Finding
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """The result of lint for a series.

    `findings` are ordered by patch and line. Waived findings are separate.
    """

    series: str
    base_commit: str
    patch_count: int
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...]

    @property
    def clean(self) -> bool:
        return not self.findings


def waiver_problems(waivers: Sequence[Waiver]) -> list[str]:
    """Return the problems of waivers, each with file and line.

    A waiver must name an existing rule that can be waived, and state a reason. The result is empty if all waivers can
    be used.
    """
    known = [rule.id for rule in RULES if rule.id not in _NEVER_WAIVED]
    problems = []
    for waiver in waivers:
        where = f"{waiver.file}:{waiver.line}: waive"
        if waiver.rule in _NEVER_WAIVED:
            problems.append(f"{where}: {waiver.rule} cannot be waived")
        elif waiver.rule not in known:
            near = difflib.get_close_matches(waiver.rule, known, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"the rules are {', '.join(known)}"
            problems.append(f"{where}: there is no rule {waiver.rule}, {hint}")
        if not waiver.why.strip():
            problems.append(f"{where}: a waiver of {waiver.rule} needs a reason: why")
    return problems


def lint(
    objects: Objects,
    series: Series,
    base: Commit,
    policy: LintPolicy,
    waivers: Sequence[Waiver] = (),
    *,
    links: Sequence[Link] = (),
) -> LintResult:
    """Check a series on its pin with every rule.

    The waivers must have no `waiver_problems`. A patch that cannot be read or does not apply is a finding. The other
    patches are then checked without it. `links` contains the results of applying the patches, if known. If a patch was
    not tried, all patches are applied again.

    Raises `MissingObject` if the content of a touched file is not available.
    """
    if len(links) != len(series.patches) or any(link.outcome is None for link in links):
        with Applier(objects, base.tree) as applier:
            links = apply_series(applier, series, keep_going=True)
    subject = Subject(
        series=series,
        patches=tuple(
            LintedPatch(file=link.patch, data=data, text=read_text(data), link=link)
            for link in links
            for data in (unreadable.readable(link.patch.data, policy),)
        ),
        base_tree=base.tree,
        contents=Contents(objects),
        policy=policy,
        others=_others(series.directory),
    )
    with task("checking rules") as this:
        rules = counted(_CHECKED, this, len(_CHECKED), lambda module: module.RULE.id)
        # Only rule `unreadable` reports a patch that is too large to read. Other rules would give wrong findings, for
        # example a missing subject.
        read = replace(subject, patches=tuple(one for one in subject.patches if one.data or not one.file.data))
        found = [f for module in rules for f in module.RULE.check(subject if module in _OF_FILES else read)]
    findings, waived = _waived(found, waivers)
    order = {patch.file: place for place, patch in enumerate(series.patches)}
    findings.sort(key=lambda finding: (order.get(finding.file, len(order)), finding.line))
    return LintResult(
        series=series.name,
        base_commit=base.oid,
        patch_count=len(series.patches),
        findings=tuple(_safe(finding) for finding in findings),
        waived=tuple(Waived(finding=_safe(one.finding), why=one.why) for one in waived),
    )


def _waived(found: Sequence[Finding], waivers: Sequence[Waiver]) -> tuple[list[Finding], list[Waived]]:
    """Split the findings into remaining and waived findings. Unused waivers are also findings."""
    findings: list[Finding] = []
    waived: list[Waived] = []
    used: set[int] = set()
    for finding in found:
        fitting = [place for place, waiver in enumerate(waivers) if _is_for(waiver, finding)]
        used.update(fitting)
        if fitting:
            waived.append(Waived(finding=finding, why=waivers[fitting[0]].why))
        else:
            findings.append(finding)
    for place, waiver in enumerate(waivers):
        if place not in used:
            which = "any patch" if waiver.patch is None else f"patch {waiver.patch}"
            text = f"rule {waiver.rule} finds nothing in {which}: remove the waiver"
            findings.append(Finding(rule=UNUSED.id, file=waiver.file, line=waiver.line, message=text))
    return findings, waived


def _is_for(waiver: Waiver, finding: Finding) -> bool:
    return waiver.rule == finding.rule and finding.rule not in _NEVER_WAIVED and waiver.patch in (None, finding.number)


def _safe(finding: Finding) -> Finding:
    """Return the finding with secrets removed from its message, because any rule may quote a secret."""
    return replace(finding, message=secrets.redacted(finding.message))


def _others(directory: Path) -> tuple[str, ...]:
    """Return the names of the other files in a directory of patches."""
    try:
        return tuple(sorted(name for name in os.listdir(directory) if not is_patch(name)))
    except OSError:
        return ()
