"""The wheel holds all that the demo needs, and nothing of the tests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.checkout import ROOT

DEMO = ROOT / "patchstack" / "demo"


def test_the_demo_ships_in_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in ("upstream", "fork", "story")
        for path in (DEMO / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(wanted) > 50
    assert wanted <= names
    builders = {path.relative_to(ROOT).as_posix() for path in (ROOT / "builders").rglob("*") if path.is_file()}
    assert {f"patchstack/{name}" for name in builders} <= names
    assert not any(name.startswith(("tests/", "ci/", "benchmarks/", "patches/")) for name in names)
