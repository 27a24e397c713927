"""The contents of a clone are enough to draw every verdict again."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Places
from tests.support.decided import decide


def test_every_verdict_is_drawn_again_from_the_repository_alone(tmp_path: Path, places: Places) -> None:
    made = decide(tmp_path / "w", places.cache)
    found = made.check()
    assert made.wrong() == []
    assert found.holds
    assert len(found.decisions) == 2
    for one in found.decisions:
        assert one.counts
        assert "10 verdicts of gates, drawn again" in one.findings.derived


def test_tries_that_were_lost_leave_no_record_and_are_only_asserted(tmp_path: Path, places: Places) -> None:
    made = decide(tmp_path / "w", places.cache)
    decision = made.decision("Use the rows")
    evidence = made.evidence_document(decision)
    step = next(step for step in evidence["steps"] if step.get("gate") == "greedy")
    step["detail"] += " (1 of 5 tries could not be judged)"
    made.rewrite(decision, evidence=evidence)
    assert made.wrong() == []
    newest = next(one for one in made.check().decisions if one.decision.commits == decision.commits)
    assert "gate greedy (before): that some tries could not be judged" in newest.findings.asserted
