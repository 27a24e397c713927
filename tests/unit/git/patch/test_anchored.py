"""Anchored patches: applied to the exact blob from which they were made, and to no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.git.objects import Objects
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.anchored import apply_anchored
from tests.conftest import Ran, RunCli
from tests.support.builders import (
    Changes,
    RepoBuilder,
    an_upstream,
    edited,
    executable,
    mail,
    new_file,
    new_link,
    numbered,
    the_oracle,
    write_series,
)

CHANGES: dict[str, Changes] = {
    "an insertion": {"src/other.cpp": numbered(10) + "new\n" + "".join(f"line {n}\n" for n in range(11, 41))},
    "a change": {"src/other.cpp": numbered(40, {7: "seven", 20: "twenty", 21: "twenty-one"})},
    "both ends": {"src/other.cpp": "zero\n" + numbered(40, {1: "first"}) + "end\n"},
    "a removal": {"src/other.cpp": "".join(f"line {n}\n" for n in range(5, 38))},
    "a last newline that goes": {"src/other.cpp": numbered(40).rstrip("\n")},
    "an end without newline": {"src/other.cpp": numbered(40) + "end"},
    "a new file": {"src/new.cpp": numbered(5)},
    "a deletion": {"src/other.cpp": None},
    "a file emptied": {"docs/notes.txt": ""},
    "a mode and a change": {"src/other.cpp": executable(numbered(40, {3: "three"}))},
    "several files": {"src/other.cpp": numbered(40, {3: "three"}), "docs/notes.txt": "one\n2\nthree\n", "x/y": "z\n"},
}


class Anchored:
    """An upstream, and one anchored patch on it."""

    def __init__(self, directory: Path, run_cli: RunCli) -> None:
        self.directory = directory
        self.upstream, self.pin = an_upstream(directory)
        self.series = directory / "patches"
        self._run_cli = run_cli

    def made_by(self, changes: Changes, *options: str) -> bytes:
        """Return the diff of a commit on the pin in the form of an anchored patch."""
        self.upstream.branch("work", self.pin)
        self.after = self.upstream.commit("Change", changes)
        return self.upstream.diff(self.pin, self.after, *(options or ("-U0", "--full-index")))

    def verify(self, diff: bytes, pin: str = "") -> Ran:
        write_series(self.series, {"0001-x.anchored": mail("Anchored", diff)})
        named = ["--patches", str(self.series), "--upstream", str(self.upstream.path), "--pin", pin or self.pin]
        return self._run_cli("verify", *named, "--apply-only", "--json")


@pytest.fixture
def anchored(tmp_path: Path, run_cli: RunCli) -> Anchored:
    return Anchored(tmp_path, run_cli)


@pytest.mark.parametrize("change", CHANGES)
def test_an_anchored_patch_gives_the_tree_of_its_commit(anchored: Anchored, change: str) -> None:
    ran = anchored.verify(anchored.made_by(CHANGES[change]))
    assert (ran.code, ran.document["patches"][0]["state"]) == (0, "ok")
    assert ran.document["applied_tree"] == anchored.upstream.tree(anchored.after)
    assert ran.document["patches"][0]["subject"] == "Anchored"


def test_a_file_without_last_newline_is_kept_so(anchored: Anchored) -> None:
    anchored.pin = anchored.upstream.commit("No newline", {"end": "a\nb\nc"})
    for changes in (
        {"end": "A\nb\nc"},
        {"end": "a\nb\nc\n"},
        {"end": "a\nb\nC"},
        {"end": "a\nb\nc\nd"},
        {"end": "a\nb"},
    ):
        ran = anchored.verify(anchored.made_by(changes))
        assert (ran.code, ran.document["applied_tree"]) == (0, anchored.upstream.tree(anchored.after)), changes


def test_an_anchored_patch_is_refused_on_another_blob_and_both_are_named(anchored: Anchored) -> None:
    diff = anchored.made_by(CHANGES["a change"])
    blob = anchored.upstream.blob(anchored.pin, "src/other.cpp")
    anchored.upstream.branch("moved", anchored.pin)
    moved = anchored.upstream.commit("Moved", {"src/other.cpp": "a new first line\n" + numbered(40)})
    ran = anchored.verify(diff, moved)
    patch = ran.document["patches"][0]
    assert (ran.code, patch["state"]) == (1, "conflict")
    there = anchored.upstream.blob(moved, "src/other.cpp")
    assert patch["detail"] == f"src/other.cpp: anchored to blob {blob[:12]}, but the file is blob {there[:12]} here"


def test_an_anchored_patch_for_a_file_that_is_gone_is_a_missing_file(anchored: Anchored) -> None:
    diff = anchored.made_by(CHANGES["a change"])
    anchored.upstream.branch("moved", anchored.pin)
    ran = anchored.verify(diff, anchored.upstream.commit("Gone", {"src/other.cpp": None}))
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "missing-file")
    assert ran.document["patches"][0]["detail"] == "src/other.cpp: the file does not exist"


def test_an_anchored_patch_that_makes_a_file_that_is_there_is_a_conflict(anchored: Anchored) -> None:
    diff = anchored.made_by(CHANGES["a new file"])
    ran = anchored.verify(diff, anchored.after)
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "conflict")
    assert ran.document["patches"][0]["detail"] == "src/new.cpp: the patch creates it, but it already exists"


def test_abbreviated_ids_are_malformed(anchored: Anchored) -> None:
    ran = anchored.verify(anchored.made_by(CHANGES["a change"], "-U0"))
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "malformed")
    assert ran.document["patches"][0]["detail"] == (
        "src/other.cpp: an anchored patch needs full blob ids in its index line (git diff --full-index)"
    )


def test_no_ids_at_all_are_malformed(anchored: Anchored) -> None:
    diff = b"\n".join(
        line for line in anchored.made_by(CHANGES["a change"]).split(b"\n") if not line.startswith(b"index")
    )
    assert anchored.verify(diff).document["patches"][0]["state"] == "malformed"


def test_a_mode_alone_has_no_ids_and_no_lines_and_is_told_so_or_taken(anchored: Anchored) -> None:
    diff = anchored.made_by({"docs/notes.txt": executable("one\ntwo\nthree\n")})
    ran = anchored.verify(diff)
    assert b"index" not in diff
    patch = ran.document["patches"][0]
    assert patch["state"] in ("ok", "malformed")
    if patch["state"] == "ok":
        assert patch["tree"] == anchored.upstream.tree(anchored.after)


@pytest.mark.parametrize("change", ["a change", "an insertion", "a removal", "both ends"])
@pytest.mark.parametrize("context", ["-U1", "-U3"])
def test_context_lines_are_malformed(anchored: Anchored, change: str, context: str) -> None:
    ran = anchored.verify(anchored.made_by(CHANGES[change], context, "--full-index"))
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "malformed")
    assert (
        ran.document["patches"][0]["detail"] == "src/other.cpp: an anchored patch must have no context (git diff -U0)"
    )


def test_context_between_two_changes_is_malformed(anchored: Anchored) -> None:
    diff = anchored.made_by({"src/other.cpp": numbered(40, {7: "seven", 9: "nine"})})
    joined = diff.replace(b"@@ -7 +7 @@ line 6\n", b"@@ -7,3 +7,3 @@\n").replace(b"@@ -9 +9 @@ line 8\n", b" line 8\n")
    assert joined.count(b"@@") == 2
    assert anchored.verify(joined).document["patches"][0]["state"] == "malformed"


def test_a_line_that_is_removed_and_added_again_is_no_context(anchored: Anchored) -> None:
    anchored.pin = anchored.upstream.commit("Short", {"short": "a\nb\n"})
    anchored.made_by({"short": "b\na\n"})
    ids = [anchored.upstream.blob(rev, "short") for rev in (anchored.pin, anchored.after)]
    diff = edited("short", "@@ -1,2 +1,2 @@\n-a\n-b\n+b\n+a\n")
    ran = anchored.verify(diff.replace(b"\n---", f"\nindex {ids[0]}..{ids[1]} 100644\n---".encode(), 1))
    assert (ran.code, ran.document["applied_tree"]) == (0, anchored.upstream.tree(anchored.after))


def test_a_result_other_than_the_promised_blob_is_a_conflict(anchored: Anchored) -> None:
    diff = anchored.made_by(CHANGES["a change"])
    promised = anchored.upstream.blob(anchored.after, "src/other.cpp")
    ran = anchored.verify(diff.replace(b"+seven", b"+7"))
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "conflict")
    assert (
        ran.document["patches"][0]["detail"]
        == f"src/other.cpp: the result is not blob {promised[:12]}, the post-image of the patch"
    )


def test_a_hunk_at_a_wrong_line_is_a_conflict_and_is_not_searched_for(anchored: Anchored) -> None:
    diff = anchored.made_by({"src/other.cpp": numbered(40, {7: "seven"})})
    ran = anchored.verify(diff.replace(b"@@ -7 +7 @@", b"@@ -8 +8 @@"))
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "conflict")
    assert "does not match the lines at its place" in ran.document["patches"][0]["detail"]


@pytest.mark.parametrize("data", [b"", b"words\n", b"\0\1"])
def test_what_is_no_diff_is_malformed(anchored: Anchored, data: bytes) -> None:
    ran = anchored.verify(data)
    assert (ran.code, ran.document["patches"][0]["state"]) == (1, "malformed")
    assert ran.document["patches"][0]["detail"].startswith("not an anchored patch: ")


@pytest.mark.parametrize("path", ["../x", ".git/config", ".GIT/x", "link/x"])
def test_an_anchored_patch_cannot_leave_the_tree(anchored: Anchored, path: str) -> None:
    oid = "587be6b4c3f93f93c489c0111bba5596147a26cb"
    write_series(anchored.series, {"0000-link.patch": new_link("link", "src")})
    ran = anchored.verify(new_file(path, ids=f"{'0' * 40}..{oid}"))
    assert ran.code == 1
    assert ran.document["patches"][1]["state"] in ("unsafe", "malformed")


def test_plain_git_would_be_fooled_and_the_warning_says_so(anchored: Anchored, tmp_path: Path) -> None:
    diff = anchored.made_by(CHANGES["an insertion"])
    upstream: RepoBuilder = anchored.upstream
    # git reports success and gives a different tree.
    fooled = the_oracle(tmp_path / "oracle", upstream).apply(upstream.tree(anchored.pin), diff)
    assert fooled not in (None, upstream.tree(anchored.after))
    ran = anchored.verify(diff)
    assert ran.document["warnings"] == [
        "0001-x.anchored is anchored: git apply would put the lines in the wrong place without an error; "
        "apply this series with patchstack apply"
    ]


line_of_text = st.sampled_from([b"a", b"b", b"", b"c"])
texts = st.builds(
    lambda lines, end: b"\n".join(lines) + end,
    st.lists(line_of_text, min_size=1, max_size=8),
    st.sampled_from([b"\n", b""]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(old=texts, new=texts)
def test_what_git_writes_without_context_comes_back_byte_by_byte(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes
) -> None:
    """`git diff -U0 --full-index` of any two texts, applied to the first, gives the second."""
    if old == new:
        return
    directory = tmp_path_factory.mktemp("round")
    repo = RepoBuilder(directory / "repo")
    repo.commit("Old", {"f": old})
    repo.commit("New", {"f": new})
    diff = repo.diff("main~1", "main", "-U0", "--full-index")
    objects = Objects()
    objects.add_directory(directory / "repo" / ".git" / "objects", "repo")
    outcome = apply_anchored(objects, TreeOverlay(objects, repo.tree("main~1")), diff)
    assert outcome.tree == repo.tree("main"), (old, new, diff, outcome)
