"""Refreshed copies: they give the same result without fuzz as quilt with fuzz, and the originals stay."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Patchstack, Ran, RunCli
from tests.support.builders import (
    Fork,
    RepoBuilder,
    a_fork,
    edited,
    format_patch,
    numbered,
    run_git,
    write_series,
)
from tests.support.oracle import hermetic_environment
from tests.support.quilt import needs_quilt
from tests.support.thorough import tries


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork whose upstream has changed the context of patch 2."""
    fork = a_fork(tmp_path, 3)
    fork.pin = fork.upstream.commit("Moved", {"src/kernel.cu": numbered(300, {17: "moved"})})
    return fork


@pytest.fixture
def run_writing(patchstack: Patchstack, capsys: pytest.CaptureFixture[str]) -> RunCli:
    """Run patchstack in a directory in which it may write."""

    def run(*args: str | Path) -> Ran:
        capsys.readouterr()
        code = patchstack(*args)
        printed = capsys.readouterr()
        return Ran(code=code, stdout=printed.out, stderr=printed.err)

    return run


def refresh(run: RunCli, fork: Fork, out: Path, *options: str, patches: Path | None = None) -> Ran:
    sources = ["--patches", str(patches or fork.series), "--upstream", str(fork.upstream.path), "--pin", fork.pin]
    return run("refresh", out, *sources, *options)


def by_quilt(directory: Path, repo: Path, pin: str, patches: Path) -> str | None:
    """Return the tree that `quilt push -a` gives, or None if it stops."""
    tree = directory / "tree"
    run_git("clone", "-q", repo, tree, cwd=directory)
    run_git("checkout", "-q", pin, cwd=tree)
    environment = hermetic_environment(QUILTRC="-", QUILT_PATCHES=str(patches), QUILT_PC=str(directory / "pc"))
    ran = subprocess.run(["quilt", "push", "-a"], cwd=tree, capture_output=True, env=environment)
    if ran.returncode:
        return None
    run_git("add", "-A", cwd=tree)
    return run_git("write-tree", cwd=tree).stdout.decode().strip()


def test_a_patch_that_needs_fuzz_is_refreshed_and_the_others_are_copied(
    fork: Fork, run_writing: RunCli, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in fork.patches}
    out = tmp_path / "out"
    ran = refresh(run_writing, fork, out)
    expected = numbered(
        300, {10: "changed by commit 1", 17: "moved", 20: "changed by commit 2", 30: "changed by commit 3"}
    )
    tree = fork.upstream.tree(fork.upstream.commit("Expected", {"src/kernel.cu": expected}))
    assert (ran.code, ran.stderr) == (
        0,
        "note: review the refreshed patches, because fuzz may place a hunk at a wrong line\n",
    )
    assert ran.stdout == (
        "0002-Change-2-of-a-kernel.patch: src/kernel.cu: hunk 1 applied with fuzz 1 at line 17\n"
        f"patches: 3 patches in {out}: 1 refreshed, 2 copied; without fuzz they give tree {tree}\n"
    )
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(after) == sorted(before)
    assert [name for name in before if before[name] != after[name]] == ["0002-Change-2-of-a-kernel.patch"]
    head = before["0002-Change-2-of-a-kernel.patch"].partition(b"\ndiff --git ")[0]
    assert after["0002-Change-2-of-a-kernel.patch"].startswith(head + b"\ndiff --git ")
    assert b"\n moved\n" in after["0002-Change-2-of-a-kernel.patch"]
    sources = ["--patches", str(out), "--upstream", str(fork.upstream.path), "--pin", fork.pin]
    assert run_writing("verify", *sources, "--apply-only", "--json").document["applied_tree"] == tree
    assert {path.name: path.read_bytes() for path in fork.patches} == before


def test_the_document_tells_each_hunk(fork: Fork, run_writing: RunCli, tmp_path: Path) -> None:
    document = refresh(run_writing, fork, tmp_path / "out", "--json").document
    assert document["schema"] == "patchstack.refresh/1"
    assert [one["hunks"] for one in document["patches"]] == [
        [],
        [{"path": "src/kernel.cu", "hunk": 1, "line": 17, "fuzz": 1}],
        [],
    ]


def test_what_does_not_apply_with_fuzz_is_named_and_nothing_is_written(
    fork: Fork, run_cli: RunCli, tmp_path: Path
) -> None:
    fork.pin = fork.upstream.commit("More", {"src/kernel.cu": numbered(300, {19: "moved", 29: "moved"})})
    out = tmp_path / "out"
    ran = refresh(run_cli, fork, out)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: not every patch can be refreshed; nothing was written\n")
    for number in (2, 3):
        assert f"  - 000{number}-Change-{number}-of-a-kernel.patch: src/kernel.cu: hunk 1" in ran.stderr
    assert not out.exists()


