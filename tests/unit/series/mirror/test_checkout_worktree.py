"""`patchstack checkout --worktree-of`: the fork's branch in an existing clone, with a separate work tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import Fork, RepoBuilder, a_fork, run_git


@pytest.fixture
def fork(tmp_path: Path, patchstack: Patchstack) -> Fork:
    """Return an exported fork of three commits."""
    made = a_fork(tmp_path, 3)
    for path in made.patches:
        path.unlink()
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {made.pin}\n"
        f"    fork: fork\n    fork_ref: {made.ref}\n"
    )
    assert patchstack("export") == 0
    return made


@pytest.fixture
def clone(fork: Fork, tmp_path: Path) -> RepoBuilder:
    """Return a clone of the upstream without the fork, with hooks that must not run."""
    run_git("clone", "--quiet", str(fork.upstream.path), str(tmp_path / "clone"), cwd=tmp_path)
    for name in ("post-checkout", "prepare-commit-msg", "post-commit"):
        hook = tmp_path / "clone" / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
        hook.chmod(0o755)
    return RepoBuilder(tmp_path / "clone")


def files_of(clone: RepoBuilder) -> dict[str, bytes]:
    """Return everything of a clone except its object store and the administration of its work trees."""

    def below() -> Iterator[Path]:
        for path in sorted(clone.path.rglob("*")):
            inside = path.relative_to(clone.path).parts
            if path.is_file() and inside[:2] not in {(".git", "objects"), (".git", "worktrees")}:
                yield path

    return {str(path.relative_to(clone.path)): path.read_bytes() for path in below()}


def test_the_branch_is_made_in_the_clone_and_nothing_else_of_it_changes(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(clone)
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", "--worktree-of", "clone") == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        f"product: tree, a work tree of clone, has branch product at {fork.commits[-1]}, 3 commits"
    )
    assert "borrows" not in said.err
    assert clone.git("rev-parse", "product") == fork.commits[-1]
    tree = RepoBuilder(tmp_path / "tree")
    assert tree.git("status", "--short") == ""
    assert tree.git("rev-list", f"{fork.pin}..HEAD").split() == fork.commits[::-1]
    run_git("fsck", "--strict", "--no-dangling", cwd=clone.path)
    after = files_of(clone)
    assert {name for name in after if after[name] != before.get(name)} == {
        ".git/refs/heads/product",
        ".git/logs/refs/heads/product",
    } & set(after)
    assert before.items() <= after.items()
    assert not (tmp_path / "hook-ran").exists()


def test_a_branch_of_that_name_elsewhere_is_refused_and_another_name_taken(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    clone.git("branch", "product", fork.pin)
    before = files_of(clone)
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", "--worktree-of", "clone") == 2
    told = capsys.readouterr().err
    assert f"clone has it at {fork.pin[:12]}, but the series ends at {fork.commits[-1][:12]}" in told
    assert "hint: choose a different name with --branch NAME" in told
    assert files_of(clone) == before
    assert not (tmp_path / "tree").exists()
    assert patchstack("checkout", "product", "tree", "--worktree-of", "clone", "--branch", "mine") == 0
    assert clone.git("rev-parse", "mine") == fork.commits[-1]
    assert clone.git("rev-parse", "product") == fork.pin


def test_a_branch_that_stands_there_already_serves_unless_it_is_checked_out(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    for directory, code in (("one", 0), ("two", 3)):
        capsys.readouterr()
        assert patchstack("checkout", "product", directory, "--worktree-of", "clone") == code
    told = capsys.readouterr().err
    assert "git worktree add in clone failed" in told
    assert "hint: use --branch NAME if a different work tree has this branch" in told
    assert clone.git("rev-parse", "product") == fork.commits[-1]
    assert not (tmp_path / "two").exists()
    run_git("worktree", "remove", "one", cwd=clone.path)
    assert patchstack("checkout", "product", "two", "--worktree-of", "clone") == 0


def test_up_to_a_patch_and_one_alone_go_there_too(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack
) -> None:
    assert patchstack("checkout", "product", "two", "--at", "2", "--worktree-of", "clone") == 0
    assert clone.git("rev-parse", "product-at-2") == fork.commits[1]
    assert patchstack("checkout", "product", "alone", "--patch", "3", "--worktree-of", "clone") == 0
    assert clone.git("rev-parse", "product-patch-3^") == fork.pin
    assert run_git("branch", "--show-current", cwd=tmp_path / "alone").stdout == b"product-patch-3\n"
    assert not (tmp_path / "hook-ran").exists()


def test_without_files_there_is_the_branch_and_an_empty_tree(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack
) -> None:
    assert patchstack("checkout", "product", "tree", "--no-files", "--worktree-of", "clone") == 0
    assert [path.name for path in (tmp_path / "tree").iterdir()] == [".git"]
    assert clone.git("rev-parse", "product") == fork.commits[-1]


def upstream_by_url(root: Path) -> None:
    """The workspace names an unreachable upstream."""
    file = root / "patchstack.yaml"
    lines = file.read_text().splitlines(True)
    changed = ["    upstream: https://127.0.0.1:9/x.git\n" if "upstream:" in line else line for line in lines]
    assert changed != lines
    file.write_text("".join(changed))


def test_a_clone_that_has_the_pin_needs_no_network(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream_by_url(tmp_path)
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", "--worktree-of", "clone") == 0
    said = capsys.readouterr()
    assert said.err.startswith("note: clone contains the pin, so nothing is fetched from https://127.0.0.1:9/x.git\n")
    assert clone.git("rev-parse", "product") == fork.commits[-1]


def test_a_clone_without_the_pin_does_not_serve_in_upstream_s_place(
    fork: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream_by_url(tmp_path)
    RepoBuilder(tmp_path / "strange").commit("Something else", {"file": "text\n"})
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", "--worktree-of", "strange") == 3
    assert f"pin {fork.pin} could not be fetched from https://127.0.0.1:9/x.git" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ("nowhere", "nowhere is not a git repository"),
        ("patches", "patches is not a git repository"),
        ("strange", "strange does not have the pin"),
    ],
)
def test_a_repository_that_cannot_take_it_is_named(
    fork: Fork,
    tmp_path: Path,
    patchstack: Patchstack,
    capsys: pytest.CaptureFixture[str],
    repository: str,
    words: str,
) -> None:
    strange = RepoBuilder(tmp_path / "strange")
    strange.commit("Something else", {"file": "text\n"})
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", "--worktree-of", repository) == 3
    assert words in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("name", ["-x", "a b", "a..b", "@{-1}"])
@pytest.mark.parametrize("where", [[], ["--worktree-of", "clone"]], ids=["a new repository", "a clone"])
def test_a_name_that_no_branch_may_have_is_refused_before_anything_is_written(
    clone: RepoBuilder,
    tmp_path: Path,
    patchstack: Patchstack,
    capsys: pytest.CaptureFixture[str],
    name: str,
    where: list[str],
) -> None:
    before = files_of(clone)
    capsys.readouterr()
    assert patchstack("checkout", "product", "tree", f"--branch={name}", *where) == 2
    assert (
        capsys.readouterr().err
        == f"error: {name!r} is not a valid branch name\n\nhint: choose a valid name with --branch NAME\n"
    )
    assert files_of(clone) == before
    assert not (tmp_path / "tree").exists()


def test_what_cannot_be_written_leaves_no_branch(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way\n")
    capsys.readouterr()
    assert patchstack("checkout", "product", "file/tree", "--worktree-of", "clone") == 3
    assert "git worktree add in clone failed" in capsys.readouterr().err
    assert run_git("branch", "--list", "product", cwd=clone.path).stdout == b""
    assert run_git("worktree", "list", "--porcelain", cwd=clone.path).stdout.count(b"worktree ") == 1


def test_objects_are_written_whole_and_read_only(
    fork: Fork, clone: RepoBuilder, tmp_path: Path, patchstack: Patchstack
) -> None:
    assert patchstack("checkout", "product", "tree", "--worktree-of", "clone") == 0
    objects = clone.path / ".git" / "objects"
    assert not list(objects.rglob("tmp_obj_*"))
    commit = objects / fork.commits[0][:2] / fork.commits[0][2:]
    assert stat.S_IMODE(os.stat(commit).st_mode) == 0o444
