"""Each line of the threat model names an existing test, or a setting and how to see it."""

from __future__ import annotations

import re

from tests.support.checkout import ROOT

MODEL = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
TABLES = re.findall(r"(?m)^\|[^|\n]+\| is stopped by \| tested by \|\n\| --- .*\n((?:\|.*\n)+)", MODEL)
LINES = [[cell.strip() for cell in line.strip("|").split(" | ")] for table in TABLES for line in table.splitlines()]


def test_there_are_lines_and_each_has_three_cells() -> None:
    assert len(LINES) > 25
    assert [line for line in LINES if len(line) != 3] == []


def test_every_line_names_tests_that_exist_or_a_setting_and_where_to_see_it() -> None:
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text("utf-8"))
    }
    for wants, stopped, held in LINES:
        named = re.findall(r"\btest_\w+", held)
        if "**setting**" in stopped:
            assert named == [] and ("`" in held or "times out" in held), wants
        else:
            assert named, f"{wants}: nothing holds this"
            assert set(named) <= tests, f"{wants}: there is no {set(named) - tests}"
