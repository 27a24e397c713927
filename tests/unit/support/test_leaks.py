"""A test that leaves a socket open fails itself, instead of the next test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT

TWO = """
import gc, socket
import pytest

@pytest.fixture
def left():
    return socket.socket()

def test_leaks():
    one = [socket.socket()]
    one.append(one)  # only the collector finds it

def test_leaks_by_a_fixture(left):
    round = [left]
    round.append(round)

def test_is_innocent():
    gc.collect()
"""


def test_who_leaks_fails(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TWO)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "tests.support.leaks", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("ERROR ", "FAILED "))]
    failed = {name.rpartition("::")[2] for name in told}
    assert failed == {"test_leaks", "test_leaks_by_a_fixture"}, done.stdout
