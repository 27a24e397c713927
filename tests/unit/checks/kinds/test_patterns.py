"""The kinds that search contents: present, absent and sites."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.checks.model import Place, Site
from patchstack.verdict import Verdict
from tests.support.checking import Ground

CACHE = """\
void cache::remove(int i) {
    cells.rm(i);
}

void cache::clear() {
    cells.rm(0);
    cells.rm(1);
}
"""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path, {"src/cache.cpp": CACHE, "src/other.cpp": "void f() {\n    use(cells);\n}\n"})


@pytest.mark.parametrize(
    ("settings", "verdict", "reason"),
    [
        ("", Verdict.PASS, "found in 3 places of 1 file"),
        (", at_least: 3", Verdict.PASS, "found in 3 places of 1 file"),
        (", at_least: 4", Verdict.FAIL, "found in 3 places of 1 file; expected at least 4 places"),
        (", files_at_least: 2", Verdict.FAIL, "found in 3 places of 1 file; expected at least 2 files"),
    ],
)
def test_present_counts_places_and_files(ground: Ground, settings: str, verdict: Verdict, reason: str) -> None:
    found = ground.judge(f"- {{name: a, patch: 1, kind: present, pattern: 'cells\\.rm', files: ['src/*'] {settings}}}")
    assert (found.verdict, found.reason) == (verdict, reason)


def test_present_that_is_not_found_says_what_was_expected(ground: Ground) -> None:
    found = ground.judge("- {name: a, patch: 1, kind: present, pattern: gone, files: ['src/*']}")
    assert (found.verdict, found.reason) == (Verdict.FAIL, "not found; expected at least 1 place")


ABSENT = "- {name: a, patch: 1, kind: absent, pattern: 'cells\\.rm\\(', files: ['src/*'], %s}"


def test_absent_outside_the_places_where_it_may_be(ground: Ground) -> None:
    found = ground.judge(ABSENT % "allow: {src/cache.cpp: ['cache::remove']}")
    assert found.verdict is Verdict.FAIL
    assert found.reason == "found in 2 places: src/cache.cpp:6 (cache::clear), src/cache.cpp:7 (cache::clear)"
    assert found.places == (
        Place(path="src/cache.cpp", line=6, name="cache::clear"),
        Place(path="src/cache.cpp", line=7, name="cache::clear"),
    )
    for allow in ("{src/cache.cpp: ['cache::remove', 'cache::clear']}", "{'src/c*.cpp': []}"):
        assert ground.judge(ABSENT % f"allow: {allow}").verdict is Verdict.PASS


def test_absent_that_is_not_even_where_it_may_be_can_find_nothing_any_more(ground: Ground) -> None:
    found = ground.judge(
        "- {name: a, patch: 1, kind: absent, pattern: renamed, files: ['src/*'], allow: {src/cache.cpp: []}}"
    )
    assert found.verdict is Verdict.INVALID
    assert found.reason == "not found, not even where it is allowed, so the pattern may be outdated"


def test_absent_with_an_example_has_shown_that_it_can_fail(ground: Ground) -> None:
    found = ground.judge(
        "- {name: a, patch: 1, kind: absent, pattern: 'free\\(', example: 'free(x)', files: ['src/*']}"
    )
    assert (found.verdict, found.reason) == (Verdict.PASS, "not found in 2 files")


SITES = "- {name: a, patch: 1, kind: sites, pattern: 'cells\\.rm\\(', files: ['src/*'], recorded: then, sites: %s}"


def test_sites_are_a_set(ground: Ground) -> None:
    found = ground.judge(SITES % "{src/cache.cpp: ['cache::clear', 'cache::remove']}")
    assert (found.verdict, found.reason) == (Verdict.PASS, "the 2 recorded sites")


def test_a_new_and_a_lost_site_are_named(ground: Ground) -> None:
    found = ground.judge(SITES % "{src/cache.cpp: ['cache::remove', 'cache::drop']}")
    assert found.verdict is Verdict.FAIL
    assert found.reason == "new site cache::clear in src/cache.cpp; lost site cache::drop in src/cache.cpp"
    assert found.new == (Site(path="src/cache.cpp", name="cache::clear"),)
    assert found.lost == (Site(path="src/cache.cpp", name="cache::drop"),)
    assert [place.line for place in found.places] == [6, 7]


def test_sites_that_are_not_recorded_yet_are_invalid(ground: Ground) -> None:
    found = ground.judge("- {name: a, patch: 1, kind: sites, pattern: 'cells\\.rm\\(', files: ['src/*']}")
    assert (found.verdict, found.reason) == (
        Verdict.INVALID,
        "no sites are recorded; 2 sites found: --record records them",
    )


def test_what_a_group_catches_belongs_to_the_site(ground: Ground) -> None:
    found = ground.judge(
        "- {name: a, patch: 1, kind: sites, pattern: 'cells\\.rm\\((\\w)\\)', files: ['src/*'], recorded: then, "
        "sites: {src/cache.cpp: ['cache::remove: i', 'cache::clear: 0']}}"
    )
    assert found.reason == "new site cache::clear: 1 in src/cache.cpp"
