"""The comparison of a series: with a fork, a tree, its lock, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, lock_of, numbered, write_lock


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def with_a_merge(fork: Fork) -> str:
    """Merge a side branch into the fork, and return the merge."""
    fork.repo.branch("side", fork.pin)
    side = fork.repo.commit("On the side", {"src/other.cpp": numbered(40, {5: "five"})})
    fork.repo.branch("product", fork.commits[-1])
    return fork.repo.merge("Merge the side", side)


def test_the_right_tree_on_the_command_line_holds(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources, "--expect-tree", fork.trees[-1], "--json")
    assert ran.code == 0
    assert ran.document["holds"] is True
    assert ran.document["expected_from"] == "the command line (--expect-tree)"


def test_a_wrong_tree_on_the_command_line_does_not_hold_and_both_trees_are_named(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources, "--expect-tree", fork.trees[0], "--json")
    assert ran.code == 1
    assert ran.document["first_problem"] == (
        f"the applied tree {fork.trees[-1]} is not the expected {fork.trees[0]} (the command line (--expect-tree))"
    )
    assert ran.document["first_problem"] in run_cli("verify", *fork.sources, "--expect-tree", fork.trees[0]).told


@pytest.mark.parametrize("tree", ["abcd", "HEAD", "F" * 40, "0" * 64])
def test_a_tree_that_is_no_full_id_is_wrong_usage(fork: Fork, run_cli: RunCli, tree: str) -> None:
    ran = run_cli("verify", *fork.sources, "--expect-tree", tree)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: --expect-tree {tree} is not a full tree id of 40 hexadecimal digits\n"


def test_fork_and_tree_together_must_both_hold(fork: Fork, run_cli: RunCli) -> None:
    assert run_cli("verify", *fork.options, "--expect-tree", fork.trees[-1]).code == 0
    ran = run_cli("verify", *fork.options, "--expect-tree", fork.trees[0], "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)
    assert fork.trees[0] in ran.document["first_problem"]


def test_nothing_to_compare_with_is_not_success(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources)
    assert ran.code == 3
    assert "patches: not compared:" in ran.stdout
    assert ran.stderr.startswith(
        "error: there is nothing to compare the applied tree with\n\nhint: give --fork REPO --fork-ref REF"
    )
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n    fork: fork\n"
        f"    fork_ref: {fork.ref}\n    expect: lock\n"
    )
    configured = run_cli("verify")
    assert configured.code == 3
    assert "hint: write series.lock with patchstack export product, or compare with the fork: --expect fork" in (
        configured.stderr
    )
    document = run_cli("verify", *fork.sources, "--json").document
    assert document["holds"] is None
    assert document["expected_tree"] is None
    assert document["expected_from"] is None
    assert [patch["tree"] for patch in document["patches"]] == fork.trees


def test_nothing_to_compare_with_and_a_patch_that_does_not_apply_does_not_hold(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "-line 20\n", "-line twenty\n")
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)


def test_apply_only_asks_nothing_else(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    ran = run_cli("verify", *fork.options, "--apply-only", "--json")
    assert (ran.code, ran.document["holds"], ran.document["applies"]) == (0, None, True)
    assert [patch["state"] for patch in ran.document["patches"]] == ["ok"] * 3


def test_apply_only_finds_a_patch_that_does_not_apply(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(3, "-line 30\n", "-line thirty\n")
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert ran.code == 1
    assert "0003-Change-3-of-a-kernel.patch: conflict" in ran.told


def test_apply_only_with_a_tree_to_expect_is_a_contradiction(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources, "--apply-only", "--expect-tree", fork.trees[0])
    assert ran.code == 2
    assert "--apply-only" in ran.stderr
    assert "--expect-tree" in ran.stderr


def test_a_fork_with_a_merge_is_explained(fork: Fork, run_cli: RunCli) -> None:
    merge = with_a_merge(fork)
    fork.patches = []
    ran = run_cli("verify", *fork.options, "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)
    assert ran.document["first_problem"] == (
        f"the fork has 1 merge since the pin: {merge[:12]} (Merge the side). "
        "A merge cannot become a patch; "
        "rebase the fork, or compare only the last tree with --tree-only"
    )
    assert ran.document["first_problem"] in run_cli("verify", *fork.options).told


def test_tree_only_takes_a_fork_with_a_merge_by_its_last_tree(fork: Fork, run_cli: RunCli) -> None:
    merge = with_a_merge(fork)
    ran = run_cli("verify", *fork.options, "--tree-only", "--json")
    assert (ran.code, ran.document["expected_tree"]) == (1, fork.repo.tree(merge))
    (fork.series / "0004-side.patch").write_bytes(fork.repo.diff(fork.commits[-1], merge))
    ran = run_cli("verify", *fork.options, "--tree-only", "--json")
    assert (ran.code, ran.document["holds"]) == (0, True)
    assert ran.document["applied_tree"] == fork.repo.tree(merge)


def test_tree_only_does_not_see_prefixes(fork: Fork, run_cli: RunCli) -> None:
    fork.patch(1).rename(fork.series / "0009-late.patch")
    assert run_cli("verify", *fork.options).code == 1
    assert run_cli("verify", *fork.options, "--tree-only").code == 0


def test_keep_going_tries_the_rest_and_leaves_the_bad_one_out(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(1, "-line 10\n", "-line ten\n")
    ran = run_cli("verify", *fork.options, "--keep-going", "--json")
    states = [patch["state"] for patch in ran.document["patches"]]
    assert (ran.code, states, ran.document["applied_count"]) == (1, ["conflict", "inherits", "inherits"], 2)
    without = run_cli("verify", *fork.options)
    assert "0002, 0003 skipped: an earlier patch does not apply (--keep-going tries them)" in without.told


def test_two_bad_patches_are_both_told_with_keep_going(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(1, "-line 10\n", "-line ten\n")
    fork.edit_patch(3, "src/kernel.cu", "src/gone.cu")
    ran = run_cli("verify", *fork.sources, "--apply-only", "--keep-going")
    assert ran.code == 1
    assert "0001-Change-1-of-a-kernel.patch: conflict" in ran.told
    assert "0003-Change-3-of-a-kernel.patch: missing-file" in ran.told


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (
            "--pin",
            "error: --patches needs --pin\n\nhint: add --pin SHA, the upstream commit to which the patches apply\n",
        ),
        ("--fork", "error: --fork and --fork-ref must be used together\n\nhint: --fork REPO --fork-ref REF\n"),
        ("--fork-ref", "error: --fork and --fork-ref must be used together\n\nhint: --fork REPO --fork-ref REF\n"),
    ],
)
def test_an_option_that_is_not_given_is_named(fork: Fork, run_cli: RunCli, left_out: str, words: str) -> None:
    options = fork.options
    at = options.index(left_out)
    ran = run_cli("verify", *options[:at], *options[at + 2 :])
    assert (ran.code, ran.stdout, ran.stderr) == (2, "", words)


def test_without_upstream_the_fork_serves_for_it_and_without_either_it_is_asked_for(
    fork: Fork, run_cli: RunCli
) -> None:
    by_hand = ["--patches", str(fork.series), "--pin", fork.pin]
    assert run_cli("verify", *by_hand, "--fork", str(fork.repo.path), "--fork-ref", "product").code == 0
    ran = run_cli("verify", *by_hand)
    assert ran.code == 2
    assert ran.stderr.startswith("error: --patches needs --upstream\n\nhint: ")


def test_sources_without_patches_are_wrong_usage(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", "--upstream", fork.upstream.path, "--pin", fork.pin)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: --pin cannot be used without --patches\n\nhint: ")


def test_a_series_name_beside_patches_is_wrong_usage(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", "paged", *fork.options)
    assert (ran.code, ran.stderr) == (2, "error: give a series of the workspace or --patches, not both\n")


def test_a_lock_is_not_asked_where_a_fork_is_named(fork: Fork, run_cli: RunCli) -> None:
    write_lock(fork.series, {**lock_of(fork), "schema": "nonsense"})
    assert run_cli("verify", *fork.options).code == 0


def test_a_fork_ref_that_is_not_there_is_missing(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources, "--fork", fork.repo.path, "--fork-ref", "prodct")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: fork ref prodct is not in {fork.repo.path}\n\nhint: ")


@pytest.mark.parametrize("ref", ["-x", "--all", "", " "])
def test_a_fork_ref_that_is_no_revision_is_wrong_usage(fork: Fork, run_cli: RunCli, ref: str) -> None:
    ran = run_cli("verify", *fork.sources, "--fork", str(fork.repo.path), f"--fork-ref={ref}")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: fork ref {ref!r} is not a revision\n"