def test_a_patch_without_context_is_not_refreshed(fork: Fork, run_cli: RunCli, tmp_path: Path) -> None:
    write_series(fork.series, {"0004-x.patch": edited("src/kernel.cu", "@@ -40,0 +41 @@\n+new\n")})
    ran = refresh(run_cli, fork, tmp_path / "out")
    assert ran.code == 1
    assert "  - 0004-x.patch: src/kernel.cu: @@ -40,0 +41 @@ has no context" in ran.stderr


def test_a_directory_that_is_not_empty_is_refused(fork: Fork, run_cli: RunCli, tmp_path: Path) -> None:
    assert refresh(run_cli, fork, fork.series).code == 2
    assert refresh(run_cli, fork, tmp_path).code == 2


def test_packed_files_mailboxes_and_a_series_file_come_out_plain(
    fork: Fork, run_writing: RunCli, tmp_path: Path
) -> None:
    texts = [path.read_bytes() for path in fork.patches]
    directory = tmp_path / "q"
    write_series(directory / "sub", {"z.patch.gz": gzip.compress(texts[0])})
    write_series(directory, {"a.mbox": texts[1] + texts[2], "series": b"sub/z.patch.gz\na.mbox -p1\n"})
    out = tmp_path / "out"
    assert refresh(run_writing, fork, out, patches=directory).code == 0
    assert (out / "series").read_text() == "sub/z.patch\na-0001.patch\na-0002.patch\n"
    assert (out / "sub/z.patch").read_bytes() == texts[0]


@needs_quilt
@settings(max_examples=tries(15, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["x", "y"])), min_size=1, max_size=4),
    moved=st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["moved", "new\nline", "line 7"])), max_size=4),
)
def test_a_refreshed_copy_gives_the_tree_that_quilt_gives(
    tmp_path_factory: pytest.TempPathFactory,
    run_writing: RunCli,
    changes: list[tuple[int, str]],
    moved: list[tuple[int, str]],
) -> None:
    directory = tmp_path_factory.mktemp("refresh")
    repo = RepoBuilder(directory / "repo")
    base = repo.commit("Base", {"f": numbered(60), "g": "g\n"})
    lines: dict[int, str] = {}
    repo.branch("fork", base)
    for count, (line, text) in enumerate(changes):
        lines[line] = f"{text} {count}"
        repo.commit(f"Change {count}", {"f": numbered(60, lines)})
    patches = directory / "patches"
    format_patch(repo, base, "fork", patches)
    (patches / "series").write_text("".join(f"{path.name}\n" for path in sorted(patches.glob("*.patch"))))
    repo.branch("main", base)
    pin = repo.commit("Moved", {"f": numbered(60, dict(moved)), "g": "moved\n"})
    expected = by_quilt(directory, repo.path, pin, patches)
    sources = ["--patches", str(patches), "--upstream", str(repo.path), "--pin", pin]
    ran = run_writing("refresh", directory / "out", *sources, "--json")
    assert (ran.document["tree"] if ran.code == 0 else None) == expected
    shutil.rmtree(directory)


def test_patches_that_git_itself_applies_are_refreshed_with_the_others(
    fork: Fork, run_writing: RunCli, tmp_path: Path
) -> None:
    plain = fork.patch(1).read_bytes()
    directory = write_series(tmp_path / "s", {path.name: path.read_bytes() for path in fork.patches})
    write_series(directory, {fork.patch(1).name: plain[plain.index(b"\n--- a/") + 1 :]})
    ran = refresh(run_writing, fork, tmp_path / "out", patches=directory)
    assert ran.code == 0, ran.told
    assert ": 1 refreshed, 2 copied; " in ran.stdout


def test_headers_of_other_tools_before_a_diff_go_with_it(fork: Fork, run_writing: RunCli, tmp_path: Path) -> None:
    diff = fork.patch(2).read_bytes().partition(b"\n--- a/src")[2].partition(b"\n-- \n")[0] + b"\n"
    data = b"Why.\n\nIndex: src/kernel.cu\n" + b"=" * 67 + b"\n--- a/src" + diff
    directory = write_series(tmp_path / "svn", {"0001-x.patch": data})
    assert refresh(run_writing, fork, tmp_path / "out", patches=directory).code == 0
    text = (tmp_path / "out/0001-x.patch").read_bytes()
    assert text.startswith(b"Why.\n\ndiff --git a/src/kernel.cu b/src/kernel.cu\n")
