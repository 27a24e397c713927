"""The verdict of a log: whether its figures add up, and whether they are what was expected."""

from __future__ import annotations

from collections.abc import Sequence

from patchstack.llama.traces.contradictions import Finding
from patchstack.llama.traces.expectations import Answer
from patchstack.verdict import Verdict

_OF = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.INVALID}


def verdict_of_finding(finding: Finding) -> Verdict:
    """PASS if it holds, FAIL for a contradiction, INVALID if the log does not show it."""
    return _OF[finding.holds]


def verdict_of_answer(answer: Answer) -> Verdict:
    """PASS if the log shows what was expected, FAIL if it shows otherwise, INVALID if it shows neither."""
    return _OF[answer.holds]


def usable(findings: Sequence[Finding]) -> bool:
    """Whether every figure of the log may be used: nothing in it contradicts."""
    return not any(one.holds is False for one in findings)
