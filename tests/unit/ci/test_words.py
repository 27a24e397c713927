"""The check of words, on a small repository: what it finds, and that counts may only fall."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT


def words(root: Path, *args: str) -> tuple[int, str]:
    command = [sys.executable, str(root / "ci" / "words.py"), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "ci").mkdir()
    shutil.copy(ROOT / "ci" / "words.py", tmp_path / "ci")
    (tmp_path / "a.md").write_text("The header stands in\nthe file. It goes behind the last.\n")
    assert words(tmp_path, "--write")[0] == 1, "the first count is written, and told"
    assert (tmp_path / "ci" / "words.allowed").read_text() == "2 a.md\n"
    assert words(tmp_path) == (0, "2 German patterns in 1 files, allowed 2\n")
    return tmp_path


def test_a_count_may_not_rise_and_each_hit_is_named_with_its_rule(root: Path) -> None:
    (root / "b.py").write_text('"""Raises `X` where there is none.\n\n#: x is no number\n"""\n')
    code, told = words(root, "--write")
    assert code == 1
    assert "b.py:1: 'Raises `X` where': use if for a condition\n" in told
    assert "b.py:3: 'is no': use is not a\n" in told
    assert "b.py: 2, allowed 0\n" in told
    assert (root / "ci" / "words.allowed").read_text() == "2 a.md\n", "a rise is never written down"


def test_a_count_that_fell_is_written_down_and_cannot_rise_again(root: Path) -> None:
    (root / "a.md").write_text("The header is in the file. It goes behind the last.\n")
    assert words(root)[0] == 1
    assert words(root, "--write")[0] == 0
    assert (root / "ci" / "words.allowed").read_text() == "1 a.md\n"
    (root / "a.md").write_text("It stands in the file, behind the last.\n")
    assert words(root)[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        "There is no workload of that name.",
        "The branch is behind the fork.",
        "The engine is behind ssh.",
        "It is no longer needed.",
        "A directory where programs are kept.",
        "```console\n$ x\nit stands in the file\n```",
    ],
)
def test_plain_english_and_screens_are_not_counted(root: Path, text: str) -> None:
    (root / "c.md").write_text(text + "\n")
    assert words(root)[0] == 0
