"""The commands of every page, typed by a reader from top to bottom in an empty home directory."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.checkout import ROOT


def _screens() -> ModuleType:
    """Return ci/screens.py as a module."""
    spec = importlib.util.spec_from_file_location("screens", ROOT / "ci" / "screens.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["screens"] = module
    spec.loader.exec_module(module)
    return module


SCREENS = _screens()
TYPED = [page.relative_to(ROOT) for page in SCREENS.pages() if "\n<!-- run" in page.read_text("utf-8")]
ALONE = [page for page in TYPED if SCREENS.compiles(text := (ROOT / page).read_text("utf-8")) or "| jq" in text]
TOGETHER = [page for page in TYPED if page not in ALONE]


def test_the_pages_that_are_read_most_are_typed() -> None:
    guides = ["adopt-fork", "adopt", "sync", "canary", "gates", "add-a-gate", "build", "accept", "mirror", "ci"]
    expected = ["README.md", "docs/tutorial.md", *(f"docs/guides/{guide}.md" for guide in guides)]
    assert {Path(page) for page in expected} <= set(TYPED)


def _check(*pages: Path) -> None:
    """Type the commands of pages, and compare."""
    command = [sys.executable, str(ROOT / "ci" / "screens.py"), "--check", *map(str, pages)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pages_that_do_not_compile_print_what_they_show() -> None:
    assert len(TOGETHER) >= 15
    _check(*TOGETHER)


@pytest.mark.parametrize("page", ALONE, ids=str)
def test_a_page_prints_what_it_shows(page: Path) -> None:
    for program in SCREENS.lacking((ROOT / page).read_text("utf-8")):
        pytest.skip(f"{program} is not installed")
    _check(page)


def test_the_table_of_other_tools_says_what_they_do() -> None:
    command = [sys.executable, str(ROOT / "ci" / "other_tools.py"), "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
