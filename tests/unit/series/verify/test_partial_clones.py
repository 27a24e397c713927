"""Clones that lack objects: untouched files must not matter, touched ones are fetched or named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Places, RunCli
from tests.support.builders import Fork, a_fork, edited, new_link, numbered, run_git


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


@pytest.fixture
def partial(fork: Fork) -> Path:
    """Return a clone of the upstream without blobs."""
    fork.upstream.git("config", "uploadpack.allowFilter", "true")
    fork.upstream.git("config", "uploadpack.allowAnySHA1InWant", "true")
    target = fork.series.parent / "partial"
    run_git(
        *("clone", "-q", "--template=", "--no-checkout", "--filter=blob:none"),
        *(f"file://{fork.upstream.path}", target),
        cwd=fork.series.parent,
    )
    assert missing_in(target, fork.upstream.blob(fork.pin, "src/kernel.cu"))
    return target


def missing_in(repository: Path, oid: str) -> bool:
    return run_git("cat-file", "-e", oid, cwd=repository, check=False, GIT_ALLOW_PROTOCOL="none").returncode != 0


def options(fork: Fork, upstream: Path) -> list[str]:
    return ["--patches", str(fork.series), "--upstream", str(upstream), "--pin", fork.pin]


def cached(places: Places, oid: str) -> bool:
    stores = list((places.cache / "repositories").glob("*.git"))
    return any(
        subprocess.run(
            ["git", "-c", "extensions.partialClone=", "-C", store, "cat-file", "-e", oid],
            env={"PATH": "/usr/bin:/bin", "GIT_ALLOW_PROTOCOL": "none"},
            capture_output=True,
        ).returncode
        == 0
        for store in stores
    )


def test_missing_contents_are_fetched_into_the_cache_and_never_into_the_clone(
    fork: Fork, partial: Path, run_cli: RunCli, places: Places
) -> None:
    touched, other = (fork.upstream.blob(fork.pin, path) for path in ("src/kernel.cu", "big/untouched.gguf"))
    ran = run_cli("verify", *options(fork, partial), "--expect-tree", fork.trees[-1], "--json")
    assert (ran.code, ran.stderr) == (0, "")
    assert [patch["tree"] for patch in ran.document["patches"]] == fork.trees
    assert missing_in(partial, touched)
    assert cached(places, touched)
    assert not cached(places, other)


def test_what_was_fetched_once_serves_offline(fork: Fork, partial: Path, run_cli: RunCli) -> None:
    assert run_cli("verify", *options(fork, partial), "--expect-tree", fork.trees[-1]).code == 0
    ran = run_cli("verify", *options(fork, partial), "--expect-tree", fork.trees[-1], "--offline")
    assert (ran.code, ran.stderr) == (0, "")


def test_offline_a_missing_content_is_named_with_patch_and_file(
    fork: Fork, partial: Path, run_cli: RunCli, places: Places
) -> None:
    blob = fork.upstream.blob(fork.pin, "src/kernel.cu")
    ran = run_cli("verify", *options(fork, partial), "--expect-tree", fork.trees[-1], "--offline")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(
        f"error: {fork.patch(1).name}: blob of src/kernel.cu {blob} is not in {partial}\n\nhint: "
    )
    assert "--offline" in ran.stderr
    assert not places.cache.exists()


def test_a_partial_clone_whose_remote_is_gone_names_patch_file_and_what_to_do(
    fork: Fork, partial: Path, run_cli: RunCli
) -> None:
    fork.upstream.path.rename(fork.upstream.path.with_name("moved"))
    ran = run_cli("verify", *options(fork, partial), "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert fork.patch(1).name in ran.stderr
    assert "src/kernel.cu" in ran.stderr
    assert "hint: " in ran.stderr


def test_a_partial_fork_serves_as_well(fork: Fork, partial: Path, run_cli: RunCli) -> None:
    """The fork's trees exist; its blobs are needed only to explain drift."""
    fork.repo.git("config", "uploadpack.allowFilter", "true")
    clone = fork.series.parent / "partial-fork"
    run_git(
        *("clone", "-q", "--template=", "--no-checkout", "--filter=blob:none", "-b", "product"),
        *(f"file://{fork.repo.path}", clone),
        cwd=fork.series.parent,
    )
    named = [*options(fork, partial), "--fork", str(clone), "--fork-ref", "product"]
    assert run_cli("verify", *named).code == 0
    fork.edit_patch(2, "+changed by commit 2", "+changed by hand")
    ran = run_cli("verify", *named)
    assert ran.code == 1
    assert "+changed by commit 2\n" in ran.told


