"""Judge the comparisons of a decision again.

The comparisons are read from the files that the decision names. The results are compared with the decision's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchstack.bench.judge import Demand
from patchstack.errors import PatchstackError
from patchstack.evidence.ledger import Decision
from patchstack.evidence.store import Evidence
from patchstack.workflow.candidate.measured import drawn_again
from patchstack.workflow.ledger.finding import Findings


def check_comparisons(
    decision: Decision, kept: Evidence, builds: Mapping[str, Mapping[str, Any]], found: Findings
) -> None:
    """Judge every comparison of a decision again.

    `builds` contains the steps of the builds `before` and `candidate`.
    """
    steps = [step for step in decision.evidence.get("steps", ()) if isinstance(step, Mapping) and "bench" in step]
    drawn = 0
    for step in steps:
        if "comparison" in step:
            drawn += _check(step, decision, kept, builds, found)
    if drawn:
        what = (
            "1 comparison, drawn again from its runs"
            if drawn == 1
            else f"{drawn} comparisons, drawn again from their runs"
        )
        found.derived.append(what)
        found.asserted.append("that accept: required these comparisons, and that they really ran")


def _check(
    step: Mapping[str, Any],
    decision: Decision,
    kept: Evidence,
    builds: Mapping[str, Mapping[str, Any]],
    found: Findings,
) -> bool:
    what, bundle = str(step.get("name")), step.get("bundle")
    size = bundle.get("size") if isinstance(bundle, Mapping) else None
    digest = str(bundle.get("sha256")) if isinstance(bundle, Mapping) else ""
    content = kept.outputs.read(digest, size) if isinstance(size, int) else None
    if content is None:
        found.wrong.append(f"{what}: its comparison is missing, or does not match its digest")
        return False
    try:
        demand = Demand(str(step.get("demand")))
        keys = (str(builds["before"]["build"]), str(builds["candidate"]["build"]))
        before = decision.evidence.get("before")
        trees = (str(before.get("tree")) if isinstance(before, Mapping) else "", decision.candidates[-1].tree)
        files = (_files(builds["before"]), _files(builds["candidate"]))
        verdict, words = drawn_again(content, demand, trees, keys if step.get("variant") is None else None, files)
    except PatchstackError as error:
        found.wrong.append(f"{what}: {error.message}")
        return False
    except (KeyError, ValueError) as error:
        found.wrong.append(f"{what}: the step lacks an input of its verdict: {error}")
        return False
    if str(verdict) != step.get("verdict") or words not in str(step.get("detail")):
        found.wrong.append(f"{what}: the runs give {verdict} ({words}), but {step.get('verdict')} is recorded")
        return False
    return True


def _files(step: Mapping[str, Any]) -> dict[str, str]:
    programs = step.get("programs")
    return {str(name): str(digest) for name, digest in programs.items()} if isinstance(programs, Mapping) else {}
