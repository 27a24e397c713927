"""A series against its lock: every way in which the two can differ, and locks that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, RunCli
from tests.support.builders import Fork, a_fork, lock_of, write_lock


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    fork = a_fork(tmp_path, 3)
    write_lock(fork.series, lock_of(fork))
    return fork


def states(ran: Ran) -> list[str]:
    return [patch["state"] for patch in ran.document["patches"]]


def test_a_series_as_locked_holds_and_says_what_the_tree_came_from(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (0, ["ok"] * 3)
    assert [patch["fork_commit"] for patch in ran.document["patches"]] == fork.commits
    assert ran.document["expected_from"] == f"lock {fork.series / 'series.lock'}"
    assert ran.document["expected_tree"] == fork.trees[-1]


def test_an_edited_file_diverges_and_the_rest_inherits(fork: Fork, run_cli: RunCli) -> None:
    edited = fork.edit_patch(1, "+changed by commit 1", "+changed by hand")
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["diverges", "inherits", "inherits"])
    assert ran.document["patches"][0]["detail"] == "the file was changed after the lock was written"
    assert ran.document["patches"][1]["detail"] == f"file as locked, the tree differs because of {edited.name}"


def test_an_edit_that_changes_no_tree_is_seen_all_the_same(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "Subject: [PATCH 2/3] Change 2", "Subject: [PATCH 2/3] Alter 2")
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["ok", "diverges", "ok"])
    assert ran.document["applied_tree"] == fork.trees[-1]


def test_a_file_that_is_gone_is_unmirrored(fork: Fork, run_cli: RunCli) -> None:
    gone = fork.patch(3)
    gone.unlink()
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["ok", "ok", "unmirrored"])
    missing = ran.document["patches"][2]
    assert (missing["file"], missing["fork_commit"]) == (None, fork.commits[2])
    assert missing["detail"] == "the lock lists this patch, but the directory does not have it"
    assert gone.name in run_cli("verify", *fork.sources).told


def test_a_file_gone_from_the_middle_is_what_the_rest_inherits_from(fork: Fork, run_cli: RunCli) -> None:
    gone = fork.patch(2)
    gone.unlink()
    ran = run_cli("verify", *fork.sources, "--json")
    last = next(patch for patch in ran.document["patches"] if patch["file"] == fork.patch(3).name)
    assert (ran.code, sorted(states(ran))) == (1, ["inherits", "ok", "unmirrored"])
    assert gone.name in last["detail"]


def test_a_file_the_lock_does_not_know_is_stray(fork: Fork, run_cli: RunCli) -> None:
    (fork.series / "0004-mine.patch").write_text(
        "diff --git a/mine b/mine\nnew file mode 100644\n--- /dev/null\n+++ b/mine\n@@ -0,0 +1 @@\n+mine\n"
    )
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["ok", "ok", "ok", "stray"])
    assert ran.document["patches"][3]["detail"] == "the lock does not list this patch"


def test_two_files_that_changed_places_are_seen(fork: Fork, run_cli: RunCli) -> None:
    names = [fork.patch(2), fork.patch(3)]
    contents = [path.read_bytes() for path in names]
    names[0].write_bytes(contents[1])
    names[1].write_bytes(contents[0])
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["ok", "diverges", "diverges"])
    assert ran.document["applied_tree"] == fork.trees[-1]


def test_a_lock_of_another_order_than_the_files_cannot_be_used(fork: Fork, run_cli: RunCli) -> None:
    document = lock_of(fork)
    document["patches"].reverse()
    write_lock(fork.series, document)
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, ran.stdout) == (2, "")
    assert "series.lock cannot be used" in ran.stderr
    assert "patches: they are not in the order of their file names" in ran.stderr


def test_a_lock_for_another_pin_names_both(fork: Fork, run_cli: RunCli) -> None:
    later = fork.upstream.commit("Upstream moves", {"README": "moved\n"})
    sources = [*fork.sources[:-1], later]
    ran = run_cli("verify", *sources, "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)
    assert (
        run_cli("verify", *sources).told.count(f"the lock was written for the pin {fork.pin[:12]}, not {later[:12]}")
        == 1
    )


def test_a_patch_that_does_not_apply_is_told_before_the_lock(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "-line 20\n", "-line twenty\n")
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, states(ran)) == (1, ["ok", "conflict", "skipped"])


def test_tree_only_against_a_lock_compares_the_last_tree_alone(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "Subject: [PATCH 2/3] Change 2", "Subject: [PATCH 2/3] Alter 2")
    assert run_cli("verify", *fork.sources, "--tree-only").code == 0


def test_a_tampered_lock_tree_does_not_hold(fork: Fork, run_cli: RunCli) -> None:
    document = lock_of(fork)
    document["fork"]["tree"] = fork.trees[0]
    write_lock(fork.series, document)
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)
    assert ran.document["first_problem"].startswith(
        f"the applied tree {fork.trees[-1]} is not the expected {fork.trees[0]}"
    )


def test_a_tampered_base_tree_does_not_hold(fork: Fork, run_cli: RunCli) -> None:
    document = lock_of(fork)
    document["base"]["tree"] = fork.trees[0]
    write_lock(fork.series, document)
    ran = run_cli("verify", *fork.sources, "--json")
    assert (ran.code, ran.document["holds"]) == (1, False)
    assert "base" in ran.document["first_problem"]


def without(document: dict[str, Any], *path: str | int) -> dict[str, Any]:
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return document


def test_every_fault_of_a_lock_is_told_at_once(fork: Fork, run_cli: RunCli) -> None:
    document = lock_of(fork)
    document["schema"] = "patchstack.lock/9"
    document["base"]["commit"] = fork.pin[:12]
    without(document, "fork", "tree")
    without(document, "patches", 1, "sha256")
    document["patches"][2] = "0003.patch"
    path = write_lock(fork.series, document)
    ran = run_cli("verify", *fork.sources)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {path} cannot be used\n  - ")
    for complaint in (
        "schema: 'patchstack.lock/9', not 'patchstack.lock/1'; a newer patchstack wrote it",
        "base.commit: not a full commit or tree id",
        "fork.tree: not a full commit or tree id",
        "patches[2].sha256: not a string",
        "patches[3]: not a mapping",
    ):
        assert f"  - {complaint}\n" in ran.stderr
    assert ran.stderr.endswith("\n\nhint: use the patchstack version that wrote it, or a newer version\n")
    path.write_text(path.read_text().replace("patchstack.lock/9", "patchstack.lock/1"))
    hint = "restore it from version control; or remove it and export again, which loses the retired numbers"
    assert run_cli("verify", *fork.sources).stderr.endswith(f"\n\nhint: {hint}\n")


@pytest.mark.parametrize("text", ["", "null\n", "- a list\n", "just words\n"])
def test_a_lock_that_is_no_mapping_is_told_so(fork: Fork, run_cli: RunCli, text: str) -> None:
    (fork.series / "series.lock").write_text(text)
    ran = run_cli("verify", *fork.sources)
    assert (ran.code, ran.stdout) == (2, "")
    assert "  - the lock: not a mapping\n" in ran.stderr


@pytest.mark.parametrize("data", [b"a: [b\n", b"\xff\xfe\0", b"a: 1\na: 2\n"])
def test_a_lock_that_is_no_yaml_is_told_so(fork: Fork, run_cli: RunCli, data: bytes) -> None:
    (fork.series / "series.lock").write_bytes(data)
    ran = run_cli("verify", *fork.sources)
    assert (ran.code, ran.stdout) == (2, "")
    assert "series.lock cannot be used\n  - it cannot be read: " in ran.stderr


def test_a_lock_without_patches_is_no_lock(fork: Fork, run_cli: RunCli) -> None:
    write_lock(fork.series, {**lock_of(fork), "patches": []})
    ran = run_cli("verify", *fork.sources)
    assert ran.code == 2
    assert "  - patches: not a list of patches\n" in ran.stderr


def test_a_lock_that_names_one_file_twice_cannot_be_used(fork: Fork, run_cli: RunCli) -> None:
    document = lock_of(fork)
    document["patches"].append(dict(document["patches"][0]))
    write_lock(fork.series, document)
    ran = run_cli("verify", *fork.sources)
    assert ran.code in (1, 2)
    assert fork.patch(1).name in ran.stderr


def test_a_lock_that_is_a_dangling_link_is_not_the_same_as_none(fork: Fork, run_cli: RunCli) -> None:
    (fork.series / "series.lock").unlink()
    (fork.series / "series.lock").symlink_to("nowhere")
    ran = run_cli("verify", *fork.sources)
    assert ran.code == 2
    assert "series.lock" in ran.stderr
