"""Count the findings of lint, for commands that also show other results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchstack.errors import PatchstackError
from patchstack.git.objects import Commit, Objects
from patchstack.series.files.directory import Series
from patchstack.series.lint.runner import lint, waiver_problems
from patchstack.series.verify.prefix_trees import Link
from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LintState:
    """The number of findings for each rule, and the number of waived findings.

    `problem` is the reason why lint could not run.
    """

    findings: Mapping[str, int]
    waived: int
    problem: str | None = None

    @property
    def count(self) -> int:
        return sum(self.findings.values())


def lint_state(
    config: SeriesConfig, objects: Objects, series: Series, base: Commit, links: Sequence[Link]
) -> LintState:
    """Check a series with every rule.

    `links` contains the results of applying its patches. Does not raise. An error is stored in `problem`.
    """
    unusable = waiver_problems(config.waive)
    if unusable:
        return LintState(findings={}, waived=0, problem=unusable[0])
    try:
        result = lint(objects, series, base, config.lint, config.waive, links=links)
    except PatchstackError as error:
        return LintState(findings={}, waived=0, problem=" ".join(error.message.split()))
    counted = Counter(finding.rule for finding in result.findings)
    return LintState(findings=dict(counted.most_common()), waived=len(result.waived))
