"""Every problem of a patch says its place: the hunk, and the line of the patch file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from patchstack.git.apply import Applier, Outcome
from patchstack.git.objects import Objects
from tests.support.builders import RepoBuilder

PATCH = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A U Thor <author@example.com>
Subject: [PATCH] two files

---
diff --git a/src/a.cpp b/src/a.cpp
--- a/src/a.cpp
+++ b/src/a.cpp
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
@@ -10,3 +10,4 @@ int f()
 ten
 eleven
+new
 twelve
diff --git a/src/b.cpp b/src/b.cpp
--- a/src/b.cpp
+++ b/src/b.cpp
@@ -1,2 +1,2 @@
 one
-x
+y
--\x20
2.39.5
"""
A = "one\ntwo\nthree\n4\n5\n6\n7\n8\n9\nten\neleven\ntwelve\n"
B = "one\nx\n"


def line_of(text: str, patch: str = PATCH, nth: int = 1) -> int:
    """Return the 1-based number of the n-th line of a patch with that text."""
    return [number for number, line in enumerate(patch.split("\n"), 1) if line == text][nth - 1]


def applied(directory: Path, patch: str, changes: Mapping[str, str | None]) -> Outcome:
    """Apply a patch to the two files, one or both changed, and return the outcome."""
    repo = RepoBuilder(directory / "repo")
    given = {"src/a.cpp": A, "src/b.cpp": B, **changes}
    commit = repo.commit("base", {path: text for path, text in given.items() if text is not None})
    objects = Objects()
    objects.add_directory(repo.path / ".git/objects", "the repository")
    with Applier(objects, repo.tree(commit)) as applier:
        return applier.apply(patch.encode())


def test_it_applies_to_what_it_was_made_for(tmp_path: Path) -> None:
    assert applied(tmp_path, PATCH, {}).applied


@pytest.mark.parametrize(
    ("changes", "path", "hunk", "line"),
    [
        ({"src/a.cpp": A.replace("two", "2")}, "src/a.cpp", 1, line_of("-two")),
        ({"src/a.cpp": A.replace("eleven", "x")}, "src/a.cpp", 2, line_of(" eleven")),
        ({"src/a.cpp": A.replace("eleven\n", "eleven\nnew\n")}, "src/a.cpp", 2, line_of("@@ -10,3 +10,4 @@ int f()")),
        ({"src/b.cpp": None}, "src/b.cpp", None, line_of("diff --git a/src/b.cpp b/src/b.cpp")),
    ],
)
def test_a_problem_says_its_hunk_and_its_line(
    changes: dict[str, str | None], path: str, hunk: int | None, line: int, tmp_path: Path
) -> None:
    outcome = applied(tmp_path, PATCH, changes)
    (problem,) = outcome.problems
    assert (problem.path, problem.hunk, problem.line) == (path, hunk, line)
    assert not outcome.left_to_git


def test_several_problems_say_each_their_own_line(tmp_path: Path) -> None:
    outcome = applied(tmp_path, PATCH, {"src/a.cpp": A.replace("two", "2"), "src/b.cpp": "one\nz\n"})
    assert [(one.path, one.hunk, one.line) for one in outcome.problems] == [
        ("src/a.cpp", 1, line_of("-two")),
        ("src/b.cpp", 1, line_of("-x")),
    ]


def test_git_s_own_words_give_the_hunk_that_it_names(tmp_path: Path) -> None:
    quoted = PATCH.replace("a/src/b.cpp", '"a/src/b.cpp"')
    outcome = applied(tmp_path, quoted, {"src/b.cpp": "one\nz\n"})
    assert outcome.left_to_git
    (problem,) = outcome.problems
    assert (problem.path, problem.hunk, problem.line) == ("src/b.cpp", 1, line_of("@@ -1,2 +1,2 @@", quoted))


def test_git_s_own_words_give_the_line_that_is_corrupt(tmp_path: Path) -> None:
    corrupt = PATCH.replace("+TWO\n", "+TWO\n+one too many\n")
    (problem,) = applied(tmp_path, corrupt, {}).problems
    assert (
        problem.fault == "malformed"
        and "at line 15" in problem.detail
        and problem.line == line_of(" three", corrupt) + 1
    )


def test_what_is_about_no_line_has_none(tmp_path: Path) -> None:
    (problem,) = applied(tmp_path, "", {}).problems
    assert (problem.hunk, problem.line) == (None, None)
