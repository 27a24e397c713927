"""`patchstack status`: one screen for each series, with the next step."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from patchstack.cli import main
from patchstack.cli.failures import guarded
from patchstack.cli.main import app as whole
from patchstack.cli.status import status_command
from patchstack.cli.verify import verify_command
from patchstack.git.remote import Cache
from patchstack.series import lock as locking
from patchstack.series.status.next_step import NOTHING
from patchstack.series.status.status import read_status
from patchstack.workspace import read_workspace, read_yaml
from tests.conftest import RunCli
from tests.support.builders import FIRST_DATE, Changes, Fork, a_fork, executable, kernel_steps, numbered

DAY = 24 * 3600


@pytest.fixture
def patchstack(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> RunCli:
    """Run status and verify; the test fails if they write anything."""
    small = typer.Typer(pretty_exceptions_enable=False)
    small.command("status")(status_command)
    small.command("verify")(verify_command)
    monkeypatch.setattr(main, "app", small)
    return run_cli


def export(monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["patchstack", "export", "product", *options])
    assert guarded(whole) == 0


def workspace(fork: Fork, *, with_fork: bool = True, extra: str = "", pin: str = "") -> Path:
    path = fork.series.parent / "patchstack.yaml"
    forked = f"    fork: fork\n    fork_ref: {fork.ref}\n" if with_fork else ""
    pinned = f"    upstream: upstream\n    pin: {pin or fork.pin}\n"
    path.write_text(f"series:\n  product:\n    patches: patches\n{pinned}{forked}{extra}")
    return path


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fork:
    """Return a fork of three commits, exported with its lock."""
    fork = a_fork(tmp_path)
    for path in fork.patches:
        path.unlink()
    workspace(fork)
    export(monkeypatch)
    fork.patches = sorted(fork.series.glob("*.patch"))
    return fork


def test_a_series_that_holds_has_nothing_to_do(exported: Fork, patchstack: RunCli) -> None:
    ran = patchstack("status")
    assert ran.code == 0
    lines = ran.stdout.splitlines()
    assert lines[0] == "product"
    assert lines[1].startswith(f"  pin        {exported.pin[:12]} Add the kernel (2025-06-15, ")
    assert lines[1].endswith(" days old)")
    head = exported.commits[-1]
    assert lines[2] == f"  fork       ./fork product at {head[:12]} Change 3 of a kernel (3 commits above the pin)"
    tree = exported.trees[-1][:12]
    assert lines[3] == f"  mirror     holds: 3 patches give tree {tree}, as fork ./fork product ({head[:12]})"
    assert lines[4] == "  lock       matches this pin and this series"
    assert lines[5] == "  lint       clean"
    assert lines[6] == "  patches    3; numbers 0001-0003; no gaps; none retired"
    assert lines[7] == (
        "  surface    1 upstream file: 3 lines inserted and 3 of upstream's changed or removed, in 3 places; "
        "0 own files of 0 lines"
    )
    assert lines[8] == "  costliest  src/kernel.cu: 3 places, +3 -3, by 3 patches"
    assert lines[9:] == ["next: nothing to do"]


def test_a_fork_that_went_on_is_to_be_exported(exported: Fork, patchstack: RunCli) -> None:
    exported.repo.commit("One more", {"more": "x\n"})
    exported.repo.commit("And another", {"another": "x\n"})
    ran = patchstack("status")
    assert ran.code == 1
    assert "mirror     does not hold (2 commits behind): fork commit" in ran.stdout
    assert f"lock       exists, but is stale: it was written for fork commit {exported.commits[-1][:12]}" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "next: patchstack export product"


def test_a_fork_that_lost_commits_leaves_patches_ahead(exported: Fork, patchstack: RunCli) -> None:
    exported.repo.branch("product", exported.commits[0])
    ran = patchstack("status", "--json")
    assert ran.code == 1
    assert (ran.document["mirror"]["behind"], ran.document["mirror"]["ahead"]) == (0, 2)
    assert ran.document["next"] == "patchstack export product retires 0002, 0003, which the fork no longer has"


def test_a_commit_dropped_from_the_fork_retires_its_number(
    exported: Fork, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = exported.repo
    repo.branch("product", exported.commits[0])
    repo.commit("Change 3 of a kernel", kernel_steps([3], {10: "changed by commit 1"})[0][1])
    ran = patchstack("status")
    assert ran.code == patchstack("verify").code == 1
    assert "mirror     does not hold (1 patch ahead): 0002-Change-2-of-a-kernel.patch: stray" in ran.stdout
    assert ran.stdout.endswith("next: patchstack export product retires 0002, which the fork no longer has\n")
    export(monkeypatch)
    ran = patchstack("status")
    assert ran.code == 0
    assert "numbers 0001, 0003; no gaps; retired 0002" in ran.stdout


def test_without_a_lock_a_patch_that_the_fork_lacks_may_be_new_or_dropped(exported: Fork, patchstack: RunCli) -> None:
    (exported.series / "series.lock").unlink()
    exported.repo.branch("product", exported.commits[1])
    ran = patchstack("status")
    assert ran.code == 1
    step = ran.stdout.splitlines()[-1]
    assert step.startswith(
        "next: patchstack verify product --keep-going shows what the fork lacks: commit it there, then"
    )
    assert step.endswith("; if 0003 was dropped from the fork: patchstack export product --discard-edits")


def test_a_series_that_was_never_exported_asks_for_it(tmp_path: Path, patchstack: RunCli) -> None:
    fork = a_fork(tmp_path)
    for path in fork.patches:
        path.unlink()
    workspace(fork)
    for _ in range(2):
        ran = patchstack("status")
        assert ran.code == 1
        assert "mirror     does not hold (3 commits behind): there are no patches yet" in ran.stdout
        assert "patches    0; no gaps; none retired" in ran.stdout
        assert "no upstream file is touched" not in ran.stdout
        assert ran.stdout.splitlines()[-1] == "next: patchstack export product"
        if fork.series.is_dir():
            fork.series.rmdir()


def test_a_series_that_holds_without_a_lock_is_to_be_exported(tmp_path: Path, patchstack: RunCli) -> None:
    workspace(a_fork(tmp_path))
    ran = patchstack("status")
    assert ran.code == 0
    assert "lock       absent" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "next: patchstack export product"


def test_an_edit_by_hand_is_named_and_goes_to_the_fork_first(exported: Fork, patchstack: RunCli) -> None:
    exported.edit_patch(2, "+changed by commit 2", "+changed by hand")
    ran = patchstack("status")
    assert ran.code == 1
    assert "mirror     does not hold: 0002-Change-2-of-a-kernel.patch: diverges" in ran.stdout
    assert "stale: 0002-Change-2-of-a-kernel.patch was changed after the export" in ran.stdout
    last = ran.stdout.splitlines()[-1]
    assert last.startswith(
        "next: patchstack verify product --keep-going shows what the fork lacks: commit it there, then"
    )


def test_patches_that_do_not_apply_are_looked_at_with_verify(exported: Fork, patchstack: RunCli) -> None:
    exported.edit_patch(2, " line 19", " line nineteen")
    ran = patchstack("status")
    assert ran.code == 1
    assert "does not hold (1 of 3 patches apply): 0002-Change-2-of-a-kernel.patch: conflict" in ran.stdout
    assert (
        "surface    1 upstream file: 1 line inserted and 1 of upstream's changed or removed, in 1 place" in ran.stdout
    )
    assert ran.stdout.splitlines()[-1].startswith("next: patchstack verify product --keep-going shows which patches")


def test_without_fork_and_lock_there_is_nothing_to_compare_with(tmp_path: Path, patchstack: RunCli) -> None:
    workspace(a_fork(tmp_path), with_fork=False)
    ran = patchstack("status")
    assert ran.code == 3
    assert "fork       none configured" in ran.stdout
    assert "mirror     not compared" in ran.stdout
    assert "next: add fork and fork_ref to patchstack.yaml" in ran.stdout


def test_a_lock_alone_is_enough_to_hold(exported: Fork, patchstack: RunCli) -> None:
    workspace(exported, with_fork=False)
    ran = patchstack("status")
    assert ran.code == 0
    assert ran.stdout.splitlines()[-1] == "next: nothing to do"
    workspace(exported, extra="    expect: lock\n")
    ran = patchstack("status")
    assert ran.code == 0
    told = f"not read (expect: lock); the lock is for {exported.commits[-1][:12]} Change 3 of a kernel"
    assert told in ran.stdout


def test_a_missing_fork_does_not_hide_the_rest(exported: Fork, patchstack: RunCli) -> None:
    (exported.series.parent / "fork").rename(exported.series.parent / "away")
    ran = patchstack("status")
    assert ran.code == patchstack("verify").code == 3
    assert "fork       ./fork product: no repository at ./fork" in ran.stdout
    assert "mirror     not compared: no repository at ./fork" in ran.stdout
    assert "costliest  src/kernel.cu" in ran.stdout
    recreated = "run 'patchstack checkout product ./fork' to recreate the fork from pin, series and lock"
    assert ran.stdout.endswith(f"next: {recreated}\n")
    told = patchstack("verify").stderr
    assert told == (f"error: no repository at ./fork: no such file or directory\n\nhint: {recreated}\n")


def test_the_command_that_a_missing_fork_asks_for_recreates_it(exported: Fork, monkeypatch: pytest.MonkeyPatch) -> None:
    (exported.series.parent / "fork").rename(exported.series.parent / "away")
    command = "checkout product ./fork"
    monkeypatch.setattr(sys, "argv", ["patchstack", *command.split()])
    assert guarded(whole) == 0
    monkeypatch.setattr(sys, "argv", ["patchstack", "status"])
    assert guarded(whole) == 0


def test_a_checkout_at_0_is_the_pin(
    exported: Fork, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["patchstack", "checkout", "product", "pristine", "--at", "0"])
    assert guarded(whole) == 0
    told = f"product: pristine has branch product-at-0 at {exported.pin}, 0 commits above {exported.pin}\n"
    assert capsys.readouterr().out.endswith(told)
    monkeypatch.setattr(sys, "argv", ["patchstack", "checkout", "product", "other", "--patch", "0"])
    assert guarded(whole) == 2
    assert capsys.readouterr().err == (
        "error: --patch 0 is the pin, not a patch\n\nhint: use --at 0 to check out the pin\n"
    )


def test_a_missing_branch_of_the_fork_is_recreated_in_a_work_tree(
    exported: Fork, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported.repo.branch("other", exported.pin)
    exported.repo.git("update-ref", "-d", "refs/heads/product")
    command = "checkout product ./fork-product --worktree-of ./fork"
    for verb in ("status", "verify"):
        ran = patchstack(verb)
        assert ran.code == 3
        assert "fork ref product is not in ./fork" in ran.told
        assert f"run 'patchstack {command}' to recreate the branch from pin, series and lock" in ran.told
    monkeypatch.setattr(sys, "argv", ["patchstack", *command.split()])
    assert guarded(whole) == 0
    assert patchstack("status").code == 0


def test_a_missing_fork_without_a_lock_is_to_be_cloned(exported: Fork, patchstack: RunCli) -> None:
    (exported.series.parent / "fork").rename(exported.series.parent / "away")
    (exported.series / "series.lock").unlink()
    for told in (patchstack("verify"), patchstack("verify", *exported.options)):
        assert told.code == 3
        assert "hint: clone the fork there, or set fork in patchstack.yaml" in told.stderr


def test_credentials_of_a_fork_by_url_are_not_shown(
    tmp_path: Path, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workspace(a_fork(tmp_path))
    path.write_text(path.read_text().replace("fork: fork", "fork: https://me:hunter2@127.0.0.1:9/fork.git"))
    for options in ([], ["--json"]):
        ran = patchstack("status", *options)
        assert "https://127.0.0.1:9/fork.git" in ran.stdout
        assert "hunter2" not in ran.told
    monkeypatch.setattr(sys, "argv", ["patchstack", "export"])
    assert guarded(whole) == 2
    told = capsys.readouterr().err
    assert "hint: clone https://127.0.0.1:9/fork.git and set fork: to the clone" in told


def test_after_a_pin_bump_the_next_steps_are_rebase_and_export(exported: Fork, patchstack: RunCli) -> None:
    new = exported.upstream.commit("Upstream moves", {"src/kernel.cu": numbered(300, {15: "moved"})})
    workspace(exported, pin=new)
    ran = patchstack("status")
    assert ran.code == patchstack("verify").code == 1
    assert f"lock       exists, but was written for pin {exported.pin[:12]}" in ran.stdout
    told = f"git -C ./fork rebase --onto {new[:12]} {exported.pin[:12]} product, then patchstack export product"
    assert ran.stdout.splitlines()[-1] == f"next: fetch the pin into the fork, {told}"
    exported.repo.git("fetch", "-q", "origin")
    exported.repo.branch("product", new)
    exported.repo.commit("Change 1 of a kernel", {"src/kernel.cu": numbered(300, {15: "moved", 10: "ours"})})
    told = "next: patchstack export product retires 0002, 0003, which the fork no longer has"
    assert patchstack("status").stdout.splitlines()[-1] == told


def test_a_lock_that_cannot_be_read_is_said_so(exported: Fork, patchstack: RunCli) -> None:
    lock = exported.series / "series.lock"
    lock.write_text(lock.read_text().replace("lock/1", "lock/9"))
    ran = patchstack("status")
    assert ran.code == 0, "the fork is what is expected, and the series is equal to it"
    assert "unusable: patches/series.lock cannot be used; schema: 'patchstack.lock/9'" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("next: restore series.lock from version control; or remove it")
    workspace(exported, with_fork=False)
    assert patchstack("status").code == patchstack("verify").code == 2


def test_a_merge_in_the_fork_is_to_be_rebased_away(exported: Fork, patchstack: RunCli) -> None:
    head = exported.repo.head()
    exported.repo.branch("side", exported.pin)
    side = exported.repo.commit("Aside", {"aside": "x\n"})
    exported.repo.branch("product", head)
    exported.repo.merge("Merge aside", side)
    ran = patchstack("status")
    assert ran.code == patchstack("verify").code == 1
    assert ran.stdout.splitlines()[-1].startswith("next: rebase the fork onto the pin")


def test_every_series_has_its_screen_and_the_worst_gives_the_exit_code(exported: Fork, patchstack: RunCli) -> None:
    path = exported.series.parent / "patchstack.yaml"
    lost = f"  lost:\n    patches: nowhere\n    upstream: upstream\n    pin: {exported.pin}\n"
    path.write_text(path.read_text() + lost + path.read_text().partition("\n")[2].replace("product:", "twin:", 1))
    ran = patchstack("status")
    assert ran.code == 2
    assert "error: lost: nowhere is not a directory" in ran.stderr
    assert [line for line in ran.stdout.splitlines() if line[:1] not in (" ", "")] == [
        *("product", "next: nothing to do", "twin", "next: nothing to do")
    ]
    assert [document["series"] for document in patchstack("status", "--json").documents] == ["product", "twin"]
    assert patchstack("status", "twin").code == 0


def test_the_document_has_numbers_gaps_retired_numbers_and_surface(
    tmp_path: Path, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Edit", {"src/kernel.cu": numbered(300, {10: "ten"})}),
        ("Own", {"src/own.h": "one\ntwo\n"}),
        ("Drop", {"docs/notes.txt": None}),
    ]
    fork = a_fork(tmp_path, steps=steps)
    for path in fork.patches:
        path.unlink()
    workspace(fork)
    export(monkeypatch)
    fork.repo.branch("product", fork.commits[0])
    last = fork.repo.commit("Drop", {"docs/notes.txt": None})
    export(monkeypatch)
    document = patchstack("status", "--json").document
    assert document["schema"] == "patchstack.status/1"
    assert document["numbers"] == {"used": [1, 3], "gaps": [], "retired": [2], "unnumbered": 0}
    assert document["fork"]["head"] == last
    assert document["mirror"]["holds"] is True
    assert document["lock"] == {"state": "current", "pin": fork.pin, "pristine": True, "detail": None}
    assert [file["path"] for file in document["surface"]["upstream"]] == ["docs/notes.txt", "src/kernel.cu"]
    assert document["surface"]["upstream"][0]["removed"] is True
    assert document["next"] == NOTHING
    assert document["exit_code"] == 0


def test_surface_is_a_table_of_every_file(tmp_path: Path, patchstack: RunCli) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Edit", {"src/kernel.cu": numbered(300, {10: "ten", 100: "hundred"})}),
        ("Own", {"src/own.h": "one\ntwo\n", "src/kernel.cu": numbered(300, {10: "ten"})}),
        ("Mode", {"src/other.cpp": executable(numbered(40))}),
        ("Blob", {"big/untouched.gguf": b"\0\1"}),
    ]
    workspace(a_fork(tmp_path, steps=steps))
    lines = patchstack("status", "--surface").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("kind"))
    assert [line.split() for line in lines[at:-2]] == [
        ["kind", "path", "hunks", "inserted", "changed", "patches", "by"],
        ["upstream", "src/kernel.cu", "1", "1", "1", "2", "0001-0002"],
        ["upstream", "big/untouched.gguf", "binary", "-", "-", "1", "0004"],
        ["upstream", "src/other.cpp", "0", "0", "0", "1", "0003"],
        ["own", "src/own.h", "-", "2", "-", "1", "0002"],
    ]
    assert lines[-1].startswith("next: ")


LINTED: list[tuple[str, Changes]] = [
    ("Blanks", {"src/other.cpp": numbered(40, {3: "x  "})}),
    ("More blanks", {"src/kernel.cu": numbered(300, {9: " \tx"})}),
    ("A path", {"src/own.h": "// /home/somebody1/x\n"}),
]


def test_what_lint_finds_is_counted_by_rule_and_comes_last_among_the_next_steps(
    tmp_path: Path, patchstack: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = a_fork(tmp_path, steps=LINTED)
    path = workspace(fork)
    ran = patchstack("status")
    assert ran.code == 0, "lint is not part of the proof"
    assert "  lint       3 findings (whitespace 2, home-path 1)" in ran.stdout.splitlines()
    assert ran.stdout.splitlines()[-1] == "next: patchstack export product"
    export(monkeypatch)
    told = "next: patchstack lint product shows what to fix, or to waive with a reason"
    assert patchstack("status").stdout.splitlines()[-1] == told
    waivers = "    waive:\n      - {rule: whitespace, why: theirs}\n"
    path.write_text(path.read_text() + waivers)
    assert "  lint       1 finding (home-path 1); 2 waived" in patchstack("status").stdout.splitlines()
    path.write_text(path.read_text() + "      - {rule: home-path, patch: 3, why: a test}\n")
    ran = patchstack("status")
    assert "  lint       clean; 3 waived" in ran.stdout.splitlines()
    assert ran.stdout.splitlines()[-1] == "next: nothing to do"
    document = patchstack("status", "--json").document
    assert document["lint"] == {"clean": True, "findings": {}, "waived": 3, "problem": None}


def test_waivers_that_cannot_be_used_are_said_so_and_hide_nothing_else(tmp_path: Path, patchstack: RunCli) -> None:
    path = workspace(a_fork(tmp_path, steps=LINTED), extra="    waive:\n      - {rule: whitespaces, why: theirs}\n")
    ran = patchstack("status")
    assert ran.code == 0
    told = f"{path.name}:9: waive: there is no rule whitespaces, perhaps you meant whitespace"
    assert f"  lint       not checked: {told}" in ran.stdout.splitlines()
    assert patchstack("status", "--json").document["lint"]["clean"] is None


def test_lint_looks_behind_a_patch_that_does_not_apply(exported: Fork, patchstack: RunCli) -> None:
    exported.edit_patch(1, " line 9", " line nine")
    exported.edit_patch(3, "+changed by commit 3", "+changed by commit 3  ")
    assert "  lint       2 findings (unreadable 1, whitespace 1)" in patchstack("status").stdout.splitlines()
    document = patchstack("status", "--json").document
    assert document["lint"]["findings"] == {"unreadable": 1, "whitespace": 1}


def test_what_others_wrote_is_spelled_out(tmp_path: Path, patchstack: RunCli) -> None:
    fork = a_fork(tmp_path, steps=[("Red \x1b[31m alert", {"src/\x1b[0mx": "x\n"})])
    workspace(fork)
    told = patchstack("status", "--surface").told
    assert "\x1b" not in told
    assert "Red \\x1b[31m alert" in told


def test_the_pin_is_as_old_as_its_commit_in_whole_days(tmp_path: Path) -> None:
    config = read_workspace(workspace(a_fork(tmp_path))).series[0]
    cache = Cache(lambda: tmp_path / "cache", offline=True)
    committed = FIRST_DATE + 120
    for later, days in ((0, 0), (DAY - 1, 0), (DAY, 1), (90 * DAY, 90)):
        found = read_status(config, cache, now=datetime.fromtimestamp(committed + later, UTC))
        assert (found.pin.committed.timestamp(), found.pin.age_days) == (committed, days)


def test_a_lock_as_exported_is_read_quickly_and_as_any_other(exported: Fork) -> None:
    path = exported.series / "series.lock"
    data = path.read_bytes()
    quick = locking._as_rendered(path, data)
    assert quick is not None
    assert quick == locking._checked(path, read_yaml(path, comments=False))
    head = exported.commits[-1].encode()
    for spoiled in (
        *(data.replace(b"/1", b"/2"), data.replace(b"retired: []", b"retired: [ ]"), data + b"\n", b"", data[:-9]),
        *(data.replace(head, b"x" * 40), data.replace(b'"0002-', b'"0009-'), data.replace(b"# Gen", b"# gen")),
        data.replace(b'object: "', b'object: "!'),
    ):
        assert spoiled != data
        assert locking._as_rendered(path, spoiled) is None
