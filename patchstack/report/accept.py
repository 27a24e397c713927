"""Show `patchstack accept` on a screen: the plan and the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from patchstack.report.text import patch_count, printable
from patchstack.series.mirror.export import ExportPlan
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.accept import Terms
from patchstack.workflow.candidate.acceptance import Accepted, PlannedBuild
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workflow.candidate.new_gates import BEFORE


def plan_lines(way: CandidateRange, terms: Terms, builds: Iterable[PlannedBuild], ledger: Path) -> Iterator[str]:
    """Yield the planned steps in order. For each build, show whether it is already stored."""
    yield f"accept {', '.join(commit.oid[:12] for commit in way.new)} of {way.config.name}:"
    yield f"  verify     the series against the fork at {way.before.oid[:12]}"
    yield "  lint       the series with the candidate"
    for check in way.config.checks:
        yield f"  check      {check.node.get('name')}"
    for one in builds:
        yield f"  build      {one.which} {one.commit[:12]}: {one.key[:12]}, {'known' if one.known else 'to be built'}"
        if terms.known_gates is not None:
            yield f"  gates      {one.which}: suite {terms.known_gates.name}"
        for new in terms.brings.gates:
            must = "must not PASS" if one.which == BEFORE else "must PASS"
            yield f"  new gate   {one.which}: {new.title}, which {must}"
    for unproven in terms.brings.unproven:
        yield f"  switch     {', '.join(unproven.switches)}: unproven, {printable(terms.brings.reason)}"
    for term in terms.bench:
        yield f"  bench      {term.name}: a comparison of the two builds that meets the demand {term.demand}"
    yield f"  decision   {ledger}"
    yield f"  export     {way.config.patches}"


def exported_line(plan: ExportPlan) -> str:
    """Return the line that shows how many patches an acceptance exported, and where."""
    return f"exported: {patch_count(len(plan.files))} in {plan.directory}"


def accepted_line(done: Accepted) -> str:
    """Return the last line: whether the candidate was accepted and, if not, why."""
    if done.decision is not None:
        commits = ", ".join(commit[:12] for commit in done.commits)
        return f"accepted {commits}: the series {done.series} has it now"
    bad = ", ".join(step.name for step in done.steps if step.verdict is not Verdict.PASS)
    return f"not accepted: {bad}. The series is unchanged"
