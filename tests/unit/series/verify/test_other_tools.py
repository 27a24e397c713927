"""Patches that git and GNU patch apply at different places are reported, and not adopted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Patchstack, RunCli
from tests.support.builders import RepoBuilder, format_patch, numbered, run_git
from tests.support.oracle import hermetic_environment
from tests.support.quilt import needs_quilt

BLOCK = "a\nb\nc\nd\ne\nf\n"


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Return a patch of two hunks, and a pin on which the context of the second occurs twice: near its line, and at the
    offset of the first hunk."""
    repo = RepoBuilder(tmp_path / "upstream")
    base = repo.commit("Base", {"f": numbered(40) + BLOCK + numbered(9)})
    repo.branch("fork", base)
    repo.commit("Two", {"f": numbered(40, {10: "ten"}) + BLOCK.replace("c\n", "c\nnew\n") + numbered(9)})
    format_patch(repo, base, "fork", tmp_path / "patches")
    repo.branch("main", base)
    moved = "".join(f"before {n}\n" for n in range(30))
    top, rest = numbered(15), numbered(40).removeprefix(numbered(15))
    pin = repo.commit("Moved", {"f": moved + top + BLOCK + rest + BLOCK + numbered(9)})
    return ["--patches", str(tmp_path / "patches"), "--upstream", str(repo.path), "--pin", pin]


@needs_quilt
def test_two_tools_that_disagree_are_told(tmp_path: Path, sources: list[str], run_cli: RunCli) -> None:
    [patch] = (tmp_path / "patches").glob("*.patch")
    tree = tmp_path / "tree"
    run_git("clone", "-q", sources[3], tree, cwd=tmp_path)
    run_git("checkout", "-q", sources[5], cwd=tree)
    subprocess.run(["patch", "-p1", "-i", patch], cwd=tree, check=True, capture_output=True, env=hermetic_environment())
    run_git("add", "-A", cwd=tree)
    theirs = run_git("write-tree", cwd=tree).stdout.decode().strip()
    document = run_cli("verify", *sources, "--apply-only", "--json").document
    assert document["applied_count"] == 1
    assert document["applied_tree"] != theirs
    [warning] = document["warnings"]
    assert warning.startswith(f"{patch.name}: f: git apply and GNU patch (quilt) put a hunk in different places")


def test_a_plain_diff_that_git_applies_can_be_compared(tmp_path: Path, sources: list[str], run_cli: RunCli) -> None:
    [patch] = (tmp_path / "patches").glob("*.patch")
    diff = patch.read_bytes()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/0001-x.patch").write_bytes(diff[diff.index(b"\n--- a/") + 1 :])
    ran = run_cli("verify", "--patches", tmp_path / "plain", *sources[2:], "--apply-only", "--json")
    assert ran.document["applied_count"] == 1
    assert "in different places" in ran.document["warnings"][0]


def test_a_patch_of_too_many_hunks_is_not_compared_and_the_warning_says_so(
    tmp_path: Path, sources: list[str], run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchstack.series.verify.other_tools.MOST_HUNKS", 2)
    [patch] = (tmp_path / "patches").glob("*.patch")
    assert run_cli("verify", *sources, "--apply-only", "--json").document["warnings"] == [
        f"{patch.name}: 2 hunks are too many to compare their places with those of GNU patch"
    ]


def test_what_two_tools_read_differently_is_not_adopted(
    tmp_path: Path,
    sources: list[str],
    patchstack: Patchstack,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert patchstack("init", *sources[:2], "--adopt", sources[3], *sources[4:]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: the place of these hunks is ambiguous; nothing was written\n")
    assert told.endswith("hint: write the patch again with more context: run 'git diff -U10' with the intended tree\n")
    assert list(Path.cwd().iterdir()) == []
