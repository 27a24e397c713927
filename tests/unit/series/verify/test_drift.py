"""Drift in sentences: how series and fork diverged, and what a maintainer can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ran, RunCli
from tests.support.builders import Changes, Fork, a_fork, edit, kernel_steps, numbered


def changed_by(*numbers: int) -> dict[int, str]:
    """Return the lines that commits `edit(n)` changed."""
    return {line: text for number in numbers for line, text in edit(number)[1].items()}


def states(ran: Ran) -> list[str]:
    return [patch["state"] for patch in ran.document["patches"]]


def verified(run_cli: RunCli, fork: Fork) -> Ran:
    """Return the document, after checking that the screen shows the same drift."""
    ran = run_cli("verify", *fork.options, "--json")
    told = run_cli("verify", *fork.options)
    assert told.code == ran.code
    for sentence in (ran.document["drift"] or {"summary": []})["summary"]:
        assert f"drift: {sentence}" in told.told
    return ran


@pytest.mark.parametrize("more", [1, 10])
def test_a_series_behind_its_fork_is_told_by_how_many_commits_and_where_it_matches(
    tmp_path: Path, run_cli: RunCli, more: int
) -> None:
    fork = a_fork(tmp_path, 3)
    for subject, changes in kernel_steps(range(4, 4 + more), changed_by(1, 2, 3)):
        fork.repo.commit(subject, changes)
    ran = verified(run_cli, fork)
    count = "1 commit" if more == 1 else f"{more} commits"
    assert ran.code == 1
    assert states(ran) == ["ok"] * 3 + ["unmirrored"] * more
    assert ran.document["drift"] == {
        "kinds": ["behind"],
        "summary": [
            f"the fork has {count} the series lacks; the series matches the fork at "
            f"{fork.commits[2][:12]} (Change 3 of a kernel)"
        ],
        "patches": [],
    }


def test_a_series_ahead_of_its_fork_is_told_where_the_fork_ends(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 4)
    fork.repo.branch("product", fork.commits[1])
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (1, ["ok", "ok", "stray", "stray"])
    assert ran.document["drift"]["kinds"] == ["ahead"]
    assert ran.document["drift"]["summary"] == [
        f"the series has 2 patches the fork lacks, the fork ends at {fork.patch(2).name}"
    ]


def test_a_patch_dropped_from_the_middle_names_its_commit_and_the_rest_inherits(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = a_fork(tmp_path, 5)
    fork.patch(3).unlink()
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (1, ["ok", "ok", "unmirrored", "inherits", "inherits"])
    assert ran.document["drift"]["kinds"] == ["missing"]
    assert ran.document["drift"]["summary"] == [
        f"fork commit {fork.commits[2][:12]} (Change 3 of a kernel) has no patch: was it dropped from the series?"
    ]
    assert ran.document["first_problem"].startswith(f"fork commit {fork.commits[2][:12]} (Change 3 of a kernel)")
    assert "fork commit " + fork.commits[2][:12] in ran.document["patches"][3]["detail"]


def test_two_patches_that_changed_places_are_told_though_the_last_tree_is_right(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = a_fork(tmp_path, 4)
    second, third = fork.patch(2), fork.patch(3)
    second.rename(fork.series / "0003-b.patch")
    third.rename(fork.series / "0002-c.patch")
    ran = verified(run_cli, fork)
    assert ran.code == 1
    assert ran.document["applied_tree"] == ran.document["expected_tree"] == fork.trees[-1]
    assert ran.document["holds"] is False
    assert ran.document["drift"]["kinds"] == ["reordered"]
    assert len(ran.document["drift"]["summary"]) == 1
    assert "in the fork its commit is after" in ran.document["drift"]["summary"][0]
    # After patch 0003 the trees are equal again.
    assert states(ran)[0::3] == ["ok", "ok"]


def test_a_patch_moved_to_the_end_is_the_only_one_called_reordered(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 5)
    fork.patch(2).rename(fork.series / "0006-late.patch")
    ran = verified(run_cli, fork)
    assert ran.code == 1
    assert ran.document["drift"]["summary"] == [
        f"0006-late.patch is after {fork.patch(5).name}; in the fork its commit is after "
        f"{fork.commits[0][:12]} (Change 1 of a kernel)"
    ]


def test_a_patch_edited_by_hand_is_shown_as_a_diff_between_series_and_fork(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 3)
    edited = fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    ran = verified(run_cli, fork)
    drift = ran.document["drift"]
    assert (ran.code, states(ran)) == (1, ["ok", "diverges", "inherits"])
    assert drift["kinds"] == ["edited"]
    assert drift["summary"][0].startswith(
        f"{edited.name} is not what fork commit {fork.commits[1][:12]} does: it differs in src/kernel.cu (1 hunk)"
    )
    [patch] = drift["patches"]
    assert (patch["file"], patch["fork_commit"]) == (edited.name, fork.commits[1])
    [file] = patch["files"]
    assert (file["path"], file["hunks"]) == ("src/kernel.cu", 1)
    assert file["diff"].startswith("--- series/src/kernel.cu\n+++ fork/src/kernel.cu\n@@ -17,7 +17,7 @@")
    assert "\n-changed by hand\n+changed by commit 2\n" in file["diff"]
    told = run_cli("verify", *fork.options).told
    assert "    -changed by hand\n" in told
    assert "    +changed by commit 2\n" in told


def test_two_patches_that_compensate_each_other_do_not_hold(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 3)
    fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    third = fork.patch(3)
    before, after = " line 17\n line 18\n line 19\n", " line 21\n line 22\n line 23\n"
    mend = f"@@ -17,7 +17,7 @@\n{before}-changed by hand\n+changed by commit 2\n{after}"
    third.write_text(third.read_text().replace("@@ -27,7", mend + "@@ -27,7", 1))
    ran = verified(run_cli, fork)
    assert ran.document["applied_tree"] == ran.document["expected_tree"] == fork.trees[-1]
    assert ran.code == 1
    assert ran.document["holds"] is False
    # The last tree is right, but the second patch differs from its commit.
    assert states(ran)[:2] == ["ok", "diverges"]
    assert ran.document["patches"][2]["tree"] == fork.trees[2]


def test_a_rebased_fork_with_new_ids_and_the_same_changes_still_holds(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 4)
    fork.repo.branch("rewritten", fork.pin)
    anew = [fork.repo.commit(subject, changes, body="Reviewed.") for subject, changes in kernel_steps(range(1, 5))]
    fork.ref = "rewritten"
    ran = verified(run_cli, fork)
    assert not set(anew) & set(fork.commits)
    assert (ran.code, states(ran), ran.document["drift"]) == (0, ["ok"] * 4, None)
    assert [patch["fork_commit"] for patch in ran.document["patches"]] == anew


def test_a_commit_with_another_subject_is_found_by_the_tree_it_gives(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 3)
    fork.repo.branch("rewritten", fork.pin)
    anew = [fork.repo.commit(f"{subject}, reworded", changes) for subject, changes in kernel_steps(range(1, 4))]
    fork.ref = "rewritten"
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (0, ["ok"] * 3)
    assert [patch["fork_commit"] for patch in ran.document["patches"]] == anew


def test_a_patch_without_mail_head_and_with_another_name_is_found_by_its_change(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = a_fork(tmp_path, 3)
    bare = fork.series / "0002-x.patch"
    bare.write_bytes(fork.repo.diff(fork.commits[0], fork.commits[1]))
    fork.patch(2).unlink()
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (0, ["ok"] * 3)
    assert ran.document["patches"][1]["subject"] == "x"


def test_an_amended_commit_is_told_from_its_older_patch(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, 3)
    amended = fork.repo.amend("Change 3 of a kernel", {"src/other.cpp": numbered(40, {7: "more of the same"})})
    ran = verified(run_cli, fork)
    drift = ran.document["drift"]
    assert (ran.code, states(ran)) == (1, ["ok", "ok", "diverges"])
    assert ran.document["patches"][2]["fork_commit"] == amended
    assert "the commit was amended after the export" in drift["summary"][0]
    assert [file["path"] for file in drift["patches"][0]["files"]] == ["src/other.cpp"]


def test_inherits_reaches_only_to_where_the_trees_agree_again(tmp_path: Path, run_cli: RunCli) -> None:
    texts = ["begin\n", "begin\nmiddle\n", "all new\n"]
    steps: list[tuple[str, Changes]] = [
        ("Add a note", {"note": texts[0], "src/other.cpp": numbered(40, {3: "three"})}),
        ("Change the kernel", {"src/kernel.cu": numbered(300, {10: "ten"})}),
        ("Put the note away", {"src/other.cpp": numbered(40)}),
    ]
    fork = a_fork(tmp_path, steps=steps)
    fork.edit_patch(1, "+three", "+drei")
    fork.edit_patch(3, "-three", "-drei")
    ran = verified(run_cli, fork)
    assert ran.code == 1
    assert ran.document["applied_tree"] == fork.trees[-1]
    assert states(ran)[:2] == ["diverges", "inherits"]
    assert ran.document["patches"][1]["detail"].endswith(f"because of {fork.patch(1).name}")
    assert ran.document["holds"] is False


def test_a_mode_that_differs_is_told_in_words(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, steps=[("Add a script", {"tools/new.sh": "#!/bin/sh\n"})])
    fork.edit_patch(1, "new file mode 100644", "new file mode 100755")
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (1, ["diverges"])
    [file] = ran.document["drift"]["patches"][0]["files"]
    assert file["path"] == "tools/new.sh"
    assert "@@ mode 100755 in the series, mode 100644 in the fork @@\n" in file["diff"]


def test_a_binary_file_that_differs_is_told_without_its_bytes(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, steps=[("Add a table", {"table.bin": b"\0\1\2" * 40})])
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("Add a table", {"table.bin": b"\0\1\3" * 40})
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (1, ["diverges"])
    assert "@@ binary contents differ @@\n" in ran.document["drift"]["patches"][0]["files"][0]["diff"]


def test_a_conflict_behind_a_dropped_patch_says_what_is_in_the_way(tmp_path: Path, run_cli: RunCli) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Add a note", {"note": "first\n"}),
        ("Change the note", {"note": "first\nsecond\n"}),
        ("End the note", {"note": "first\nsecond\nthird\n"}),
    ]
    fork = a_fork(tmp_path, steps=steps)
    fork.patch(2).unlink()
    ran = verified(run_cli, fork)
    assert (ran.code, states(ran)) == (1, ["ok", "unmirrored", "conflict"])
    assert "it applies at its place in the fork" in ran.document["patches"][2]["detail"]
    assert f"fork commit {fork.commits[1][:12]} (Change the note) is in the way" in ran.document["patches"][2]["detail"]
    assert ran.document["drift"]["kinds"] == ["missing"]


def test_a_long_difference_is_cut_for_people_and_whole_in_the_document(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, steps=[("Write much", {"much.txt": numbered(200)})])
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("Write much", {"much.txt": numbered(200, {number: f"row {number}" for number in range(1, 201)})})
    told = run_cli("verify", *fork.options).told
    diff = run_cli("verify", *fork.options, "--json").document["drift"]["patches"][0]["files"][0]["diff"]
    assert "    ... 373 more lines (--json has all of them)\n" in told
    assert diff.count("\n+row") == 200
