"""The worked example of CONTRIBUTING.md: its blocks are inserted into a copy unchanged, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.programs import program

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
STEP = re.compile(
    r"^\d\. \*\*[^*]+\*\*, (in|at the end of) `([^`]+)`.*?^   ```python\n(.*?)^   ```$", re.MULTILINE | re.DOTALL
)
SUITE = """\
series:
  x: {patches: p, upstream: u, pin: "0000000000000000000000000000000000000000"}
suites:
  quick:
    gates:
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package and of the tests' files, with every block of the example inserted."""
    root = tmp_path_factory.mktemp("contributor")
    ignored = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(ROOT / "patchstack", root / "patchstack", ignore=ignored)
    shutil.copytree(ROOT / "tests" / "support", root / "tests" / "support", ignore=ignored)
    (root / "tests" / "__init__.py").touch()
    steps = STEP.findall(TEXT)
    assert [file for _, file, _ in steps] == [
        "patchstack/gates/kinds/version.py",
        "patchstack/gates/registry.py",
        "tests/unit/gates/kinds/test_version.py",
    ]
    for where, file, block in steps:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        before = f"{path.read_text()}\n\n" if where == "at the end of" else ""
        assert bool(before) == path.exists()
        path.write_text(before + textwrap.dedent(block))
    return root


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)


def test_its_own_test_passes(copy: Path) -> None:
    done = run(copy, "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/gates/kinds/test_version.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_the_kind_is_a_command_and_a_gate_of_a_suite(copy: Path) -> None:
    program(copy / "bin", "llama-cli", "echo 'version: 7 (pin)'")
    alone = run(
        copy, "patchstack", "gate", "version", "--bin", "bin", "--program", "llama-cli", "--says", "^version: 8"
    )
    assert (alone.returncode, alone.stdout.splitlines()[0]) == (
        1,
        "FAIL  version: no line of its version matches '^version: 8'",
    )
    assert "A program prints the expected version." in run(copy, "patchstack", "gate", "--help").stdout
    entry = re.search(r"^ +(- \{name: cli, kind: version.*\})$", TEXT, re.MULTILINE)
    assert entry is not None
    (copy / "patchstack.yaml").write_text(f"{SUITE}      {entry.group(1)}\n")
    suite = run(copy, "patchstack", "gate", "run", "--bin", "bin", "--json")
    assert suite.returncode == 0, suite.stderr
    assert json.loads(suite.stdout)["verdicts"] == {"PASS": 1, "FAIL": 0, "INVALID": 0}
    (copy / "patchstack.yaml").write_text(f"{SUITE}      {entry.group(1).replace('says', 'say')}\n")
    wrong = run(copy, "patchstack", "gate", "list")
    assert wrong.returncode == 2
    assert "patchstack.yaml:6: suites.quick.gates.say: unknown key, perhaps you meant says" in wrong.stderr


def test_the_blocks_are_linted_and_formatted_as_the_package_is(copy: Path) -> None:
    files = [file for _, file, _ in STEP.findall(TEXT)]
    config = ("--config", str(ROOT / "pyproject.toml"), "--no-cache")
    for command in (("check", *config), ("format", "--check", *config)):
        done = run(copy, "ruff", *command, *files)
        assert done.returncode == 0, done.stdout + done.stderr
