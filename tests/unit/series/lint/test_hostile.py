"""Patches that try to make the rules slow: the work grows at most linearly with the length of the text."""

from __future__ import annotations

import re
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from patchstack.git.patch.trailers import metadata_of, parse_trailers
from patchstack.series.lint.globs import as_pattern, followed, matching
from patchstack.series.lint.secrets import secrets_in
from patchstack.series.lint.unreadable import readable
from patchstack.workspace import LintPolicy
from tests.conftest import RunCli
from tests.support.builders import a_fork

SECONDS = 30.0
"""CPU seconds. Each case takes less than one; without limits they would take minutes, hours or years."""

parts = st.sampled_from(["a", "b", "/", "*", "**", "**/", "?", "[ab]", "[!a]", "[b", "]", "."])
globs = st.lists(parts, max_size=7).map("".join)
paths = st.text(alphabet="ab/.\n", max_size=9)


@given(glob=globs, path=paths)
def test_a_glob_that_is_followed_matches_as_its_regular_expression(glob: str, path: str) -> None:
    assert followed(glob, path) == bool(as_pattern(glob).match(path))


def test_a_glob_of_many_wildcards_ends() -> None:
    start = time.process_time()
    assert matching("a/" * 500 + "a", ["**/a/" * 20 + "b"]) is None
    assert matching("a" * 1000, ["*a" * 20 + "b"]) is None
    assert matching("a/" * 500 + "b", ["**/a/" * 20 + "b"]) is not None
    assert time.process_time() - start < SECONDS


def test_a_scope_that_is_too_much_work_is_a_finding(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 0)
    scope = "Scope: " + ", ".join("**/a/" * 40 + str(one) for one in range(40))
    files = {f"{'d/' * 60}{one}.txt": "x\n" for one in range(40)}
    fork.commits = [fork.repo.commit("Many files", files, body=scope)]
    fork.export()
    start = time.process_time()
    ran = run_cli(*("lint", "--patches", str(fork.series), "--upstream", str(fork.upstream.path), "--pin", fork.pin))
    assert time.process_time() - start < SECONDS
    assert ran.code == 1
    assert "the scopes of the series are too much work to check" in ran.stdout


def test_a_long_word_is_searched_once_for_an_assigned_secret() -> None:
    start = time.process_time()
    assert not list(secrets_in("key" * 100_000 + '"'))
    assert not list(secrets_in("a-password " * 20_000 + "'"))
    assert [found for _, found in secrets_in('x.my_api_key = "0123456789abc"')] == ["0123456789abc"]
    assert time.process_time() - start < SECONDS


def test_a_long_trailer_and_many_of_them_are_read_in_one_go() -> None:
    start = time.process_time()
    (trailer,) = parse_trailers("subject\n\nScope: first\n" + " and more of the same, a whole line of it\n" * 100_000)
    assert trailer.value.count("more") == 100_000
    assert re.match("first and more", trailer.value)
    many = parse_trailers("subject\n\n" + "Scope: a, b\n" * 100_000)
    assert len(metadata_of(many)["scope"]) == 200_000
    assert time.process_time() - start < SECONDS


def test_a_patch_too_large_for_the_rules_is_a_finding_unless_the_policy_allows_its_size() -> None:
    lines = b"x\n" * 100_001
    assert readable(lines, LintPolicy()) == b""
    assert readable(lines, LintPolicy(patch_kib=100)) == b""
    assert readable(lines, LintPolicy(patch_kib=1000)) == lines
    assert readable(lines[:-2], LintPolicy()) == lines[:-2]
    assert readable(None, LintPolicy()) == b""
    files = b"".join(b"diff --git a/%d b/%d\nold mode 100644\nnew mode 100755\n" % (at, at) for at in range(5000))
    assert readable(files, LintPolicy()) == b""
    assert readable(files[: files.rindex(b"diff")], LintPolicy()) != b""
    hunks = b"diff --git a/x b/x\n" + b"@@ -1 +1 @@\n-a\n+b\n" * 9_999
    assert readable(hunks, LintPolicy()) == hunks
    assert readable(hunks + b"@@ -1 +1 @@\n-a\n+b\n", LintPolicy()) == b""


def test_lint_says_which_patch_it_did_not_look_at(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 0)
    fork.commits = [fork.repo.commit("A large file", {"large.txt": "x\n" * 100_001})]
    fork.export()
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: {fork.series}\n    upstream: {fork.upstream.path}\n    pin: {fork.pin}\n"
    )
    ran = run_cli("lint", "--workspace", str(tmp_path / "patchstack.yaml"))
    assert ran.code == 1
    assert "it is too large for the rules: 0.3 MB, 100,0" in ran.stdout
    assert "Rules read 4 MiB, 100,000 lines, 5,000 files and 10,000 hunks" in ran.stdout
    assert "1 finding" in ran.stdout, "no other rule says anything of it"
