"""`patchstack sync`: the fork on a newer upstream commit, patch by patch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered, run_git, snapshot
from tests.support.syncing import Moved, fates, kernel, moved, of, settings_of

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def begun(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return three patches; upstream then changed, in this order: a different file, a line near the first patch's, and
    the line of the second."""
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    found.upstream("Nearby (#7)", {"src/kernel.cu": kernel({12: "upstream's"})})
    found.upstream("The very line (#8)", {"src/kernel.cu": kernel({12: "upstream's", 20: "upstream's too"})})
    return found


def told(capsys: Printed) -> dict[str, Any]:
    """Return the last printed document."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


RESOLVED = kernel({12: "upstream's", 20: "both"}, of(1))
LAST = kernel({12: "upstream's", 20: "both"}, of(1, 3))


def test_it_stops_at_the_conflict_and_names_the_upstream_commit(
    begun: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    before = snapshot(begun.fork.repo.path, begun.fork.upstream.path, begun.fork.series)
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 1
    printed = capsys.readouterr()
    culprit = begun.fork.upstream.head()
    for text in (
        "product: stopped at 0002 Change 2 of a kernel (2 of 3)",
        "src/kernel.cu: both change the same lines",
        f"upstream {culprit[:12]} The very line (#8) (A U Thor, 2025-06-15, 2 of the colliding lines)",
        "new pin  | upstream's too",
        "old base | line 20",
        "patch    | changed by commit 2",
        f"in {begun.work}: edit, git add, then patchstack sync product --continue",
        "--drop 2 --why TEXT leaves it out for good",
    ):
        assert text in printed.out, printed.out
    assert "Nearby" not in printed.out and "Elsewhere" not in printed.out
    assert "3 upstream commits from" in printed.err
    assert begun.git("diff", "--name-only", "--diff-filter=U") == "src/kernel.cu"
    assert snapshot(begun.fork.repo.path, begun.fork.upstream.path, begun.fork.series) == before


def test_the_document_says_the_same(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    capsys.readouterr()
    assert patchstack("sync", "--json") == 1
    found = told(capsys)
    assert (found["schema"], found["phase"], found["report"]) == ("patchstack.sync/1", "stopped", None)
    assert (found["from"], found["to"]) == (begun.fork.pin, begun.fork.upstream.head())
    assert (found["stop"]["number"], found["stop"]["commit"]) == (2, begun.fork.commits[1])
    (collision,) = found["stop"]["collisions"]
    (region,) = collision["regions"]
    assert (region["ours"], region["base"], region["theirs"]) == (
        ["upstream's too"],
        ["line 20"],
        ["changed by commit 2"],
    )
    (mover,) = collision["upstream"]
    assert (mover["pull_request"], mover["commit"]) == (8, found["to"])
    assert fates(found) == ["picked", "pending", "pending"]


def test_resolved_and_accepted_the_fork_has_the_branch_and_verify_holds(
    begun: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    lock = (begun.fork.series / "series.lock").read_text()
    ids = [line for line in lock.splitlines() if line.startswith("    id:")]
    patchstack("sync", "--to", "main", "--worktree", "work")
    begun.resolve("src/kernel.cu", RESOLVED)
    capsys.readouterr()
    assert patchstack("sync", "--continue") == 0
    printed = capsys.readouterr()
    head = begun.git("rev-parse", "HEAD")
    to = begun.fork.upstream.head()
    branch = f"product-sync-{to[:9]}"
    assert f"3 patches from {begun.fork.pin[:12]} to {to[:12]}: 1 unchanged, 1 context only, 1 changed" in printed.out
    assert "toolchain: no option, version or submodule changed" in printed.out
    tree = begun.git("rev-parse", "HEAD^{tree}")
    assert f"product: holds: base {to} + 3 patches = {tree}; branch {branch} at {head[:12]}" in printed.out
    assert "0002    Change 2 of a kernel" in printed.out and "resolved by hand" in printed.out
    assert begun.git("show", "HEAD:src/kernel.cu") + "\n" == LAST
    # No file of the user was written so far.
    assert f"pin: {begun.fork.pin}  # June" in begun.settings.read_text()
    assert run_git("rev-parse", "-q", "--verify", branch, cwd=begun.fork.repo.path, check=False).returncode
    assert patchstack("sync", "--accept") == 0
    printed = capsys.readouterr()
    assert f"product: the pin is {to}; 3 patches written to patches; branch {branch}" in printed.out
    assert begun.settings.read_text() == settings_of(to, branch)
    assert begun.fork.repo.git("rev-parse", branch) == head
    assert begun.fork.repo.git("rev-parse", begun.fork.ref) == begun.fork.commits[-1], "the user's branch stays"
    assert patchstack("verify") == 0
    lock = (begun.fork.series / "series.lock").read_text()
    assert [line for line in lock.splitlines() if line.startswith("    id:")] == ids
    assert [path.name[:4] for path in sorted(begun.fork.series.glob("*.patch"))] == ["0001", "0002", "0003"]
    assert not begun.work.exists()
    assert sorted(path.name for path in (begun.root / ".patchstack").iterdir()) == ["rerere", "synced"]


def test_author_dates_and_message_of_every_commit_stay_and_ids_are_the_same_everywhere(
    begun: Moved, patchstack: Patchstack
) -> None:
    heads = []
    for work in ("work", "again"):
        patchstack("sync", "--to", "main", "--worktree", work)
        (begun.root / work / "src/kernel.cu").write_text(RESOLVED)
        run_git("add", "-A", cwd=begun.root / work)
        run_git("config", "user.name", "Somebody Else", cwd=begun.root / work)
        assert patchstack("sync", "--continue") == 0
        heads.append(run_git("rev-parse", "HEAD", cwd=begun.root / work).stdout)
        shown = "--format=%an %ae %at %cn %ce %ct %B"
        made = run_git("log", "--reverse", shown, "-3", cwd=begun.root / work).stdout
        assert made == run_git("log", "--reverse", shown, "-3", begun.fork.ref, cwd=begun.fork.repo.path).stdout
        assert patchstack("sync", "--abort") == 0
    assert heads[0] == heads[1]


def test_a_resolution_is_remembered_and_can_be_shared(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    begun.resolve("src/kernel.cu", RESOLVED)
    assert patchstack("sync", "--continue") == 0
    assert patchstack("sync", "--abort") == 0
    (record,) = (begun.root / ".patchstack" / "rerere").iterdir()
    assert sorted(path.name for path in record.iterdir()) == ["postimage", "preimage"]
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    printed = capsys.readouterr()
    assert "0002 Change 2 of a kernel: resolved as remembered: src/kernel.cu" in printed.err
    assert "resolved as remembered: src/kernel.cu" in printed.out
    assert begun.git("show", "HEAD:src/kernel.cu") + "\n" == LAST


def test_abort_leaves_everything_as_it_was(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    before = snapshot(begun.root)
    patchstack("sync", "--to", "main", "--worktree", "work")
    capsys.readouterr()
    assert patchstack("sync", "--abort") == 0
    assert f"the sync to main is aborted, and {begun.work} is removed; nothing else changed" in capsys.readouterr().err
    after = snapshot(begun.root)
    del before[str(begun.root)], after[str(begun.root)]  # only its time of change
    assert after == before


def test_skipped_patches_must_be_dropped_with_a_reason_before_the_pin_moves(
    begun: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    assert patchstack("sync", "--skip") == 0
    capsys.readouterr()
    assert patchstack("sync", "--accept") == 1
    refused = capsys.readouterr().err
    assert "error: the sync of product cannot be accepted: patches were skipped without a reason\n" in refused
    assert "\n  - 0002 Change 2 of a kernel" in refused
    assert "--drop N --why TEXT', or --retry N to try it again" in refused
    assert f"pin: {begun.fork.pin}" in begun.settings.read_text()
    assert patchstack("sync", "--drop", "2", "--why", "upstream does it (#8)") == 0
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
    assert b"retired: [2]" in begun.files()["series.lock"]
    (record,) = (begun.root / ".patchstack" / "synced").iterdir()
    document = json.loads(record.read_text())
    assert fates(document) == ["context only", "dropped", "unchanged"]
    assert document["patches"][1]["reason"] == "upstream does it (#8)"


def test_a_skipped_patch_can_be_tried_again(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    assert patchstack("sync", "--skip") == 0
    assert begun.lines() == ["Change 1 of a kernel", "Change 3 of a kernel"]
    assert patchstack("sync", "--retry", "2") == 1
    begun.resolve("src/kernel.cu", RESOLVED)
    assert patchstack("sync", "--continue") == 0
    assert begun.lines() == [f"Change {number} of a kernel" for number in (1, 2, 3)]
    capsys.readouterr()
    assert patchstack("sync", "--retry", "2") == 2
    assert (
        "error: cannot retry patches that were not skipped or dropped: 0002\n\nhint: skipped or dropped so far: none"
        in capsys.readouterr().err
    )


def test_a_patch_on_the_branch_can_be_dropped_and_those_after_it_are_made_again(
    begun: Moved, patchstack: Patchstack
) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    assert patchstack("sync", "--drop", "1", "--why", "not wanted") == 1
    begun.resolve("src/kernel.cu", kernel({12: "upstream's", 20: "both"}))
    assert patchstack("sync", "--continue") == 0
    assert begun.lines() == ["Change 2 of a kernel", "Change 3 of a kernel"]
    assert patchstack("sync", "--drop", "3", "--drop", "2", "--why", "all of it") == 0
    assert begun.lines() == []
    assert patchstack("sync", "--accept") == 1


def test_a_patch_that_builds_on_one_left_out_says_so(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(
        tmp_path,
        patchstack,
        steps=[
            ("First", {"src/kernel.cu": kernel({20: "first of ours"})}),
            ("Second", {"src/kernel.cu": kernel({20: "second of ours"})}),
        ],
    )
    found.upstream("The very line (#8)", {"src/kernel.cu": kernel({20: "upstream's own"})})
    patchstack("sync", "--to", "main", "--worktree", "work")
    capsys.readouterr()
    assert patchstack("sync", "--skip") == 1
    printed = capsys.readouterr().out
    assert "stopped at 0002 Second (2 of 2)" in printed
    assert "it builds on 0001, left out before" in printed


def test_a_landed_patch_is_dropped_and_the_commit_that_brought_it_is_named(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed
) -> None:
    found = moved(tmp_path, patchstack)
    found.upstream("Something else (#6)", {"src/other.cpp": numbered(41)})
    landed = found.upstream("Land it (#9)", {"src/kernel.cu": kernel(of(2))})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work", "--json") == 0
    document = told(capsys)
    assert fates(document) == ["unchanged", "landed", "unchanged"]
    assert document["patches"][1]["reason"] == f"landed upstream: {landed[:12]} Land it (#9)"
    assert found.lines() == ["Change 1 of a kernel", "Change 3 of a kernel"]
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
    assert b"retired: [2]" in found.files()["series.lock"]


def test_of_a_wholly_landed_series_nothing_is_accepted(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack, 2)
    found.upstream("Land all (#9)", {"src/kernel.cu": kernel(of(1, 2))})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    assert "product: nothing is left: every patch landed or was left out" in capsys.readouterr().out
    assert patchstack("sync", "--accept") == 1
    assert "error: the new series product has no patches: every patch landed or was dropped" in capsys.readouterr().err
    assert f"pin: {found.fork.pin}" in found.settings.read_text()


def test_what_is_not_resolved_is_not_taken(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")

    def refused() -> str:
        capsys.readouterr()
        assert patchstack("sync", "--continue") == 1
        return capsys.readouterr().err

    assert "0002 (Change 2 of a kernel) is not resolved yet\n  - src/kernel.cu is still in conflict" in refused()
    run_git("add", "src/kernel.cu", cwd=begun.work)
    assert "  - src/kernel.cu:20 is a conflict marker" in refused()
    begun.resolve("src/kernel.cu", RESOLVED)
    (begun.work / "src/kernel.cu").write_text(LAST)
    assert "  - src/kernel.cu was changed but not added" in refused()
    run_git("reset", "-q", "--hard", cwd=begun.work)
    assert "error: 0002 (Change 2 of a kernel) changes nothing" in refused()
    begun.resolve("src/kernel.cu", RESOLVED)
    assert patchstack("sync", "--continue") == 0


def test_a_commit_of_the_users_own_is_taken_with_its_message_but_not_two(
    begun: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    patchstack("sync", "--to", "main", "--worktree", "work")
    begun.resolve("src/kernel.cu", RESOLVED)
    run_git("commit", "-q", "-m", "Change 2 of a kernel\n\nAdapted to #8.", cwd=begun.work)
    run_git("commit", "-q", "--allow-empty", "-m", "Another", cwd=begun.work)
    capsys.readouterr()
    assert patchstack("sync", "--continue") == 1
    assert "is not a single commit on top of" in capsys.readouterr().err
    run_git("reset", "-q", "--hard", "HEAD^", cwd=begun.work)
    assert patchstack("sync", "--continue") == 0
    assert begun.git("log", "-1", "--format=%B", "HEAD^") == "Change 2 of a kernel\n\nAdapted to #8."


def test_a_file_that_upstream_removed_or_renamed_is_told_as_such(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed
) -> None:
    found = moved(tmp_path, patchstack, 1)
    gone = found.upstream("Remove the kernel (#5)", {"src/kernel.cu": None})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 1
    printed = capsys.readouterr().out
    assert "src/kernel.cu: upstream removed it, the patch changes it" in printed
    assert f"upstream {gone[:12]} Remove the kernel (#5)" in printed
    assert patchstack("sync", "--abort") == 0
    found.upstream("Bring it back elsewhere", {"src/cuda/kernel.cu": kernel()})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0, "git follows a rename"
    assert found.git("show", "HEAD:src/cuda/kernel.cu") + "\n" == kernel(of(1))


def test_what_the_policy_names_must_succeed_before_the_pin_moves(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed
) -> None:
    found = moved(
        tmp_path,
        patchstack,
        extra="    sync:\n      require:\n        - test -f src/kernel.cu\n        - [sh, -c, 'echo oops; exit 3']\n",
    )
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    capsys.readouterr()
    assert patchstack("sync", "--accept") == 1
    refused = capsys.readouterr().err
    assert "required: test -f src/kernel.cu\n" in refused
    assert "error: the pin does not move: sh -c echo oops; exit 3 exited 3\n  - oops" in refused
    assert f"pin: {found.fork.pin}" in found.settings.read_text()
    found.settings.write_text(found.settings.read_text().replace("exit 3", 'test "$PATCHSTACK_SYNC_TREE" = "$PWD"'))
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0


def test_without_sync_under_way_nothing_can_be_continued(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    capsys.readouterr()
    for option in ("--continue", "--skip", "--abort", "--accept"):
        assert patchstack("sync", option) == 2
        assert (
            "error: no sync of product is under way\n\nhint: patchstack sync product --to REF"
            in capsys.readouterr().err
        )
    assert not (begun.root / ".patchstack").exists()


def test_the_pin_itself_needs_no_sync(begun: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    capsys.readouterr()
    assert patchstack("sync", "--to", begun.fork.pin) == 0
    assert f"product: the pin is already {begun.fork.pin}, so there is nothing to do" in capsys.readouterr().err
    assert not (begun.root / ".patchstack").exists()


def test_a_new_branch_cannot_be_pushed_before_it_is_accepted_so_the_policy_is_a_warning(
    begun: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    begun.settings.write_text(begun.settings.read_text() + "    require_pushed: true\n")
    repo = begun.fork.repo
    run_git("init", "-q", "--bare", "server", cwd=begun.root)
    repo.git("remote", "add", "server", begun.root / "server")
    repo.git("push", "-q", "server", begun.fork.ref)
    patchstack("sync", "--to", "main", "--worktree", "work")
    begun.resolve("src/kernel.cu", RESOLVED)
    assert patchstack("sync", "--continue") == 0
    capsys.readouterr()
    assert patchstack("sync", "--accept") == 0
    branch = f"product-sync-{begun.fork.upstream.head()[:9]}"
    told = f"the fork is not pushed: no remote of ./fork has a branch {branch}"
    assert f"warning: {told}\n" in capsys.readouterr().err
    assert patchstack("export") == 1
    assert f"error: {told}\n" in capsys.readouterr().err
    repo.git("push", "-q", "server", branch)
    assert patchstack("export") == 0
