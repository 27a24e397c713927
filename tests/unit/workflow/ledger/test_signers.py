"""The list of allowed signers never comes from the tree under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import MissingError, UsageError
from patchstack.workflow.ledger.signers import find_signers
from tests.support.builders import run_git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a clone of a protected branch, with a new branch that has a different list."""
    server, root = tmp_path / "server", tmp_path / "clone"
    run_git("init", "-q", "--initial-branch=main", server, cwd=tmp_path)
    (server / "ledger").mkdir()
    (server / "ledger" / "allowed_signers").write_text("the maintainers\n")
    run_git("add", "-A", cwd=server)
    run_git("commit", "-qm", "a list", cwd=server)
    run_git("clone", "-q", server, root, cwd=tmp_path)
    run_git("checkout", "-qb", "idea", cwd=root)
    (root / "ledger" / "allowed_signers").write_text("the forger\n")
    run_git("commit", "-qam", "another list", cwd=root)
    return root


def test_the_protected_branch_s_list_counts(checkout: Path) -> None:
    found = find_signers("origin/main", checkout)
    assert (found.content, found.where) == (b"the maintainers\n", "ledger/allowed_signers of origin/main")
    assert find_signers("origin/main:ledger/allowed_signers", checkout).content == b"the maintainers\n"


def test_a_workspace_below_the_repository_s_root_has_its_own_list(checkout: Path) -> None:
    below = checkout / "ledger"
    with pytest.raises(MissingError, match="there is no list of allowed signers origin/main"):
        find_signers("origin/main", below)


def test_a_file_outside_the_tree_counts(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("somebody\n")
    assert find_signers(str(tmp_path / "list"), checkout).content == b"somebody\n"


@pytest.mark.parametrize("given", ["HEAD", "@", "idea", "refs/heads/idea", "HEAD:ledger/allowed_signers", "head"])
def test_what_is_checked_out_names_no_signers(checkout: Path, given: str) -> None:
    with pytest.raises(UsageError, match="is checked out here"):
        find_signers(given, checkout)


def test_a_list_in_the_tree_names_no_signers(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout / "ledger" / "allowed_signers")
    for given in (checkout / "ledger" / "allowed_signers", tmp_path / "link"):
        with pytest.raises(UsageError, match="is in the checked tree") as error:
            find_signers(str(given), checkout)
        assert "origin/main" in (error.value.hint or "")


@pytest.mark.parametrize("given", ["nowhere", "origin/main:none", "--help", "-h:x", ":x", "origin/idea"])
def test_a_list_that_does_not_exist_is_missing(checkout: Path, given: str) -> None:
    with pytest.raises((MissingError, UsageError)):
        find_signers(given, checkout)


def test_an_option_of_git_is_no_ref(checkout: Path) -> None:
    with pytest.raises(MissingError, match="--batch is neither a file nor a ref"):
        find_signers("--batch", checkout)
