"""The pin and the fork's descent from it: abbreviated, ambiguous, tagged, not a commit, merged, elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pygit2
import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, RepoBuilder, a_fork


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def pinned(fork: Fork, pin: str) -> list[str]:
    return ["--patches", str(fork.series), "--upstream", str(fork.upstream.path), "--pin", pin]


def two_commits_of_one_prefix(repo: RepoBuilder) -> tuple[str, str]:
    """Write two commits whose ids share their first four digits."""
    tree = repo.tree("HEAD")
    seen: dict[str, bytes] = {}
    for number in range(100_000):
        data = f"tree {tree}\nauthor A <a@b> {number} +0000\ncommitter A <a@b> {number} +0000\n\nx\n".encode()
        digest = hashlib.sha1(b"commit %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if digest[:4] in seen:
            first = repo.repo.write(pygit2.enums.ObjectType.COMMIT, seen[digest[:4]])
            return str(first), str(repo.repo.write(pygit2.enums.ObjectType.COMMIT, data))
        seen[digest[:4]] = data
    raise AssertionError("no two commits of one prefix")


def a_blob_with_the_prefix(repo: RepoBuilder, prefix: str) -> str:
    for number in range(2_000_000):
        data = b"%d\n" % number
        if hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().startswith(prefix):
            return str(repo.repo.create_blob(data))
    raise AssertionError("no blob with that prefix")


def test_an_abbreviated_pin_is_taken_and_printed_in_full(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *pinned(fork, fork.pin[:10]), "--expect-tree", fork.trees[-1])
    assert ran.code == 0
    assert fork.pin in ran.told
    document = run_cli("verify", *pinned(fork, fork.pin[:10]), "--expect-tree", fork.trees[-1], "--json").document
    assert document["base"]["commit"] == fork.pin


def test_an_ambiguous_pin_is_refused_and_the_commits_are_listed(fork: Fork, run_cli: RunCli) -> None:
    one, two = two_commits_of_one_prefix(fork.upstream)
    ran = run_cli("verify", *pinned(fork, one[:4]), "--apply-only")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: pin {one[:4]} is ambiguous in {fork.upstream.path}\n  - ")
    assert f"  - {one[:7]} commit" in ran.stderr
    assert f"  - {two[:7]} commit" in ran.stderr
    assert ran.stderr.endswith("\n\nhint: give more digits of the commit id\n")


def test_a_pin_that_only_a_blob_shares_its_prefix_with_is_not_ambiguous(fork: Fork, run_cli: RunCli) -> None:
    blob = a_blob_with_the_prefix(fork.upstream, fork.pin[:4])
    assert blob != fork.pin
    ran = run_cli("verify", *pinned(fork, fork.pin[:4]), "--apply-only", "--json")
    assert (ran.code, ran.document["base"]["commit"]) == (0, fork.pin)


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_serves_as_pin_and_the_commit_is_named(fork: Fork, run_cli: RunCli, annotated: bool) -> None:
    fork.upstream.git("tag", *["-m", "Release 1"] * annotated, "v1", fork.pin)
    ran = run_cli("verify", *pinned(fork, "v1"), "--apply-only", "--json")
    assert (ran.code, ran.document["base"]["commit"]) == (0, fork.pin)


def test_the_id_of_a_tag_serves_as_pin_and_the_commit_is_named(fork: Fork, run_cli: RunCli) -> None:
    fork.upstream.git("tag", "-m", "Release 1", "v1", fork.pin)
    tag = fork.upstream.git("rev-parse", "v1")
    assert tag != fork.pin
    ran = run_cli("verify", *pinned(fork, tag), "--apply-only", "--json")
    assert (ran.code, ran.document["base"]["commit"]) == (0, fork.pin)


@pytest.mark.parametrize("digits", [40, 12])
@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_pin_that_is_no_commit_is_refused(fork: Fork, run_cli: RunCli, kind: str, digits: int) -> None:
    oid = fork.upstream.tree(fork.pin) if kind == "tree" else fork.upstream.blob(fork.pin, "README")
    ran = run_cli("verify", *pinned(fork, oid[:digits]), "--apply-only")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: pin {oid[:digits]} ")
    assert "not a commit" in ran.stderr
    assert "\n\nhint: " in ran.stderr


@pytest.mark.parametrize("pin", ["1" * 40, "1" * 12, "no-such-tag", "HEAD~99", "v1@{upstream}"])
def test_a_pin_that_is_not_there_is_missing(fork: Fork, run_cli: RunCli, pin: str) -> None:
    ran = run_cli("verify", *pinned(fork, pin), "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: pin {pin} is not in {fork.upstream.path}\n\nhint: ")


def test_an_upper_case_pin_is_taken_as_git_takes_it(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *pinned(fork, fork.pin.upper()), "--apply-only", "--json")
    assert (ran.code, ran.document["base"]["commit"]) == (0, fork.pin)


def test_a_fork_that_does_not_descend_from_the_pin_does_not_hold(fork: Fork, run_cli: RunCli) -> None:
    later = fork.upstream.commit("Upstream moves on", {"README": "later\n"})
    options = [*pinned(fork, later), "--fork", str(fork.repo.path), "--fork-ref", "product"]
    ran = run_cli("verify", *options)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(
        f"error: the fork {fork.repo.path} product does not descend from the pin {later[:12]}\n\nhint: "
    )


def test_a_fork_that_merged_the_pin_is_told_to_rebase(fork: Fork, run_cli: RunCli) -> None:
    later = fork.upstream.commit("Upstream moves on", {"README": "later\n"})
    fork.repo.git("fetch", "-q", "origin")
    fork.repo.merge("Merge upstream", later)
    options = [*pinned(fork, later), "--fork", str(fork.repo.path), "--fork-ref", "product"]
    ran = run_cli("verify", *options)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"error: the fork {fork.repo.path} product has merged the pin {later[:12]} instead of being rebased onto it\n\n"
        "hint: rebase the fork onto the pin, or compare only the last tree with --tree-only\n"
    )


def test_a_fork_that_merged_the_pin_can_be_compared_by_its_last_tree(fork: Fork, run_cli: RunCli) -> None:
    later = fork.upstream.commit("Upstream moves on", {"README": "later\n"})
    fork.repo.git("fetch", "-q", "origin")
    fork.repo.merge("Merge upstream", later)
    options = [*pinned(fork, later), "--fork", str(fork.repo.path), "--fork-ref", "product", "--tree-only"]
    ran = run_cli("verify", *options, "--json")
    assert (ran.code, ran.document["holds"]) == (0, True)


def test_a_fork_that_is_the_pin_itself_lacks_every_patch(fork: Fork, run_cli: RunCli) -> None:
    fork.repo.branch("product", fork.pin)
    ran = run_cli("verify", *fork.options, "--json")
    assert ran.code == 1
    assert [patch["state"] for patch in ran.document["patches"]] == ["stray"] * 3
    assert ran.document["drift"]["summary"] == ["the series has 3 patches the fork lacks, the fork ends at the pin"]


def test_a_fork_ref_may_be_a_tag_a_commit_or_a_remote_branch(fork: Fork, run_cli: RunCli) -> None:
    fork.repo.git("tag", "-m", "Release", "r1", fork.commits[-1])
    fork.repo.git("update-ref", "refs/remotes/origin/product", fork.commits[-1])
    for ref in ("r1", fork.commits[-1], fork.commits[-1][:9], "origin/product", "refs/heads/product", "product^0"):
        ran = run_cli("verify", *fork.sources, "--fork", fork.repo.path, "--fork-ref", ref)
        assert (ran.code, ran.stderr) == (0, ""), ref


def test_an_empty_repository_has_no_pin(tmp_path: Path, fork: Fork, run_cli: RunCli) -> None:
    empty = RepoBuilder(tmp_path / "empty", bare=True)
    ran = run_cli("verify", "--patches", fork.series, "--upstream", empty.path, "--pin", fork.pin, "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: pin {fork.pin} is not in {empty.path}\n")
