"""The line of a patch file for a remark."""

from __future__ import annotations

from pathlib import Path

from patchstack.git.patch.text import read_text
from patchstack.report.annotations import added_line, edited_line
from tests.conftest import RunCli
from tests.support.builders import a_fork

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
TEXT = read_text(PATCH.encode())
LINES = PATCH.split("\n")


def numbered(text: str, nth: int = 1) -> int:
    """Return the 1-based number of the n-th line with that text."""
    return [number for number, line in enumerate(LINES, 1) if line == text][nth - 1]


def test_an_edit_stands_on_the_line_that_the_fork_does_not_have() -> None:
    diff = "--- series/src/a.cpp\n+++ fork/src/a.cpp\n@@ -10,3 +10,3 @@\n ten\n eleven\n-new\n+newer\n twelve\n"
    assert edited_line(TEXT, "src/a.cpp", diff) == numbered("+new")


def test_a_line_taken_out_stands_on_the_one_before_it() -> None:
    diff = "--- series/src/a.cpp\n+++ fork/src/a.cpp\n@@ -10,2 +10,3 @@\n eleven\n+gone from the patch\n twelve\n"
    assert edited_line(TEXT, "src/a.cpp", diff) == numbered(" eleven")


def test_what_cannot_be_found_stands_on_the_file_s_diff_or_the_subject() -> None:
    assert edited_line(TEXT, "src/b.cpp", "--- a\n+++ b\n@@ -1 +1 @@\n-q\n") == numbered(
        "diff --git a/src/b.cpp b/src/b.cpp"
    )
    assert edited_line(TEXT, "src/none.cpp", "") == 3
    assert added_line(TEXT, "src/b.cpp") == numbered("diff --git a/src/b.cpp b/src/b.cpp")
    assert added_line(TEXT, "src/none.cpp") == 3


def test_annotate_reads_verify_s_document_from_a_pipe(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    patch = fork.edit_patch(2, " line 18\n", " line 18, edited\n")
    document = run_cli("verify", *fork.options, "--json").stdout
    (tmp_path / "verify.json").write_text(document)
    told = run_cli("ci", "annotate", tmp_path / "verify.json", "--patches", fork.series, "--root", tmp_path).stdout
    number = patch.read_text().split("\n").index(" line 18, edited") + 1
    assert told.startswith(f"::error file=patches/{patch.name},line={number},title=patches%3A conflict::{patch.name}: ")
    errors = [line for line in told.splitlines() if line.startswith("::error")]
    assert len(errors) == 1, "patches after it are skipped, and have no annotation of their own"


def test_a_malformed_patch_is_annotated_where_it_is_malformed(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    patch = fork.patch(2)
    lines = patch.read_text().split("\n")
    at = lines.index("+changed by commit 2")
    patch.write_text("\n".join([*lines[:at], "+one line too many", *lines[at:]]))
    (tmp_path / "lint.json").write_text(run_cli("lint", *fork.sources, "--json").stdout)
    (tmp_path / "verify.json").write_text(run_cli("verify", *fork.options, "--json").stdout)
    places = {}
    for name in ("lint", "verify"):
        told = run_cli("ci", "annotate", tmp_path / f"{name}.json", "--patches", fork.series, "--root", tmp_path).stdout
        (first, *_) = [line for line in told.splitlines() if "corrupt patch" in line]
        places[name] = first.partition(",line=")[2].partition(",")[0]
    assert places["lint"] == places["verify"] != "1"


def test_many_commits_without_a_patch_are_one_remark(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    for number in range(12):
        fork.repo.commit(f"More {number}", {"src/other.cpp": f"{number}\n"})
    (tmp_path / "verify.json").write_text(run_cli("verify", *fork.options, "--json").stdout)
    told = run_cli("ci", "annotate", tmp_path / "verify.json", "--patches", fork.series, "--root", tmp_path).stdout
    assert len(told.splitlines()) == 1
    assert told.endswith(": More 9%0Aand 2 more\n")
