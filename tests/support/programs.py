"""Directories of small programs, for gates that run them."""

from __future__ import annotations

from pathlib import Path

from patchstack.engine.host.engine import HostEngine
from patchstack.evidence.store import Observations
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.runner import Runner


def program(directory: Path, name: str, script: str) -> Path:
    """Write a shell program of that name, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def a_bench(directory: Path, root: Path, *, kind: str = "test/1", again: bool = False) -> Runner:
    """Return a bench on this host for the programs of a directory; all it keeps is below `root`."""
    engine = HostEngine(root / "engine")
    programs = Programs(directory=directory, platform=engine.about().platform)
    observations = Observations(root / "evidence", root / "outputs")
    return Runner(
        engine, programs, observations=observations, memory=root / "digests", context=RunContext(kind=kind), again=again
    )
