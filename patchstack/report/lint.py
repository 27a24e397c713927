"""`patchstack lint` as a table and one line, and as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from patchstack.report.table import Give, Table
from patchstack.report.text import counted
from patchstack.series.lint.rule import Finding, Rule
from patchstack.series.lint.runner import LintResult

SCHEMA = "patchstack.lint/1"


def lint_table(result: LintResult) -> Table:
    """Every finding: patch number (file name where it has none), line of the file, rule, message.

    A message is folded, never cut: its end is what to do.
    """
    rows = [
        (
            finding.file if finding.number is None else f"{finding.number:04d}",
            str(finding.line),
            finding.rule,
            finding.message,
        )
        for finding in result.findings
    ]
    gives = {"patch": Give.MIDDLE, "message": Give.FOLD}
    return Table(titles=("patch", "line", "rule", "message"), rows=rows, styles={}, gives=gives)


def lint_line(result: LintResult) -> str:
    """How many findings, of which rules, and how many were waived."""
    waived = f"; {len(result.waived)} waived" if result.waived else ""
    if result.clean:
        return f"{result.series}: clean: {counted(result.patch_count, 'patch', 'patches')}{waived}"
    rules = Counter(finding.rule for finding in result.findings)
    told = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items(), key=lambda item: (-item[1], item[0])))
    touched = len({finding.file for finding in result.findings if finding.number is not None})
    where = f" in {touched} of {counted(result.patch_count, 'patch', 'patches')}" if touched else ""
    return f"{result.series}: {counted(len(result.findings), 'finding', 'findings')}{where} ({told}){waived}"


def rules_table(rules: Sequence[Rule]) -> Table:
    """Every rule with its reason."""
    rows = [(rule.id, rule.reason) for rule in rules]
    return Table(titles=("rule", "reason"), rows=rows, styles={}, gives={"reason": Give.FOLD})


def rules_document(rules: Sequence[Rule]) -> list[dict[str, str]]:
    """The rules as the document lists them."""
    return [{"id": rule.id, "reason": rule.reason} for rule in rules]


def lint_document(result: LintResult, rules: Sequence[Rule]) -> dict[str, Any]:
    """The document `patchstack.lint/1`."""
    return {
        "schema": SCHEMA,
        "series": result.series,
        "base": {"commit": result.base_commit},
        "patch_count": result.patch_count,
        "clean": result.clean,
        "rules": rules_document(rules),
        "findings": [_finding(finding) for finding in result.findings],
        "waived": [{**_finding(waived.finding), "why": waived.why} for waived in result.waived],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "file": finding.file,
        "number": finding.number,
        "line": finding.line,
        "message": finding.message,
    }
