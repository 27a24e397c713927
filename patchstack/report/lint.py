"""Show the result of `patchstack lint` as a table and a summary line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from patchstack.report.table import Give, Table
from patchstack.report.text import counted, patch_count
from patchstack.series.lint.rule import Rule
from patchstack.series.lint.runner import LintResult
from patchstack.verdict import Verdict


def lint_table(result: LintResult) -> Table:
    """Return a table of every finding: patch number, line of the file, rule, and message.

    A file without a number is shown by name. Messages are wrapped and never cut, because their end states what to do.
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
    """Return the summary line: the number of findings for each rule, and the number of waived findings."""
    waived = f"; {len(result.waived)} waived" if result.waived else ""
    if result.clean:
        return f"{Verdict.PASS}  {result.series}: clean: {patch_count(result.patch_count)}{waived}"
    rules = Counter(finding.rule for finding in result.findings)
    told = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items(), key=lambda item: (-item[1], item[0])))
    touched = len({finding.file for finding in result.findings if finding.number is not None})
    where = f" in {touched} of {patch_count(result.patch_count)}" if touched else ""
    return f"{Verdict.FAIL}  {result.series}: {counted(len(result.findings), 'finding')}{where} ({told}){waived}"


def rules_table(rules: Sequence[Rule]) -> Table:
    """Return a table of every rule and the reason for it."""
    rows = [(rule.id, rule.reason) for rule in rules]
    return Table(titles=("rule", "reason"), rows=rows, styles={}, gives={"reason": Give.FOLD})
