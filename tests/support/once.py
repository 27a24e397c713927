"""Make slow resources of several test files only once for all workers of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.files.lock import locked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that `make` has filled in the first worker. Do not change its contents."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has its directory below that of the run
        root = root.parent
    root = root / "shared"
    root.mkdir(exist_ok=True)
    place, ready = root / name, root / f"{name}.ready"
    with locked(root / f"{name}.lock"):
        if not ready.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            ready.touch()
    return place
