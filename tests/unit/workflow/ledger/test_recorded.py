"""Recorded evidence is a file that anyone could have written: it never makes accept, or anything in CI, pass."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from unittest import mock

import pytest

from patchstack.evidence.origin import Origin
from patchstack.evidence.signing import sign
from patchstack.files.places import cache_places
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.acceptance import Accepted
from patchstack.workflow.ledger.recorded import recorded_evidence
from tests.conftest import Places
from tests.support.decided import Decided, decide
from tests.support.ssh_keys import a_key, allowed


@pytest.fixture
def made(tmp_path: Path, places: Places) -> Decided:
    return decide(tmp_path / "w", places.cache)


def forget(made: Decided) -> None:
    """Forget the observations of this machine, as if this were a different one."""
    shutil.rmtree(cache_places().observations)


def origins(done: Accepted) -> set[Origin]:
    return {step.source.origin for step in done.steps if step.source is not None}


def test_an_acceptance_says_what_it_recalled_and_again_observes_anew(made: Decided) -> None:
    commit = made.toy.fork.commits[1]
    assert origins(made.accept(commit)) == {Origin.RECALLED}
    assert origins(made.accept(commit, again=True)) == {Origin.OBSERVED}
    (step, *_) = [one for one in made.accept(commit).steps if one.source is not None]
    assert step.source is not None
    assert step.source.words.startswith("recalled from this machine's cache (20")


def test_an_acceptance_of_the_same_again_writes_no_new_decision(made: Decided) -> None:
    before = made.ledger.read()
    made.accept(made.toy.fork.commits[1], again=True)
    assert made.ledger.read() == before


def test_a_forged_record_does_not_lead_accept_to_pass(made: Decided) -> None:
    commit = made.toy.fork.commits[1]
    forget(made)
    assert origins(made.accept(commit)) == {Origin.OBSERVED}, "evidence/ has it all, and nobody signed it"
    forget(made)
    with mock.patch("tests.support.fixed_engine._captured", side_effect=_broken):
        done = made.accept(commit)
    assert done.decision is None
    assert Verdict.FAIL in done.verdicts


def _broken(name: str) -> bytes:
    from tests.support.fixed_engine import CAPTURED

    content = (CAPTURED / name).read_bytes()
    return content + b"another word" if name == "completion.out" else content


def test_signed_evidence_is_enough_for_accept_and_is_said_to_be_recorded(made: Decided, tmp_path: Path) -> None:
    key, stranger = a_key(tmp_path / "keys", "ada"), a_key(tmp_path / "keys", "mallory")
    for decision in made.ledger.read():
        sign(decision, made.ledger.directory, key)
    forget(made)
    done = made.accept(made.toy.fork.commits[1], signers=allowed(key))
    assert origins(done) == {Origin.RECORDED}
    source = next(step.source for step in done.steps if step.source is not None)
    assert f"by decision {source.decision[:12]}" in source.words
    assert origins(made.accept(made.toy.fork.commits[1], signers=allowed(stranger))) == {Origin.OBSERVED}


def test_in_ci_recorded_evidence_is_not_enough(made: Decided, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CI", raising=False)
    (key, *_) = made.decision("Use the rows").evidence["records"]
    here = recorded_evidence(made.root, None)
    assert here is not None
    found = here.find(key)
    assert found is not None
    assert found[1].origin is Origin.RECORDED
    for value in ("true", "1", "yes"):
        monkeypatch.setenv("CI", value)
        assert recorded_evidence(made.root, None) is None
    signer = a_key(tmp_path / "keys", "ada")
    signed = recorded_evidence(made.root, allowed(signer))
    assert signed is not None
    assert signed.find(key) is None
    sign(made.decision("Use the rows"), made.ledger.directory, signer)
    signed = recorded_evidence(made.root, allowed(signer))
    assert signed is not None
    assert signed.find(key) is not None


def test_a_record_that_is_not_the_one_that_was_named_does_not_count(made: Decided) -> None:
    decision = made.decision("Use the rows")
    key, digest = next(iter(decision.evidence["records"].items()))
    record = made.evidence.read(digest)
    (made.evidence.records / f"{digest}.json").unlink()
    made.evidence.keep(dataclasses.replace(record, facts={**record.facts, "code": 1}))
    here = recorded_evidence(made.root, None)
    assert here is not None
    assert here.find(key) is None


def test_a_commit_in_the_middle_of_the_series_is_decided_anew(made: Decided) -> None:
    old = made.decision("Rows a block")
    lock = (made.root / "patches" / "series.lock").read_bytes()
    suite = (made.root / "patchstack.yaml").read_text()
    (made.root / "patchstack.yaml").write_text(suite.replace("mean: 1.0", "mean: 0.9"))
    done = made.accept(made.toy.fork.commits[0])
    assert done.decision is not None
    assert done.export is None, "the series goes on after it, and stays as it is"
    assert (made.root / "patches" / "series.lock").read_bytes() == lock
    assert done.decision.supersedes == (old.id,)
    found = made.check()
    assert made.wrong() == []
    assert [one.superseded_by for one in found.decisions if one.decision == old] == [done.decision.id]
    assert sum(one.counts for one in found.decisions) == 2
