"""The one issue of canary: open if there is something to do, and without markup from untrusted text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchstack.report import canary_issue as issues
from patchstack.report.canary_issue import LARGEST, Issue
from tests.conftest import Patchstack, RunCli
from tests.support.builders import a_fork
from tests.unit.report.documents.test_read import BUILD, the_report


def canary_issue(documents: list[dict[str, Any]], name: str, **more: str) -> Issue:
    """Return the issue for documents after they were read."""
    return issues.canary_issue([the_report(one) for one in documents], name, **more)


@pytest.fixture
def broken(tmp_path: Path, run_cli: RunCli) -> dict[str, Any]:
    fork = a_fork(tmp_path)
    fork.upstream.commit("@everyone closes #1 <script>", {"src/kernel.cu": "nothing\n"})
    return dict(run_cli("canary", *fork.sources, "--blame", "--json").document)


@pytest.fixture
def fine(tmp_path: Path, run_cli: RunCli) -> dict[str, Any]:
    place = tmp_path / "fine"
    place.mkdir()
    fork = a_fork(place)
    return dict(run_cli("canary", *fork.sources, "--json").document)


def test_what_breaks_keeps_it_open_and_says_who(broken: dict[str, Any]) -> None:
    issue = canary_issue([broken], "canary", run="https://github.example/me/product/actions/runs/42")
    assert issue.open
    assert issue.title == "canary: 3 patches of patches no longer apply to upstream"
    assert issue.body.startswith("<!-- patchstack-canary: canary -->\n")
    assert "breaks <code>0001-" in issue.body
    assert "[this run](https://github.example/me/product/actions/runs/42)" in issue.body
    assert "@everyone" not in issue.body and "<script>" not in issue.body and "#1 " not in issue.body
    assert "<code>&#64;everyone closes &#35;1 &#60;script&#62;</code>" in issue.body


def test_what_holds_closes_it(fine: dict[str, Any]) -> None:
    issue = canary_issue([fine], "canary", compiled="success")
    assert (issue.open, issue.title) == (False, "canary: patches applies to upstream")


@pytest.mark.parametrize("compiled", ["failure", "cancelled", "timed_out"])
def test_what_applies_and_does_not_compile_keeps_it_open(fine: dict[str, Any], compiled: str) -> None:
    issue = canary_issue([fine], "canary", compiled=compiled)
    assert issue.open
    assert issue.title == "canary: patches applies to upstream, and could not be built there"
    assert f"ended with {compiled.replace('_', '&#95;')}" in issue.body
    with_words = canary_issue([fine, BUILD], "canary", compiled=compiled)
    assert with_words.open and "was not declared" in with_words.body
    assert with_words.title == "canary: patches applies to upstream, and does not compile there"


def test_a_series_that_could_not_be_looked_at_keeps_it_open(fine: dict[str, Any]) -> None:
    error = {"message": "x", "hint": "y", "exit": 3}
    lost = {"schema": "patchstack.canary/1", "series": "b", "applies": None, "error": error}
    issue = canary_issue([fine, lost], "canary")
    assert (issue.open, issue.title) == (True, "canary: b could not be applied to upstream")


def test_a_body_fits_into_an_issue(broken: dict[str, Any]) -> None:
    patch = broken["patches"][0]
    many = {**broken, "patches": [{**patch, "subject": "`<@x> " * 50} for _ in range(900)]}
    body = canary_issue([many], "canary").body
    assert len(body) < 65_536 and len(body.encode()) < LARGEST + 100
    assert "Cut here" in body and body.count("<details>") == body.count("</details>")


def test_a_title_is_no_place_for_foreign_text(fine: dict[str, Any]) -> None:
    assert canary_issue([{**fine, "series": "a\n@b"}], "canary").title == "canary: a??b applies to upstream"


@pytest.mark.parametrize("run", ["javascript:alert(1)", "https://x) [evil](y", "https://x\ny"])
def test_a_run_that_is_no_url_is_left_out(fine: dict[str, Any], run: str) -> None:
    assert "this run" not in canary_issue([fine], "canary", run=run).body


def test_parts_go_to_files(broken: dict[str, Any], tmp_path: Path, patchstack: Patchstack) -> None:
    (tmp_path / "c.json").write_text(json.dumps(broken))
    out = tmp_path / "an issue"
    assert patchstack("ci", "comment-body", tmp_path / "c.json", "--output", out, "--name", "weekly") == 0
    assert (out / "marker").read_text() == "<!-- patchstack-canary: weekly -->\n"
    assert (out / "state").read_text() == "open\n"
    assert (out / "body.md").read_text().startswith((out / "marker").read_text())
    assert patchstack("ci", "comment-body", tmp_path / "c.json", "--name", "x --> evil") == 2
