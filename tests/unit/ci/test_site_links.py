"""The check of the site's links, on pages with good and broken ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

GOOD = '<h1 id="top">A</h1><a href="b.html#part">x</a><a href="#top">y</a><a href="https://example.org/a?b">z</a>'


def checked(site: Path, page: str) -> subprocess.CompletedProcess[str]:
    (site / "sub").mkdir()
    (site / "a.html").write_text(page)
    (site / "b.html").write_text('<p id="part"><a href="sub/c.html">c</a></p>')
    (site / "sub" / "c.html").write_text('<a href="../b.html#part">b</a><img src="data:image/png;base64,AA==">')
    command = [sys.executable, str(ROOT / "ci" / "site" / "links.py"), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_sound_links_pass(tmp_path: Path) -> None:
    done = checked(tmp_path, GOOD)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3 pages, 6 links, 0 of them wrong\n")


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("gone.html", "does not exist"),
        ("sub/", "does not exist"),
        ("b.html#gone", "has no such anchor"),
        ("#gone", "has no such anchor"),
        ("../outside.html", "leads out of the site"),
        ("/b.html", "leads out of the site"),
        ("http://example.org/", "is not a sound https address"),
        ("https://localhost", "is not a sound https address"),
        ("javascript:alert(1)", "is not a sound https address"),
    ],
)
def test_a_broken_link_is_named_with_its_page(tmp_path: Path, link: str, complaint: str) -> None:
    done = checked(tmp_path, f'{GOOD}<a href="{link}">x</a>')
    assert (done.returncode, done.stderr) == (1, f"a.html: {link}: {complaint}\n")


def test_a_site_without_links_does_not_pass(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "ci" / "site" / "links.py"), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
