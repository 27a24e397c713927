"""A candidate that needs a comparison, from `patchstack.yaml` to the decision that a clone checks again."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from patchstack.evidence.ledger import Outcome
from patchstack.verdict import Verdict
from tests.support.comparisons import WORKLOADS, a_comparison
from tests.support.decided import Decided, decide

SUBJECT = "Faster rows"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decided:
    """Return a workspace that requires a comparison, with a candidate."""
    monkeypatch.setenv("PATCHSTACK_CACHE", str(tmp_path / "cache"))
    found = decide(tmp_path / "w", tmp_path / "cache")
    path = found.root / "patchstack.yaml"
    path.write_text(path.read_text() + WORKLOADS + "accept:\n  bench: [{workload: quick}]\n")
    found.toy.fork.repo.commit(SUBJECT, {"more.c": "int more;\n"})
    return found


def test_a_candidate_that_was_not_compared_is_not_accepted(made: Decided) -> None:
    done = made.accept("product")
    assert done.decision is None
    assert [step.name for step in done.steps if step.verdict is not Verdict.PASS] == ["bench quick"]


def test_a_decision_carries_its_comparison_and_a_clone_draws_it_again(made: Decided) -> None:
    a_comparison(*made.builds("product"))
    done = made.accept("product")
    assert done.decision is not None
    assert done.decision.outcome is Outcome.ACCEPTED
    assert made.wrong() == []
    found = next(one for one in made.check().decisions if one.decision.id == done.decision.id)
    assert "1 comparison, drawn again from its runs" in found.findings.derived

    step = next(one for one in done.decision.evidence["steps"] if "bench" in one)
    forged = made.evidence_document(done.decision)
    next(one for one in forged["steps"] if "bench" in one)["detail"] = "the demand keep is met: it is fast"
    decision = made.rewrite(done.decision, evidence=forged)
    assert any("bench quick: the runs give PASS" in text for text in made.wrong())

    kept = made.evidence.outputs.directory / f"{step['bundle']['sha256']}.gz"
    kept.write_bytes(gzip.compress(gzip.decompress(kept.read_bytes()).replace(b"cmF0", b"cmF1")))
    assert any("bench quick: its comparison is missing, or does not match its digest" in text for text in made.wrong())
    assert decision.outcome is Outcome.ACCEPTED


def test_a_decision_cannot_rest_on_the_comparison_of_another_candidate(made: Decided) -> None:
    before, candidate = made.builds("product")
    a_comparison(before, candidate)
    done = made.accept("product")
    assert done.decision is not None
    forged = made.evidence_document(done.decision)
    for step in forged["steps"]:
        if step["name"] == "build candidate":
            step["build"] = before.key
    made.rewrite(done.decision, evidence=forged)
    comparison = done.steps[-1].evidence["comparison"]
    told = f"bench quick: comparison {comparison} cannot be used: side B is build {candidate.key[:12]}"
    assert any(told in text for text in made.wrong())
