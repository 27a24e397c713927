"""Directories of the host engine to which a process still writes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from patchstack.engine.host import directory


def test_a_directory_is_removed_though_a_dying_process_writes_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "work"
    (place / "made").mkdir(parents=True)
    (place / "made" / "file").write_text("x")
    tried: list[float] = []
    real = shutil.rmtree

    def rmtree(path: Path) -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            (place / "made" / f"late{len(tried)}").write_text("x")
            (place / "made").rmdir()
        real(path)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    directory.remove(place)
    assert not place.exists()
    assert len(tried) == 3


def test_a_directory_that_is_written_into_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "work"
    (place / "made").mkdir(parents=True)
    (place / "made" / "file").write_text("x")
    monkeypatch.setattr(directory, "_LAST_WRITES", 0.2)
    monkeypatch.setattr(shutil, "rmtree", lambda path: (path / "made").rmdir())
    with pytest.raises(OSError, match="not empty"):
        directory.remove(place)