def test_patches_that_git_itself_must_judge_get_their_contents_too(fork: Fork, partial: Path, run_cli: RunCli) -> None:
    copied = fork.upstream.blob(fork.pin, "docs/notes.txt")
    (fork.series / "0004-copy.patch").write_text(
        "diff --git a/docs/notes.txt b/docs/copy.txt\nsimilarity index 100%\n"
        "copy from docs/notes.txt\ncopy to docs/copy.txt\n"
    )
    edit = edited("docs/notes.txt", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    (fork.series / "0005-link.patch").write_bytes(new_link("link", "a") + edit)
    assert missing_in(partial, copied)
    ran = run_cli("verify", *options(fork, partial), "--apply-only", "--json")
    assert (ran.code, [patch["state"] for patch in ran.document["patches"]]) == (0, ["ok"] * 5)
    assert missing_in(partial, copied)


def test_deleted_contents_that_no_patch_touches_do_not_matter(fork: Fork, run_cli: RunCli) -> None:
    for repo in (fork.upstream, fork.repo):
        for path in ("big/untouched.gguf", "src/other.cpp"):
            repo.loose(repo.blob(fork.pin, path)).unlink(missing_ok=True)
    ran = run_cli("verify", *fork.options, "--json")
    assert (ran.code, ran.stderr) == (0, "")
    assert [patch["tree"] for patch in ran.document["patches"]] == fork.trees


def test_deleted_contents_that_no_patch_touches_do_not_matter_to_git_either(fork: Fork, run_cli: RunCli) -> None:
    """The same, with a patch that git itself must judge."""
    fork.commits.append(fork.repo.commit("Binary", {"table.bin": b"\0\1\2\3" * 9}))
    fork.export()
    for repo in (fork.upstream, fork.repo):
        repo.loose(repo.blob(fork.pin, "big/untouched.gguf")).unlink(missing_ok=True)
    # git updates the times of existing objects. The fork has this one, but the upstream does not.
    ran = run_cli("verify", *fork.sources, "--expect-tree", fork.trees[-1], "--json")
    assert (ran.code, ran.stderr) == (0, "")


@pytest.mark.parametrize("offline", [[], ["--offline"]])
def test_a_deleted_content_that_a_patch_touches_is_named_with_patch_and_file(
    fork: Fork, run_cli: RunCli, offline: list[str]
) -> None:
    fork.commits.append(fork.repo.commit("Change 4", {"src/other.cpp": numbered(40, {5: "five"})}))
    fork.export()
    blob = fork.upstream.blob(fork.pin, "src/other.cpp")
    fork.upstream.loose(blob).unlink()
    ran = run_cli("verify", *fork.sources, "--expect-tree", fork.trees[-1], *offline)
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(
        f"error: {fork.patch(4).name}: blob of src/other.cpp {blob} is not in {fork.upstream.path}\n\nhint: "
    )


@pytest.mark.parametrize("offline", [[], ["--offline"]])
def test_a_deleted_content_is_named_where_git_itself_must_judge_the_patch(
    fork: Fork, run_cli: RunCli, offline: list[str]
) -> None:
    (fork.series / "0004-copy.patch").write_text(
        "diff --git a/docs/notes.txt b/docs/copy.txt\nsimilarity index 50%\ncopy from docs/notes.txt\n"
        "copy to docs/copy.txt\n--- a/docs/notes.txt\n+++ b/docs/copy.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )
    blob = fork.upstream.blob(fork.pin, "docs/notes.txt")
    fork.upstream.loose(blob).unlink()
    ran = run_cli("verify", *fork.sources, "--apply-only", *offline)
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: 0004-copy.patch: blob of docs/notes.txt {blob} is not in ")


def test_a_damaged_content_is_told_with_what_to_run(fork: Fork, run_cli: RunCli) -> None:
    damaged = fork.upstream.loose(fork.upstream.blob(fork.pin, "src/kernel.cu"))
    damaged.chmod(0o644)
    damaged.write_bytes(b"not an object")
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert "cannot be read" in ran.stderr
    assert ran.stderr.endswith("hint: run git fsck there\n")


def test_a_missing_tree_of_the_pin_is_missing(fork: Fork, run_cli: RunCli) -> None:
    tree = fork.upstream.git("rev-parse", f"{fork.pin}:src")
    fork.upstream.loose(tree).unlink()
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert tree in ran.stderr


def test_a_missing_tree_of_the_fork_matters_only_where_it_is_compared(fork: Fork, run_cli: RunCli) -> None:
    for commit in fork.commits:
        fork.repo.loose(fork.repo.tree(commit)).unlink()
    assert run_cli("verify", *fork.options).code == 0
