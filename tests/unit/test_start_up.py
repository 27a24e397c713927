"""What every command waits for: imports before the first word."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

HEAVY = ("pygit2", "rich", "ruamel", "git", "email", "ssl", "concurrent", "platformdirs", "patchstack.workspace")


def imported(statement: str) -> list[str]:
    """Those of the heavy modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("arguments", [["--help"], ["export", "--help"], ["--version"]])
def test_help_and_version_import_nothing_of_weight(arguments: list[str]) -> None:
    statement = f"from patchstack.cli.main import app\ntry:\n    app({arguments!r})\nexcept SystemExit:\n    pass"
    assert imported(statement) == []


def test_the_heavy_modules_would_be_seen() -> None:
    assert "pygit2" in imported("import patchstack.series.export")
