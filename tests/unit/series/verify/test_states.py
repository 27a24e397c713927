"""Every state of a patch in `verify --json`, with every tree compared with git's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, lock_of, mail, new_file, numbered, write_lock, write_series


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def test_a_faithful_series_is_ok_and_the_document_says_all_of_it(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.options, "--json")
    assert ran.code == 0
    assert ran.stderr == ""
    assert ran.document == {
        "schema": "patchstack.verify/1",
        "series": "patches",
        "base": {"commit": fork.pin, "tree": fork.upstream.tree(fork.pin)},
        "patches": [
            {
                "file": path.name,
                "number": number,
                "subject": f"Change {number} of a kernel",
                "state": "ok",
                "tree": tree,
                "fork_commit": commit,
                "detail": "",
                "problems": [],
            }
            for number, (path, commit, tree) in enumerate(zip(fork.patches, fork.commits, fork.trees, strict=True), 1)
        ],
        "applied_count": 3,
        "patch_count": 3,
        "applies": True,
        "applied_tree": fork.trees[-1],
        "expected_tree": fork.trees[-1],
        "expected_from": f"fork {fork.repo.path} product ({fork.commits[-1][:12]})",
        "holds": True,
        "first_problem": None,
        "drift": None,
        "warnings": [],
        "checks": None,
    }


def test_the_table_shows_number_subject_prefix_tree_commit_and_state_and_one_line_of_truth(
    fork: Fork, run_cli: RunCli
) -> None:
    ran = run_cli("verify", *fork.options)
    lines = ran.stdout.splitlines()
    assert ran.code == 0
    assert lines[0].split("  ")[0] == "number"
    assert lines[2].split() == [
        "0002",
        "Change",
        "2",
        "of",
        "a",
        "kernel",
        fork.trees[1][:12],
        fork.commits[1][:12],
        "ok",
    ]
    assert lines[4] == (
        f"patches: holds: base {fork.pin} + 3 of 3 patches = {fork.trees[-1]}; "
        f"expected {fork.trees[-1]} from fork {fork.repo.path} product ({fork.commits[-1][:12]})"
    )
    assert "\x1b" not in ran.stdout + ran.stderr


def test_a_patch_that_changes_something_else_diverges_and_the_ones_behind_it_inherit(
    fork: Fork, run_cli: RunCli
) -> None:
    edited = fork.edit_patch(1, "+changed by commit 1", "+changed by hand")
    ran = run_cli("verify", *fork.options, "--json")
    states = [patch["state"] for patch in ran.document["patches"]]
    assert (ran.code, states) == (1, ["diverges", "inherits", "inherits"])
    assert ran.document["patches"][0]["detail"] == "its own change differs from the fork commit's"
    assert ran.document["patches"][2]["detail"] == (
        f"own change equal to the fork commit's, the tree differs because of {edited.name}"
    )
    assert ran.document["first_problem"] == f"{edited.name}: diverges: its own change differs from the fork commit's"
    assert ran.document["holds"] is False
    assert ran.document["applied_count"] == 3
    assert ran.document["applied_tree"] not in fork.trees


def test_a_patch_that_does_not_fit_is_a_conflict_and_the_rest_is_skipped(fork: Fork, run_cli: RunCli) -> None:
    bad = fork.edit_patch(2, "-line 20\n", "-line 20 as nobody wrote it\n")
    ran = run_cli("verify", *fork.options, "--json")
    patches = ran.document["patches"]
    assert (ran.code, [patch["state"] for patch in patches]) == (1, ["ok", "conflict", "skipped"])
    assert [patch["tree"] for patch in patches] == [fork.trees[0], None, None]
    assert patches[1]["detail"].startswith(
        "src/kernel.cu: hunk 1 (@@ -17,7 +17,7 @@): expected `line 20 as nobody wrote it` at line 20, found `line 20`"
    )
    assert patches[2]["detail"] == "an earlier patch does not apply"
    assert ran.document["applied_tree"] == fork.trees[0]
    assert ran.document["first_problem"].startswith(f"{bad.name}: conflict: src/kernel.cu: hunk 1")
    assert ran.document["applies"] is False


def test_a_patch_whose_lines_are_there_already_says_so(fork: Fork, run_cli: RunCli) -> None:
    again = fork.series / "0004-again.patch"
    again.write_bytes(fork.patch(1).read_bytes())
    ran = run_cli("verify", *fork.options, "--json")
    last = next(patch for patch in ran.document["patches"] if patch["file"] == again.name)
    assert (ran.code, last["state"]) == (1, "conflict")
    assert last["detail"] == "src/kernel.cu: hunk 1 (@@ -7,7 +7,7 @@): its lines already exist"


def test_a_patch_for_a_file_that_is_not_there_names_the_file(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(3, "src/kernel.cu", "src/gone.cu")
    ran = run_cli("verify", *fork.options, "--json")
    patch = ran.document["patches"][2]
    assert (ran.code, patch["state"], patch["detail"]) == (1, "missing-file", "src/gone.cu: the file does not exist")


def test_a_patch_without_a_diff_is_malformed(fork: Fork, run_cli: RunCli) -> None:
    fork.patch(3).write_text("Subject: [PATCH] words only\n\nNo diff.\n")
    ran = run_cli("verify", *fork.options, "--json")
    patch = ran.document["patches"][2]
    assert (ran.code, patch["state"], patch["detail"]) == (1, "malformed", "there is no diff in it")


def test_a_patch_that_writes_outside_the_tree_is_unsafe(fork: Fork, run_cli: RunCli) -> None:
    fork.patch(3).write_bytes(mail("Change 3 of a kernel", new_file("../x")))
    ran = run_cli("verify", *fork.options, "--json")
    patch = ran.document["patches"][2]
    assert (ran.code, patch["state"]) == (1, "unsafe")
    assert "../x" in patch["detail"]


def test_a_patch_of_no_fork_commit_is_stray(fork: Fork, run_cli: RunCli) -> None:
    write_series(fork.series, {"0004-mine.patch": mail("Mine alone", new_file("mine"))})
    ran = run_cli("verify", *fork.options, "--json")
    patch = ran.document["patches"][3]
    assert (ran.code, patch["state"], patch["fork_commit"]) == (1, "stray", None)
    assert patch["detail"] == "no commit of the fork matches this patch"
    assert ran.document["first_problem"] == "0004-mine.patch: stray: no commit of the fork matches this patch"


def test_a_fork_commit_without_a_patch_is_unmirrored(fork: Fork, run_cli: RunCli) -> None:
    newest = fork.repo.commit("One more", {"src/other.cpp": numbered(40, {5: "five"})})
    ran = run_cli("verify", *fork.options, "--json")
    assert ran.code == 1
    assert ran.document["patches"][3] == {
        "file": None,
        "number": None,
        "subject": "One more",
        "state": "unmirrored",
        "tree": None,
        "fork_commit": newest,
        "detail": "a fork commit without a patch",
        "problems": [],
    }
    assert (
        ran.document["first_problem"]
        == f"fork commit {newest[:12]} (One more): unmirrored: a fork commit without a patch"
    )
    assert ran.document["patch_count"] == 3


@pytest.mark.parametrize("last", ["fork", "lock"])
def test_words_and_document_agree_with_either_expectation(fork: Fork, run_cli: RunCli, last: str) -> None:
    write_lock(fork.series, lock_of(fork))
    options = fork.options if last == "fork" else fork.sources
    fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    document = run_cli("verify", *options, "--json").document
    told = run_cli("verify", *options)
    assert [patch["state"] for patch in document["patches"]] == ["ok", "diverges", "inherits"]
    assert told.code == 1
    assert [line.split()[-1] for line in told.stdout.splitlines()[1:4]] == ["ok", "diverges", "inherits"]
    assert "patches: does not hold:" in told.stdout
    assert fork.patch(2).name in told.told
    assert f"0003 inherits: {document['patches'][2]['detail']}" in told.told


def test_a_real_process_gives_the_same_answer(fork: Fork, run_cli: RunCli, run_patchstack: RunCli) -> None:
    fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    assert run_patchstack("verify", *fork.options) == run_cli("verify", *fork.options)
