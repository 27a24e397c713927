"""A known build: which of its proofs are tried again, and that finding it starts nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchstack.builds.proofs.prove import Proof
from patchstack.builds.record.store import Store, Stored
from patchstack.builds.run import build as building
from patchstack.verdict import Verdict
from tests.support.build_records import a_record

KEY = "ab" * 32
INPUTS: Any = SimpleNamespace()


def stored(store: Store, **verdicts: str) -> Stored:
    proofs = tuple(
        Proof(id=name.replace("_", "-"), verdict=Verdict(one), detail="then") for name, one in verdicts.items()
    )
    with store.draft(KEY) as draft:
        store.commit(KEY, draft, a_record(KEY, proofs=proofs))
    found = store.find(KEY)
    assert found is not None
    return found


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace `prove`: every proof holds now, except PTX."""
    asked: list[Any] = []

    def prove(directory: Path, claim: object, **how: object) -> tuple[Proof, ...]:
        asked.append(how)
        ids = ("exists", "runs", "cuda-arch", "cuda-ptx")
        holds = dict.fromkeys(ids, Verdict.PASS) | {"cuda-ptx": Verdict.INVALID}
        return tuple(Proof(id=name, verdict=holds[name], detail="now") for name in ids)

    monkeypatch.setattr(building, "claim", lambda inputs: None)
    monkeypatch.setattr(building, "prove_build", prove)
    monkeypatch.setattr(building, "find_cuobjdump", lambda: "cuobjdump")
    return asked


def test_what_lacked_a_disassembler_is_judged_when_there_is_one(tmp_path: Path, proven: list[Any]) -> None:
    store = Store(tmp_path)
    found = stored(store, exists="PASS", runs="INVALID", cuda_arch="INVALID", cuda_ptx="INVALID")
    judged = building.judged_again(store, found, INPUTS)
    assert proven == [{"cuobjdump": "cuobjdump", "run": None}]
    assert [(one.id, str(one.verdict), one.detail) for one in judged.record.proofs] == [
        ("exists", "PASS", "then"),
        ("runs", "INVALID", "then"),
        ("cuda-arch", "PASS", "now"),
        ("cuda-ptx", "INVALID", "then"),
    ]
    assert store.find(KEY) == judged


@pytest.mark.parametrize(
    "verdicts",
    [
        {"exists": "PASS", "cuda_arch": "PASS"},
        {"exists": "PASS", "runs": "INVALID", "cuda_arch": "PASS"},
        {"exists": "PASS", "cuda_arch": "FAIL"},
    ],
    ids=["all judged", "programs that cannot start here", "a failure"],
)
def test_a_build_with_nothing_to_disassemble_is_found_as_it_is(
    tmp_path: Path, proven: list[Any], verdicts: dict[str, str]
) -> None:
    store = Store(tmp_path)
    found = stored(store, **verdicts)
    assert building.judged_again(store, found, INPUTS) is found
    assert proven == []


def test_without_a_disassembler_it_stays_unjudged(
    tmp_path: Path, proven: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "find_cuobjdump", lambda: None)
    store = Store(tmp_path)
    found = stored(store, runs="INVALID", cuda_arch="INVALID")
    assert building.judged_again(store, found, INPUTS) is found
    assert proven == []
