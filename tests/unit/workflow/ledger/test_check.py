"""What a clone carries is enough to draw every verdict again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Places
from tests.support.decided import decide


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here outlives the test: waiting for the disk would take most of its time."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def test_every_verdict_is_drawn_again_from_the_repository_alone(tmp_path: Path, places: Places) -> None:
    made = decide(tmp_path / "w", places.cache)
    found = made.check()
    assert made.wrong() == []
    assert found.holds
    assert len(found.decisions) == 2
    for one in found.decisions:
        assert one.counts
        assert "10 verdicts of gates, drawn again" in one.findings.derived
