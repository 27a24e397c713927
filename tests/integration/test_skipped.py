"""A run lists skipped tests by what was missing, and a run in CI fails if CI provides it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.skipped import lack_of, summary

THREE = """
import pytest

def test_runs(): pass
def test_one(): pytest.skip("no ccache here")
def test_two(): pytest.skip("ccache is not installed here")
@pytest.mark.skipif(True, reason="no nvcc here")
def test_three(): pass
"""


def _reasons(tree: ast.AST) -> Iterator[str]:
    """Yield the reasons of all skips in a file, with a placeholder for values of the run time."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called not in ("pytest.skip", "pytest.mark.skipif", "pytest.importorskip"):
            continue
        given = [one.value for one in node.keywords if one.arg == "reason"]
        if called == "pytest.skip":
            given += node.args
        for one in given:
            if isinstance(one, ast.Constant):
                yield str(one.value)
            elif isinstance(one, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "cmake" for part in one.values)


def test_every_reason_in_the_tests_says_something_that_can_be_provided() -> None:
    found = {
        reason
        for path in (ROOT / "tests").rglob("*.py")
        for reason in _reasons(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert len(found) > 15
    assert [reason for reason in sorted(found) if lack_of(reason) is None] == []


def test_the_search_for_reasons_finds_an_unknown_one() -> None:
    planted = ast.parse('pytest.skip("the moon is full")\n@pytest.mark.skipif(x, reason=f"no {y} today")\ndef t(): ...')
    assert set(_reasons(planted)) == {"the moon is full", "no cmake today"}
    assert lack_of("the moon is full") is None


def test_reasons_of_one_lack_are_one_line() -> None:
    reasons = ["no ccache here", "ccache is not installed here", "no nvcc here", "the moon is full"]
    assert summary(reasons) == [
        "    2  ccache                      apt-get install ccache",
        "    1  nvcc of CUDA 12.9 or newer  see https://developer.nvidia.com/cuda-downloads",
        "    1  the moon is full",
    ]


def run_pytest(directory: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with only the needed plugins, because each worker would read all others too."""
    plugins = ("-p", "tests.support.skipped", "-p", "no:cacheprovider", *(("-p", "xdist") if "-n" in options else ()))
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-q", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def three(tmp_path: Path) -> Path:
    (tmp_path / "test_three.py").write_text(THREE)
    return tmp_path


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_run_says_what_it_lacked_and_another_may_leave_out_what_passed(three: Path, workers: list[str]) -> None:
    passed = three / "passed.txt"
    done = run_pytest(three, *workers, f"--save-passed={passed}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 3 skipped" in done.stdout
    assert "3 skipped, by what they need" in done.stdout
    assert "    2  ccache                      apt-get install ccache\n" in done.stdout
    assert "    1  nvcc of CUDA 12.9 or newer  see https://developer.nvidia.com/cuda-downloads\n" in done.stdout
    assert passed.read_text() == "test_three.py::test_runs\n"
    left = run_pytest(three, *workers, f"--leave-out={passed}", "-v")
    assert "test_runs" not in left.stdout
    assert "3 skipped" in left.stdout


def test_in_ci_a_skip_of_what_ci_provides_is_a_failure(three: Path) -> None:
    done = run_pytest(three, "-n", "2", PATCHSTACK_CI="1")
    assert done.returncode == 1
    assert "2 failed, 1 passed, 1 skipped" in done.stdout
    assert "CI provides all this needs, it must not skip" in done.stdout
