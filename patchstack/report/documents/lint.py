"""`patchstack.lint/1`: what `patchstack lint` found in one series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from patchstack.checks.entries import CheckEntry, check_entries
from patchstack.checks.model import CheckRow
from patchstack.document import Document, Part, Printed
from patchstack.series.lint.rule import Finding, Rule
from patchstack.series.lint.runner import LintResult, Waived


class CommitEntry(Part, frozen=True, kw_only=True):
    """The pin: the full id of its commit."""

    commit: str


class RuleEntry(Part, frozen=True, kw_only=True):
    """A rule that was applied, and the reason for the rule."""

    id: str
    reason: str


class FindingEntry(Part, frozen=True, kw_only=True):
    """A finding on a line of a patch file.

    `line` is counted from 1. `number` is null if the file's name has no number.
    """

    rule: str
    file: str
    number: int | None
    line: int
    message: str


class WaivedEntry(FindingEntry, frozen=True, kw_only=True):
    """A waived finding. `why` is the reason for the waiver."""

    why: str


class LintDocument(Document, frozen=True, kw_only=True, tag="patchstack.lint/1"):
    """The findings of lint in one series.

    `clean` is true if every finding is waived. It does not depend on the checks of the series.
    """

    series: str
    base: CommitEntry
    patch_count: int
    clean: bool
    rules: tuple[RuleEntry, ...]
    findings: tuple[FindingEntry, ...]
    waived: tuple[WaivedEntry, ...]
    checks: tuple[CheckEntry, ...] = ()


class LintRules(Printed, frozen=True, kw_only=True):
    """The output of `patchstack lint --rules --json`: all lint rules, without a series."""

    rules: tuple[RuleEntry, ...]
    schema: Literal["patchstack.lint/1"] = "patchstack.lint/1"


def lint_document(result: LintResult, rules: Sequence[Rule], checks: Sequence[CheckRow] = ()) -> LintDocument:
    """Convert the findings of lint to their JSON document."""
    return LintDocument(
        series=result.series,
        base=CommitEntry(commit=result.base_commit),
        patch_count=result.patch_count,
        clean=result.clean,
        rules=rule_entries(rules),
        findings=tuple(map(_finding, result.findings)),
        waived=tuple(map(_waived, result.waived)),
        checks=check_entries(checks),
    )


def rule_entries(rules: Sequence[Rule]) -> tuple[RuleEntry, ...]:
    """Convert rules to entries of a document."""
    return tuple(RuleEntry(id=rule.id, reason=rule.reason) for rule in rules)


def _finding(finding: Finding) -> FindingEntry:
    return FindingEntry(
        rule=finding.rule, file=finding.file, number=finding.number, line=finding.line, message=finding.message
    )


def _waived(waived: Waived) -> WaivedEntry:
    return WaivedEntry(why=waived.why, **msgspec.structs.asdict(_finding(waived.finding)))
