"""`patchstack show`: one patch, with its metadata and its diff in context."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from patchstack.cli import main
from patchstack.cli.failures import guarded
from patchstack.cli.main import app as whole
from patchstack.cli.show import show_command
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, numbered

BODY = "It was slow.\n\nSwitch: LLAMA_KV_PAGED\nDefault: off\nGates: ops, transcript\nGroup: paged\nReplaces: 7"


@pytest.fixture
def patchstack(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> RunCli:
    """Run `patchstack show`; the test fails if it writes anything."""
    small = typer.Typer(pretty_exceptions_enable=False)
    small.callback()(lambda: None)
    small.command("show")(show_command)
    monkeypatch.setattr(main, "app", small)
    return run_cli


def workspace(fork: Fork, extra: str = "") -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n{extra}"
    )


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork of two patches, the second with trailers."""
    fork = a_fork(tmp_path, 1)
    changes = {"src/kernel.cu": numbered(300, {10: "changed by commit 1", 100: "paged"}), "src/own.h": "x\n"}
    fork.commits.append(fork.repo.commit("Page it", changes, body=BODY))
    fork.export()
    workspace(fork)
    return fork


def test_a_patch_is_shown_with_head_trailers_files_and_diff(fork: Fork, patchstack: RunCli) -> None:
    ran = patchstack("show", "2")
    assert ran.code == 0
    lines = ran.stdout.splitlines()
    assert lines[:11] == [
        "product 0002: Page it",
        "  file      0002-Page-it.patch",
        lines[2],
        f"  fork      {fork.commits[1][:12]} (from fork)",
        f"  tree      {fork.trees[1][:12]}, before it {fork.trees[0][:12]}",
        "  switch    LLAMA_KV_PAGED",
        "  default   off",
        "  gates     ops, transcript",
        "  group     paged",
        "  replaces  7",
        "  files     +1 -1      src/kernel.cu",
    ]
    assert lines[2].startswith("  author    A U Thor <author@example.com>, Sun, 15 Jun 2025")
    assert lines[11:13] == ["            +1 -0      src/own.h", ""]
    data = fork.patch(2).read_text()
    assert ran.stdout.endswith(data[data.index("diff --git") : data.rindex("-- \n")])
    assert patchstack("show", "product", "0002", "--plain").stdout == ran.stdout


def test_the_document_has_it_all(fork: Fork, patchstack: RunCli) -> None:
    document = patchstack("show", "2", "--json").document
    assert document["schema"] == "patchstack.show/1"
    assert document["number"] == 2
    assert document["trailers"][0] == {"key": "Switch", "value": "LLAMA_KV_PAGED"}
    assert document["metadata"]["gates"] == ["ops", "transcript"]
    assert document["metadata"]["upstream"] == []
    assert (document["tree_before"], document["tree"]) == (fork.trees[0], fork.trees[1])
    assert (document["fork_commit"], document["fork_commit_from"]) == (fork.commits[1], "fork")
    assert [file["path"] for file in document["files"]] == ["src/kernel.cu", "src/own.h"]
    assert document["diff"].startswith("diff --git a/src/kernel.cu")


def test_an_unknown_number_names_those_there_are(fork: Fork, patchstack: RunCli) -> None:
    ran = patchstack("show", "9")
    assert ran.code == 2
    assert ran.stderr == "error: product: no patch has number 9\n\nhint: the numbers are 0001-0002; 0 is the pin\n"


@pytest.mark.parametrize("words", [["two"], ["-1"], ["product", "2", "3"], ["nowhere", "2"], []])
def test_wrong_words_are_wrong_usage(fork: Fork, patchstack: RunCli, words: list[str]) -> None:
    assert patchstack("show", *words).code == 2


def test_an_anchored_patch_is_drawn_with_context(fork: Fork, patchstack: RunCli) -> None:
    bare = fork.repo.diff(fork.commits[0], fork.commits[1], "-U0", "--full-index")
    fork.patch(2).unlink()
    (fork.series / "0002-page.anchored").write_bytes(bare)
    ran = patchstack("show", "2")
    assert ran.code == 0
    assert "@@ -97,7 +97,7 @@" in ran.stdout
    assert " line 99\n-line 100\n+paged\n line 101\n" in ran.stdout
    assert "author" not in ran.stdout


def test_a_patch_that_does_not_apply_is_shown_with_its_state(fork: Fork, patchstack: RunCli) -> None:
    fork.edit_patch(2, " line 99", " line ninety-nine")
    ran = patchstack("show", "2")
    assert ran.code == 0
    assert "  state     conflict: src/kernel.cu: hunk 1" in ran.stdout
    assert "  tree " not in ran.stdout
    assert " line ninety-nine\n" in ran.stdout


def test_the_lock_or_the_head_tells_the_commit_where_the_fork_is_not_here(
    fork: Fork, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "fork").rename(tmp_path / "away")
    ran = patchstack("show", "2")
    assert f"fork      {fork.commits[1][:12]} (from its From line)" in ran.stdout
    assert "warning: the fork is not used: no repository at ./fork" in ran.stderr
    (tmp_path / "away").rename(tmp_path / "fork")
    monkeypatch.setattr(sys, "argv", ["patchstack", "export", "product"])
    assert guarded(whole) == 0
    (tmp_path / "fork").rename(tmp_path / "away")
    assert f"fork      {fork.commits[1][:12]} (from lock)" in patchstack("show", "2").stdout


def test_without_the_upstream_the_file_itself_is_shown(fork: Fork, patchstack: RunCli, tmp_path: Path) -> None:
    (tmp_path / "upstream").rename(tmp_path / "away")
    ran = patchstack("show", "2")
    assert ran.code == 0
    assert "warning: the patch is shown from its file: there is no upstream at ./upstream: " in ran.stderr
    assert "+paged\n" in ran.stdout


def test_what_others_wrote_is_spelled_out(tmp_path: Path, patchstack: RunCli) -> None:
    fork = a_fork(tmp_path, steps=[("Red \x1b[31m", {"evil": "\x1b]0;title\x07\u202e\n"})])
    workspace(fork)
    told = patchstack("show", "1").told
    assert not {"\x1b", "\x07", "\u202e"} & set(told)
    assert "+\\x1b]0;title\\x07\\u202e" in told


def test_colour_is_for_terminals_and_no_color_is_kept(
    fork: Fork, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain = patchstack("show", "2", "--plain").stdout
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    quiet = patchstack("show", "2").stdout
    monkeypatch.delenv("NO_COLOR")
    coloured = patchstack("show", "2").stdout
    assert "\x1b" not in plain
    assert "\x1b[32m" not in quiet
    assert "\x1b[32m+paged\x1b[0m" in coloured
    assert "\x1b[31m-line 100\x1b[0m" in coloured


def test_several_series_want_a_name(fork: Fork, patchstack: RunCli) -> None:
    twin = (fork.series.parent / "patchstack.yaml").read_text().partition("\n")[2].replace("product:", "twin:", 1)
    workspace(fork, twin)
    ran = patchstack("show", "2")
    assert ran.code == 2
    assert "name one of product, twin" in ran.stderr
    assert patchstack("show", "twin", "2").stdout.startswith("twin 0002: Page it\n")
