"""A release needs evidence: decisions that allowed signers signed, or gates that observe everything again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchstack.evidence.signing import sign
from tests.conftest import Places
from tests.runner.jobs import Runner
from tests.support.checkout import ROOT
from tests.support.ci_world import a_runner
from tests.support.decided import Decided, decide
from tests.support.ssh_keys import a_key, allowed

RELEASE = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture
def made(tmp_path: Path, places: Places) -> Decided:
    return decide(tmp_path / "w", places.cache)


def a_release(tmp_path: Path, made: Decided, signers: bytes | None) -> Runner:
    """Return a runner for a tag of the workspace, whose default branch has a list of signers."""
    runner = a_runner(tmp_path / "runner", made.root)
    runner.ref = "refs/tags/v1"
    listed = made.root / ".protected" / "ledger" / "allowed_signers"
    listed.parent.mkdir(parents=True)
    if signers is not None:
        listed.write_bytes(signers)
    return runner


def test_a_release_whose_decisions_are_signed_goes_on(tmp_path: Path, made: Decided) -> None:
    key = a_key(tmp_path / "keys", "maintainer")
    for decision in made.ledger.read():
        sign(decision, made.ledger.directory, key)
    ran = a_release(tmp_path, made, allowed(key).content).job(RELEASE, "ledger", inputs={})
    assert ran is not None
    assert ran.ok, ran.log
    assert "signed by maintainer@example.com" in ran.log


def test_a_signature_that_is_missing_or_of_a_stranger_stops_it(tmp_path: Path, made: Decided) -> None:
    stranger, maintainer = (a_key(tmp_path / "keys", name) for name in ("stranger", "maintainer"))
    for decision in made.ledger.read():
        sign(decision, made.ledger.directory, stranger)
    # A list in the tree of the tag never counts.
    (made.ledger.directory / "allowed_signers").write_bytes(allowed(stranger).content)
    ran = a_release(tmp_path, made, allowed(maintainer).content).job(RELEASE, "ledger", inputs={})
    assert ran is not None
    assert not ran.ok
    assert "no allowed signer signed it" in ran.log


def test_without_a_list_on_the_default_branch_nothing_is_released(tmp_path: Path, made: Decided) -> None:
    ran = a_release(tmp_path, made, None).job(RELEASE, "ledger", inputs={})
    assert ran is not None
    assert not ran.ok
    assert "allowed_signers" in ran.log


def test_evidence_that_is_not_signed_must_follow_at_least(tmp_path: Path, made: Decided) -> None:
    runner = a_release(tmp_path, made, None)
    ran = runner.job(RELEASE, "ledger", inputs={"evidence": "again"})
    assert ran is not None
    assert ran.ok, ran.log
    decision = made.decision("Use the rows")
    evidence = made.evidence_document(decision)
    evidence["steps"] = [step for step in evidence["steps"] if step.get("gate") != "ops"]
    made.rewrite(decision, evidence=json.loads(json.dumps(evidence)))
    ran = runner.job(RELEASE, "ledger", inputs={"evidence": "again"})
    assert ran is not None
    assert not ran.ok
    assert "gate ops (candidate) has no verdict" in ran.log


@pytest.mark.parametrize(
    ("ledger", "gate", "inputs", "compares"),
    [
        ("success", "skipped", {"suite": ""}, True),
        ("failure", "skipped", {"suite": ""}, False),
        ("failure", "success", {"suite": "quick"}, False),
        ("skipped", "success", {"suite": "quick"}, False),
        ("success", "skipped", {"suite": "", "evidence": "again"}, False),
        ("success", "success", {"suite": "quick", "evidence": "again"}, True),
        ("success", "failure", {"suite": "quick", "evidence": "again"}, False),
        ("success", "skipped", {"suite": "quick"}, False),
        ("success", "failure", {"suite": "quick"}, False),
    ],
)
def test_nothing_is_attested_without_signatures_or_gates_of_the_same_run(
    tmp_path: Path, ledger: str, gate: str, inputs: dict[str, str], compares: bool
) -> None:
    place = tmp_path / "a product"
    place.mkdir()
    runner = a_runner(tmp_path / "runner", place)
    runner.ref = "refs/tags/v1"
    for name in ("patchstack-release-cpu", "patchstack-gates"):
        (runner.directory / "artifacts" / name).mkdir()
    needs = {
        "plan": {"outputs": {"jobs": "1"}},
        "build": {"result": "success", "outputs": {}},
        "gate": {"result": gate, "outputs": {}},
        "ledger": {"result": ledger},
    }
    assert (runner.job(RELEASE, "compare", inputs=inputs, needs=needs) is not None) is compares
    for result in ("failure", "skipped", "cancelled"):
        assert runner.job(RELEASE, "attest", inputs=inputs, needs={"compare": {"result": result}}) is None
