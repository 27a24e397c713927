"""Canary's sentences in the order of the work, and its page with the picture."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, numbered
from tests.support.moving import Steps, asked, kernel, moved

STEPS: Steps = (
    ("Alone", kernel(l200="p1")),
    ("Root <b> & co", {"src/pager.cpp": numbered(40), **kernel(l200="p1", l10="p2")}),
    ("On it", {"src/pager.cpp": numbered(40, {20: "p3"})}),
    ("On it too", {"src/pager.cpp": numbered(40, {20: "p3", 30: "p4"})}),
    ("Free", {"src/free.cpp": "x\n"}),
)


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork and two upstream commits that each break a patch; two cascades depend on the second patch."""
    return moved(
        tmp_path,
        STEPS,
        ("Two hundred (#1)", kernel(l200="upstream")),
        ("Ten (#2)", kernel(l200="upstream", l10="upstream")),
    )


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "canary.html"


@pytest.mark.parametrize("options", [(), ("--blame",), ("--blame", "--strict")])
def test_the_commit_whose_mending_frees_most_comes_first(options: tuple[str, ...], fork: Fork, run_cli: RunCli) -> None:
    told = asked(fork, run_cli, *options).stdout
    first = told.index("mend 1 patch, which frees 2 more: #2 Ten (")
    second = told.index("mend 1 patch: #1 Two hundred (")
    assert first < second
    block = told[first:second]
    assert "    0002-Root-b-co.patch: conflict\n        src/kernel.cu: hunk 1 " in block
    assert block.endswith("    frees 0003, 0004\n")
    assert "0003-On-it.patch: cascade" not in told


def test_the_page_shows_every_patch_over_time_without_a_script(fork: Fork, run_cli: RunCli, page: Path) -> None:
    ran = asked(fork, run_cli, "--html", str(page))
    assert f"wrote {page}" in ran.stderr
    text = page.read_text()
    assert "<script" not in text and "Root <b>" not in text
    titles = re.findall(r"<title>([^<]*)</title></path>", text)
    assert "0001 Alone: applies from the pin on" in titles
    assert "0001 Alone: fails from #1 on (2025-06-15, Two hundred (#1))" in titles
    assert "0002 Root &lt;b&gt; &amp; co: fails from #2 on (2025-06-15, Ten (#2))" in titles
    assert [title for title in titles if title.startswith("0005")] == ["0005 Free: applies from the pin on"]
    assert "mend 1 patch, which frees 2 more: #2 Ten" in text


def test_the_page_of_the_pin_itself_has_no_picture(fork: Fork, run_cli: RunCli, page: Path) -> None:
    assert asked(fork, run_cli, "--to", fork.pin, "--html", str(page)).code == 0
    assert "<svg" not in page.read_text()


def test_a_file_that_cannot_be_written_is_named(fork: Fork, run_cli: RunCli, page: Path) -> None:
    ran = asked(fork, run_cli, "--html", str(page / "none"))
    assert ran.code == 2 and "cannot be written" in ran.stderr


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_the_picture(fork: Fork, run_cli: RunCli, page: Path) -> None:
    asked(fork, run_cli, "--html", str(page))
    shot = page.with_name("shot.png")
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.with_name('profile')}",
    ]
    subprocess.run([*command, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True, timeout=60)
    assert shot.read_bytes().startswith(b"\x89PNG") and shot.stat().st_size > 5_000
