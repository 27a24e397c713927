"""Checks as Markdown, as annotations with file and line, and as SARIF."""

from __future__ import annotations

import html
from pathlib import Path

import msgspec
import pytest

from patchstack.checks.entries import CheckEntry, PlaceEntry
from patchstack.report.annotations import Checkout, remarks
from patchstack.report.documents.lint import CommitEntry, LintDocument
from patchstack.report.documents.read import read_documents
from patchstack.report.github import Level
from patchstack.report.sarif import sarif
from patchstack.report.summary import part

PLACE = PlaceEntry(path="src/a|b.cpp", line=7, name="f::g")
FAILS = CheckEntry(
    name="allocations",
    kind="sites",
    patch=3,
    at="series",
    what="Each allocation is traced.",
    verdict="FAIL",
    reason="new site f::g in src/a|b.cpp",
    tree="a" * 40,
    places=(PLACE,),
    new=(),
    lost=(),
    output=(),
    file="patchstack.yaml",
    line=12,
)
HOLDS = msgspec.structs.replace(FAILS, name="hook", verdict="PASS", places=(), patch=None)
OPEN = msgspec.structs.replace(FAILS, name="open", verdict="INVALID", reason="no file matches x", places=())


@pytest.fixture
def document() -> LintDocument:
    return LintDocument(
        series="paged",
        base=CommitEntry(commit="b" * 40),
        patch_count=3,
        clean=True,
        rules=(),
        findings=(),
        waived=(),
        checks=(FAILS, HOLDS, OPEN),
    )


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.chdir(tmp_path)
    return Checkout(root=tmp_path, directories={"paged": tmp_path / "patches"})


def test_markdown_has_a_row_for_each_check(document: LintDocument) -> None:
    rows = [html.unescape(line) for line in part(document) if line.startswith("| <code>")]
    assert rows == [
        "| <code>allocations</code> | 0003 | **<code>FAIL</code>** | <code>new site f::g in src/a|b.cpp</code> |",
        "| <code>hook</code> | series | PASS | <code>new site f::g in src/a|b.cpp</code> |",
        "| <code>open</code> | 0003 | **<code>INVALID</code>** | <code>no file matches x</code> |",
    ]


def test_a_check_that_does_not_hold_is_an_annotation_where_it_is_written(
    document: LintDocument, ground: Checkout
) -> None:
    fails, open_ = remarks(document, ground)
    assert (fails.level, fails.file, fails.line) == (Level.ERROR, "patchstack.yaml", 12)
    assert fails.title == "paged: check allocations: FAIL"
    assert fails.message.splitlines() == [
        "Each allocation is traced.",
        "new site f::g in src/a|b.cpp",
        "src/a|b.cpp:7: f::g",
    ]
    assert (open_.level, open_.title) == (Level.WARNING, "paged: check open: INVALID")


def test_sarif_has_a_rule_and_a_result_for_it(document: LintDocument, ground: Checkout) -> None:
    run = sarif([document], ground)["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["check/allocations", "check/hook", "check/open"]
    first, second = run["results"]
    assert (first["ruleId"], first["level"], rules[first["ruleIndex"]]) == (
        "check/allocations",
        "error",
        first["ruleId"],
    )
    region = first["locations"][0]["physicalLocation"]
    assert (region["artifactLocation"]["uri"], region["region"]["startLine"]) == ("patchstack.yaml", 12)
    assert second["message"]["text"] == "INVALID: no file matches x"


def test_a_document_is_read_back_as_it_was(document: LintDocument) -> None:
    assert read_documents(document.line, "here") == [document]
