"""Checks on trees: the files they read, and that equal contents are read only once."""

from __future__ import annotations

from pathlib import Path

from patchstack.checks.run import SeriesTrees
from patchstack.verdict import Verdict
from tests.support.checking import Ground, a_check

HOOK = "- {name: hook, patch: 1, kind: present, pattern: 'hook\\('}\n"


def test_the_files_of_the_patch_are_looked_at_unless_it_says_otherwise(tmp_path: Path) -> None:
    files = {"a.cpp": "hook();\n", "b.cpp": "other();\n"}
    assert Ground(tmp_path, files, touched=("a.cpp",)).judge(HOOK).verdict is Verdict.PASS
    (tmp_path / "other").mkdir()
    assert Ground(tmp_path / "other", files, touched=("b.cpp",)).judge(HOOK).verdict is Verdict.FAIL


def test_what_selects_nothing_is_invalid(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "hook();\n"}, touched=("gone.cpp",))
    found = ground.judge(HOOK)
    assert (found.verdict, found.reason) == (Verdict.INVALID, "none of the files that the patch touches exist")
    found = ground.judge("- {name: a, patch: 1, kind: present, pattern: hook, files: [a.cpp, 'x/**']}")
    assert (found.verdict, found.reason) == (Verdict.INVALID, "no file matches x/**")


def test_equal_contents_are_judged_once(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "hook();\n", "b.cpp": "1\n"}, touched=("a.cpp",))
    checker, check = ground.checker(), a_check(tmp_path, HOOK)
    first = ground.repo.tree("HEAD")
    ground.repo.commit("Elsewhere", {"b.cpp": "2\n"})
    second = ground.repo.tree("HEAD")
    ground.repo.commit("There", {"a.cpp": "none();\n"})
    third = ground.repo.tree("HEAD")
    verdicts = [checker.judge(check, tree).verdict for tree in (first, second, third, first)]
    assert verdicts == [Verdict.PASS, Verdict.PASS, Verdict.FAIL, Verdict.PASS]
    assert checker.judged == 2


def test_a_check_of_a_patch_that_is_not_there_is_invalid(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "hook();\n"}, touched=("a.cpp",))
    tree = ground.repo.tree("HEAD")
    row = ground.checker().row(a_check(tmp_path, HOOK), SeriesTrees(last=tree, after={}, absent={}))
    assert (row.verdict, row.found.reason) == (Verdict.INVALID, "the series has no patch 0001")
    gone = SeriesTrees(last=tree, after={}, absent={1: "0001-hook.patch does not apply"})
    row = ground.checker().row(a_check(tmp_path, HOOK), gone)
    assert (row.verdict, row.found.reason) == (Verdict.INVALID, "0001-hook.patch does not apply")


def test_the_tree_after_the_patch_is_another_one(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "hook();\n"}, touched=("a.cpp",))
    after = ground.repo.tree("HEAD")
    ground.repo.commit("Later", {"a.cpp": "none();\n"})
    trees = SeriesTrees(last=ground.repo.tree("HEAD"), after={1: after}, absent={})
    assert ground.checker().row(a_check(tmp_path, HOOK), trees).verdict is Verdict.FAIL
    at_patch = a_check(tmp_path, HOOK.replace("kind", "at: patch, kind"))
    assert ground.checker().row(at_patch, trees).verdict is Verdict.PASS


def test_a_pattern_that_searches_without_end_is_stopped(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "a" * 60 + "b\n"}, touched=("a.cpp",))
    found = ground.judge("- {name: slow, patch: 1, kind: present, pattern: '(?:a+)+$', time: 0.3s}")
    assert found.verdict is Verdict.INVALID
    assert found.reason == "its pattern took over 0.3 s and was stopped"


def test_a_pattern_that_matches_an_empty_text_somewhere_is_invalid(tmp_path: Path) -> None:
    found = Ground(tmp_path, {"a.cpp": "hook\n"}, touched=("a.cpp",)).judge(
        "- {name: a, patch: 1, kind: present, pattern: '(?=hook)'}"
    )
    assert (found.verdict, found.reason) == (Verdict.INVALID, "its pattern matches an empty text")


def test_binary_files_are_not_searched(tmp_path: Path) -> None:
    assert Ground(tmp_path, {"a.cpp": b"hook(\0"}, touched=("a.cpp",)).judge(HOOK).verdict is Verdict.FAIL


def test_a_content_that_is_missing_makes_it_invalid(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"a.cpp": "hook();\n"}, touched=("a.cpp",))
    tree = ground.repo.tree("HEAD")
    ground.repo.loose(ground.repo.blob("HEAD", "a.cpp")).unlink()
    found = ground.checker().judge(a_check(tmp_path, HOOK), tree)
    assert found.verdict is Verdict.INVALID
    assert "blob of a.cpp" in found.reason
