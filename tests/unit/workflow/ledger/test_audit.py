"""An audit observes records again, and compares the verdicts of their gates on both."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from patchstack.builds.record.store import Store, Stored
from patchstack.errors import UsageError
from patchstack.files.places import cache_places
from patchstack.observe.observer import RunContext
from patchstack.observe.runner import Runner
from patchstack.workflow.ledger.audit import Agreement, Audited, audit
from tests.conftest import Places
from tests.support.decided import Decided, PaperMachine, decide
from tests.support.fixed_engine import CAPTURED

MODEL = "583a3ee3dcfe165b1686159c657930db6c4621e152297fd69760f49eb890671f"


class PaperStore(Store):
    """A store with the paper builds."""

    def __init__(self, builds: dict[str, Stored]) -> None:
        super().__init__(cache_places().builds)
        self.builds = builds

    def find(self, key: str) -> Stored | None:
        return self.builds.get(key)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, Stored]:
    """Return every build that is made while a test runs, by key."""
    found: dict[str, Stored] = {}
    make = PaperMachine.build

    def noting(self: PaperMachine, source: object) -> Stored:
        stored = make(self, source)  # type: ignore[arg-type]
        found[stored.key] = stored
        return stored

    monkeypatch.setattr(PaperMachine, "build", noting)
    return found


@pytest.fixture
def made(built: dict[str, Stored], tmp_path: Path, places: Places) -> Decided:
    found = decide(tmp_path / "w", places.cache)
    for commit in found.toy.fork.commits:
        found.builds(commit)
    return found


def audited(made: Decided, built: dict[str, Stored], models: dict[str, Path], count: int = 200) -> list[Audited]:
    @contextlib.contextmanager
    def opened(stored: Stored) -> Iterator[Runner]:
        from patchstack.observe.from_build import programs_of

        programs = dataclasses.replace(programs_of(stored, isolated=False), gpus=False)
        with Runner(
            made.engine,
            programs,
            observations=made.known.cache,
            memory=cache_places().digests,
            context=RunContext(kind=""),
            hardware="another machine",
        ) as runner:
            yield runner

    store = PaperStore(built)
    return list(audit(made.ledger.read(), made.evidence, store, models, opened, count, random.Random(1)))


def test_what_is_observed_again_agrees(made: Decided, built: dict[str, Stored]) -> None:
    found = audited(made, built, {MODEL: made.root / "one.gguf"})
    assert {one.agreement for one in found} == {Agreement.AGREES}
    assert {one.gate for one in found} == {"greedy", "ops", "drift", "mark", "hello"}
    assert len(audited(made, built, {MODEL: made.root / "one.gguf"}, 3)) == 3


def test_a_lie_about_what_was_printed_is_found_if_this_machine_prints_something_else(
    made: Decided, built: dict[str, Stored]
) -> None:
    def other(name: str) -> bytes:
        content = (CAPTURED / name).read_bytes()
        return content + b"and more" if name == "completion.out" else content

    with mock.patch("tests.support.fixed_engine._captured", side_effect=other):
        found = audited(made, built, {MODEL: made.root / "one.gguf"})
    different = [one for one in found if one.agreement is Agreement.DIFFERS]
    assert {one.gate for one in different} == {"greedy"}
    assert "FAIL" in different[0].why
    assert "recorded: PASS" in different[0].why


def test_what_is_not_here_is_said(made: Decided, built: dict[str, Stored]) -> None:
    found = audited(made, built, {})
    assert {one.agreement for one in found if one.gate == "greedy"} == {Agreement.NOT_HERE}
    assert any("model one with sha256 583a3ee3dcfe is not on this machine" in one.why for one in found)
    nothing = audited(made, {}, {})
    assert all("is not on this machine" in one.why for one in nothing)


def test_without_records_there_is_nothing_to_audit(made: Decided, built: dict[str, Stored]) -> None:
    for path in made.ledger.directory.iterdir():
        path.unlink()
    with pytest.raises(UsageError, match="no record can be observed again"):
        audited(made, built, {})
