"""Run two or more `accept` at once in one workspace: every accepted decision is in the series."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.toy import MAIN, Toy, a_toy, need_host_tools

RACES = 200
SECONDS = 3600.0
"""Two free processors need about a fortieth of this time, but other work on the machine must not fail the races."""
_MEMORY = Path("/dev/shm")  # noqa: S108  (below it a directory of our own: files in memory cost half the processor time)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Return a directory in memory if this machine has one, else on its disk."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="patchstack-races-") as directory:
        yield Path(directory)


@pytest.fixture
def toy(place: Path) -> Toy:
    """Return a workspace whose fork has three branches from the end of the series, and a child of one of them."""
    need_host_tools()
    made = a_toy(place, "host")
    workspace = place / "patchstack.yaml"
    text = workspace.read_text().replace(
        "    variant: cpu\n", f"    variant: cpu\n    fork: {made.fork.repo.path}\n    fork_ref: product\n"
    )
    workspace.write_text(text.replace(str(made.fork.series), "patches"))
    for name in ("one", "two", "three"):
        made.fork.repo.branch(name, made.fork.commits[-1])
        made.fork.repo.commit(f"Candidate {name}", {"main.c": MAIN.replace("return 0", f"return 0 /* {name} */")})
        if name == "one":
            made.fork.repo.branch("child")
            made.fork.repo.commit("A child of one", {"main.c": MAIN.replace("return 0", "return 0 /* child */")})
    assert patchstack(made, "export").returncode == 0
    return made


def patchstack(toy: Toy, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patchstack", *arguments],
        cwd=toy.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def races(toy: Toy, count: int, refs: tuple[str, ...]) -> list[dict[str, Any]]:
    temporary = toy.root / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.accept_races", str(toy.root), str(count), "18", *refs],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_in_many_races_every_decision_that_says_accepted_is_in_the_series(toy: Toy) -> None:
    refs = ("one", "two", "three", "child", "product..child")
    found = races(toy, RACES, refs)
    assert len(found) == RACES
    assert {len(race["refs"]) for race in found} == {2, 3, 4}
    for race in found:
        told = "\n".join(race["told"])
        assert "Traceback" not in told, told
        assert set(race["codes"]) <= {0, 1}, race
        assert race["accepted"] or set(race["refs"]) == {"child"}, "somebody wins every race that can be won"
        assert race["in_series"] == race["accepted"], race
        assert race["left"] == []
    waited = sum("holds the lock of this workspace" in text for race in found for text in race["told"])
    assert waited > RACES // 4, "the processes met each other"
