"""`patchstack export` and `checkout`: the mirror written, and the fork recreated from it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import (
    Changes,
    Fork,
    RepoBuilder,
    a_fork,
    executable,
    kernel_steps,
    numbered,
    run_git,
    snapshot,
    symlink,
)


def workspace(fork: Fork, extra: str = "") -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n{extra}"
    )


def fresh(tmp_path: Path, *steps: tuple[str, Changes]) -> Fork:
    """Return a fork whose series was never written."""
    fork = a_fork(tmp_path, 3, steps or None)
    for path in fork.patches:
        path.unlink()
    fork.series.rmdir()
    workspace(fork)
    return fork


def files(fork: Fork) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(fork.series.iterdir())}


RICH: list[tuple[str, Changes]] = [
    ("Edit a line", {"src/kernel.cu": numbered(300, {10: "ten"})}),
    ("Binary", {"big/untouched.gguf": bytes(range(256)) * 3}),
    ("Mode and link", {"src/other.cpp": executable(numbered(40)), "src/link": symlink("other.cpp")}),
    ("Rename", {"docs/notes.txt": None, "docs/renamed.txt": "one\ntwo\nthree\n"}),
    ("[tag] [PATCH] brackets: --- and\ttabs", {"a b.txt": "spaces\r\nand CR\r\n", "end": "no newline"}),
    ("Ümläut ✓ 日本語", {"ü.txt": "ü\n"}),
]


def test_one_commit_is_one_patch_and_verify_holds(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = fresh(tmp_path, *RICH)
    assert patchstack("export") == 0
    assert [name[:5] for name in files(fork)] == ["0001-", "0002-", "0003-", "0004-", "0005-", "0006-", "serie"]
    assert patchstack("verify") == 0


def test_the_fork_comes_back_with_the_same_ids(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = fresh(tmp_path, *RICH)
    # A commit with a different committer, an unusual message and an encoding, as a raw object.
    head, tree = fork.repo.head(), fork.repo.tree(fork.repo.head())
    blob = run_git("hash-object", "-w", "--stdin", cwd=fork.repo.path).stdout
    assert blob
    raw = (
        f"tree {tree}\nparent {fork.repo.parent(head)}\nauthor A U Thor <a@example.com> 1750000000 +0530\n"
        "committer C O Mitter <c@example.com> 1750009999 -0800\nencoding ISO-8859-1\n"
        "gpgsig -----BEGIN PGP SIGNATURE-----\n \n not really\n -----END PGP SIGNATURE-----\n\n"
        "  odd \xfcml\xe4ut  \n\n---\ntrailing blanks   \n\n\n"
    ).encode("latin-1")
    made = subprocess.run(
        ["git", "-C", fork.repo.path, "hash-object", "-t", "commit", "-w", "--stdin"],
        input=raw,
        check=True,
        capture_output=True,
    )
    odd = made.stdout.decode().strip()
    fork.repo.git("update-ref", "refs/heads/product", odd)
    assert patchstack("export") == 0
    assert patchstack("checkout", "product", "again") == 0
    again = RepoBuilder(tmp_path / "again")
    assert again.git("rev-parse", "product") == odd
    assert again.git("status", "--short") == ""
    assert again.git("rev-list", f"{fork.pin}..product") == fork.repo.git("rev-list", f"{fork.pin}..product")
    run_git("fsck", "--strict", "--no-dangling", "--connectivity-only", cwd=tmp_path / "again")
    # An export of the recreated fork gives the same series.
    before = files(fork)
    (tmp_path / "patchstack.yaml").write_text(
        (tmp_path / "patchstack.yaml").read_text().replace("fork: fork", "fork: again")
    )
    assert patchstack("export") == 0
    assert files(fork) == before


def test_checkout_stops_at_the_patch_named(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = fresh(tmp_path)
    assert patchstack("export") == 0
    assert patchstack("checkout", "product", "again", "--at", "2") == 0
    assert run_git("rev-parse", "product-at-2", cwd=tmp_path / "again").stdout.decode().strip() == fork.commits[1]


def test_one_patch_alone_stands_on_the_pin_where_it_can(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        *kernel_steps([1, 2]),
        ("Builds on 2", {"src/kernel.cu": numbered(300, {10: "changed by commit 1", 20: "again"})}),
    ]
    fork = fresh(tmp_path, *steps)
    assert patchstack("export") == 0
    assert patchstack("checkout", "product", "alone", "--patch", "2") == 0
    alone = RepoBuilder(tmp_path / "alone")
    assert alone.git("rev-parse", "product-patch-2^") == fork.pin
    assert (tmp_path / "alone/src/kernel.cu").read_text() == numbered(300, {20: "changed by commit 2"})
    assert alone.git("log", "-1", "--format=%an %ae %s") == "A U Thor author@example.com Change 2 of a kernel"
    capsys.readouterr()
    assert patchstack("checkout", "product", "not-alone", "--patch", "3") == 1
    told = capsys.readouterr().err
    assert "patch 0003 cannot be applied alone to the pin" in told
    assert "src/kernel.cu: both patches change it" in told
    assert run_git("branch", "--show-current", cwd=tmp_path / "not-alone").stdout == b"product-at-3\n"
    assert run_git("status", "--short", cwd=tmp_path / "not-alone").stdout == b""


def test_a_lock_that_lies_recreates_nothing(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    assert patchstack("export") == 0
    lock = fork.series / "series.lock"
    lock.write_text(lock.read_text().replace(f'commit: "{fork.commits[1]}"', f'commit: "{fork.commits[0]}"', 1))
    capsys.readouterr()
    assert patchstack("checkout", "product", "again") == 1
    told = capsys.readouterr().err
    assert "0002-Change-2-of-a-kernel.patch: the lock's commit object is not commit" in told
    assert not (tmp_path / "again").exists()


HOSTILE = [
    *(
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.algorithm=patience",
        "diff.context=9",
        "diff.renames=copies",
    ),
    *(
        "diff.renames=false",
        "diff.renameLimit=1",
        "diff.orderFile=order",
        "diff.external=false",
        "diff.colorMoved=zebra",
    ),
    *("diff.suppressBlankEmpty=true", "diff.interHunkContext=50", "diff.indentHeuristic=false", "diff.relative=true"),
    *(
        "diff.submodule=log",
        "diff.ignoreSubmodules=all",
        "diff.statGraphWidth=5",
        "diff.wordRegex=.",
        "diff.dirstat=lines",
    ),
    *("format.signature=me", "format.signOff=true", "format.from=true", "format.attach=true", "format.numbered=true"),
    *(
        "format.thread=deep",
        "format.coverLetter=true",
        "format.useAutoBase=true",
        "format.notes=true",
        "format.outputDirectory=x",
    ),
    *(
        "format.headers=X-A: b",
        "format.to=a@example.com",
        "format.cc=a@example.com",
        "format.subjectPrefix=X",
        "format.suffix=.txt",
    ),
    *(
        "format.filenameMaxLength=9",
        "format.encodeEmailHeaders=false",
        "core.abbrev=7",
        "core.quotePath=false",
        "color.ui=always",
    ),
    *(
        "i18n.logOutputEncoding=ISO-8859-1",
        "log.showSignature=true",
        "core.attributesFile=attributes",
        "log.date=iso",
        "notes.displayRef=*",
    ),
    *(
        "core.autocrlf=true",
        "core.whitespace=cr-at-eol",
        "diff.noPrefix=true",
        "core.fsmonitor=false",
        "core.commentChar=#",
    ),
]


def test_the_same_bytes_under_every_git_configuration(
    tmp_path: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = fresh(tmp_path, *RICH)
    assert patchstack("export") == 0
    expected = files(fork)
    (tmp_path / "attributes").write_text("*.cu diff=cpp\n*.gguf diff\n* -text\n")
    (tmp_path / "order").write_text("*.txt\n")
    home = Path(os.environ["HOME"])
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    for setting in HOSTILE:
        for where in (home / ".gitconfig", tmp_path / "fork" / ".git" / "config"):
            name, _, value = setting.partition("=")
            value = str(tmp_path / value) if value in ("attributes", "order", "x") else value
            run_git("config", "--file", where, name, value, cwd=tmp_path)
    for path in fork.series.iterdir():
        path.unlink()
    monkeypatch.setenv("GIT_DIFF_OPTS", "-U9")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("COLUMNS", "40")
    assert patchstack("export") == 0
    assert files(fork) == expected


def test_numbers_stay_through_a_rebase_a_drop_an_insertion_and_an_appended_commit(
    tmp_path: Path, patchstack: Patchstack
) -> None:
    fork = fresh(tmp_path)
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps(range(1, 6)):
        fork.repo.commit(subject, changes)
    assert patchstack("export") == 0
    # Commit 3 is dropped, and one is added at the end.
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps([1, 2, 4, 5, 6]):
        fork.repo.commit(subject, changes)
    assert patchstack("export") == 0
    assert [name[:4] for name in files(fork)] == ["0001", "0002", "0004", "0005", "0006", "seri"]
    assert b"retired: [3]" in files(fork)["series.lock"]
    # Insert one between 2 and 4: 3 is retired, so no number is left.
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps([1, 2, 7, 4, 5, 6]):
        fork.repo.commit(subject, changes)
    before = files(fork)
    assert patchstack("export") == 1
    assert files(fork) == before
    assert patchstack("export", "--renumber") == 0
    assert [name[:4] for name in files(fork)] == ["0001", "0002", "0003", "0004", "0005", "0006", "seri"]
    assert patchstack("verify") == 0


def test_an_edit_by_hand_is_named_and_not_overwritten(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    assert patchstack("export") == 0
    clean = files(fork)
    edited = fork.series / "0002-Change-2-of-a-kernel.patch"
    edited.write_bytes(edited.read_bytes().replace(b"+changed by commit 2", b"+changed by hand"))
    before = files(fork)
    capsys.readouterr()
    assert patchstack("export") == 1
    told = capsys.readouterr().err
    assert "0002-Change-2-of-a-kernel.patch: it was changed after the export" in told
    assert "--discard-edits" in told
    assert files(fork) == before
    assert patchstack("export", "--discard-edits") == 0
    assert files(fork) == clean


def test_a_foreign_series_is_taken_over_where_it_is_the_fork_s_and_refused_where_not(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = a_fork(tmp_path, 3)
    workspace(fork)
    stray = fork.series / "0009-stray.patch"
    stray.write_bytes(fork.patches[0].read_bytes())
    assert patchstack("export") == 1
    assert "0009-stray.patch" in capsys.readouterr().err
    stray.unlink()
    (fork.series / "README").write_text("mine")
    assert patchstack("export") == 0
    assert (fork.series / "README").read_text() == "mine"
    assert patchstack("verify") == 0


def test_dry_run_tells_and_writes_nothing(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    assert patchstack("export") == 0
    fork.repo.commit("One more", {"more": "x\n"})
    before = snapshot(tmp_path)
    capsys.readouterr()
    assert patchstack("export", "--dry-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "patchstack.export/1"
    assert [file["change"] for file in document["files"]] == ["unchanged"] * 3 + ["added"]
    assert document["tree"] == fork.repo.tree(fork.repo.head())
    assert snapshot(tmp_path) == before


def test_a_branch_that_its_remote_does_not_have_is_a_warning_or_by_policy_refused(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    assert patchstack("export") == 0
    assert "warning: the fork is not pushed: no remote of ./fork has a branch product" in capsys.readouterr().err
    run_git("init", "-q", "--bare", "server", cwd=tmp_path)
    fork.repo.git("remote", "add", "server", tmp_path / "server")
    fork.repo.git("push", "-q", "server", "product")
    assert patchstack("export") == 0
    assert "not pushed" not in capsys.readouterr().err
    workspace(fork, "    require_pushed: true\n")
    assert patchstack("export") == 0
    fork.repo.commit("One more", {"more": "x\n"})
    before = files(fork)
    assert patchstack("export") == 1
    assert f"server/product does not have {fork.repo.head()[:12]}" in capsys.readouterr().err
    assert files(fork) == before


def test_a_branch_that_follows_a_local_branch_is_not_pushed(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    workspace(fork, "    require_pushed: true\n")
    fork.repo.git("branch", "copy", "product")
    fork.repo.git("branch", "--set-upstream-to=copy", "product")
    assert patchstack("export") == 1
    assert "error: the fork is not pushed: no remote of ./fork has a branch product" in capsys.readouterr().err
    assert not fork.series.exists()


def test_commits_that_touch_what_patches_may_not_are_refused_together(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    fork.repo.commit("Results", {"RESULTS.md": "fast\n", "src/kernel.cu": numbered(300)})
    fork.repo.commit("A model", {"models/x.gguf": "GGUF"})
    assert patchstack("export") == 1
    told = capsys.readouterr().err
    assert "(Results), patch 0004: RESULTS.md" in told
    assert "(A model), patch 0005: models/x.gguf" in told
    assert not fork.series.exists()
    workspace(
        fork,
        "    waive:\n      - {rule: paths, patch: 4, why: the product reads it}\n"
        "      - {rule: paths, patch: 5, why: tiny}\n",
    )
    assert patchstack("export") == 0


def test_in_anchored_form_a_series_holds_none_of_the_text_around_its_changes(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = numbered(300).split("\n")
    hooked = "\n".join([*lines[:100], "hook();", *lines[100:]])
    fork = fresh(tmp_path, ("Hook", {"src/kernel.cu": hooked}), ("Own file", {"src/own.cpp": "ours\n"}))
    workspace(fork, "    form: anchored\n")
    assert patchstack("export") == 0
    hook = files(fork)["0001-Hook.anchored"]
    assert b"line 100" not in hook
    assert b"@@ -100,0 +101 @@\n+hook();\n" in hook
    capsys.readouterr()
    assert patchstack("verify") == 0
    assert "git apply would put the lines in the wrong place" in capsys.readouterr().err
    assert patchstack("checkout", "product", "again") == 0
    assert run_git("rev-parse", "product", cwd=tmp_path / "again").stdout.decode().strip() == fork.commits[-1]
    # In the plain form again: the numbers stay, the names change.
    workspace(fork)
    assert patchstack("export") == 0
    assert [name for name in files(fork) if name[0] == "0"] == ["0001-Hook.patch", "0002-Own-file.patch"]
    assert patchstack("verify") == 0
    workspace(fork, "    form: odd\n")
    assert patchstack("export") == 2


def test_context_is_as_the_workspace_says(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = fresh(tmp_path)
    workspace(fork, "    context: 5\n")
    assert patchstack("export") == 0
    assert b"@@ -5,11 +5,11 @@" in files(fork)["0001-Change-1-of-a-kernel.patch"]
    assert patchstack("verify") == 0
    workspace(fork, "    context: 0\n")
    assert patchstack("export") == 2


def test_merges_and_commits_that_change_nothing_are_refused_together(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = fresh(tmp_path)
    fork.repo.commit("Nothing", {})
    side = fork.repo.head()
    fork.repo.branch("side", fork.pin)
    other = fork.repo.commit("Aside", {"aside": "x\n"})
    fork.repo.branch("product", side)
    fork.repo.merge("Merge aside", other)
    assert patchstack("export") == 1
    told = capsys.readouterr().err
    assert "(Merge aside) is a merge" in told
    assert "(Nothing) changes nothing" in told
    assert not fork.series.exists()
