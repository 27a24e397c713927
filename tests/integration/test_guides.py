"""The pages whose commands a reader types from top to bottom, run so in an empty home directory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PAGES = [
    path.relative_to(ROOT)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "<!-- run" in path.read_text("utf-8")
]


def test_the_tutorial_is_among_them() -> None:
    assert Path("docs/tutorial.md") in PAGES and len(PAGES) >= 5


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_prints_what_it_shows(page: Path) -> None:
    for program in ("c++", "cmake", "ninja"):
        if "patchstack build" in (ROOT / page).read_text("utf-8") and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    command = [sys.executable, str(ROOT / "ci" / "screens.py"), "--check", "--pages", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_console_block_of_these_pages_comes_from_a_run(page: Path) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert text.count("```console\n") == len(re.findall(r"<!-- run(?:: \d+…\d+)? -->\n```console\n", text))


def test_the_table_of_other_tools_says_what_they_do() -> None:
    command = [sys.executable, str(ROOT / "ci" / "other_tools.py"), "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
