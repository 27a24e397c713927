"""Files that a patch adds to a directory which upstream has renamed: git's merge gives their new paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchstack.git.objects import Objects
from patchstack.upstream.merge.moved_directories import MovedDirectories
from tests.conftest import Patchstack, RunCli
from tests.support.builders import Changes, Content, RepoBuilder, numbered, run_git
from tests.support.moving import look, moved
from tests.support.syncing import moved as a_sync

SUGGESTED = re.compile(r"suggesting it should perhaps be moved to (.*)\.$", re.MULTILINE)


def of(*paths: str) -> dict[str, Content]:
    """Return files with different contents."""
    return {path: numbered(40, {9: path.rpartition("/")[2]}) for path in paths}


def gone(*paths: str) -> Changes:
    return dict.fromkeys(paths)


A = ("src/a/one.c", "src/a/two.c", "src/a/deep/three.c", "keep.c")
CASES: dict[str, tuple[Changes, str, str | None]] = {
    "all of it moved": (
        {**gone(*A[:3]), **of("src/b/one.c", "src/b/two.c", "src/b/deep/three.c")},
        "src/a/new.c",
        "src/b/new.c",
    ),
    "below a directory of its own": (
        {**gone(*A[:3]), **of("src/b/one.c", "src/b/two.c", "src/b/deep/three.c")},
        "src/a/mine/new.c",
        None,
    ),
    "a directory in it moved": ({**gone(A[2]), **of("src/c/three.c")}, "src/a/deep/new.c", "src/c/new.c"),
    "its parent moved": (
        {**gone(*A[:3]), **of("lib/a/one.c", "lib/a/two.c", "lib/a/deep/three.c")},
        "src/a/deep/new.c",
        "lib/a/deep/new.c",
    ),
    "beside the directory that moved": (
        {**gone(*A[:3]), **of("lib/a/one.c", "lib/a/two.c", "lib/a/deep/three.c")},
        "src/new.c",
        "lib/new.c",
    ),
    "some of it stayed": ({**gone(A[0]), **of("src/b/one.c")}, "src/a/new.c", None),
    "split in two halves": ({**gone(*A[:2]), **gone(A[2]), **of("x/one.c", "y/two.c")}, "src/a/new.c", None),
    "most of it went one way": (
        {**gone(*A[:3]), **of("x/one.c", "x/two.c", "y/three.c")},
        "src/a/new.c",
        "x/new.c",
    ),
    "just gone": (gone(*A[:3]), "src/a/new.c", None),
    "into the root": ({**gone(*A[:3]), **of("one.c", "two.c", "deep/three.c")}, "src/a/new.c", "new.c"),
    "moved and changed": (
        {**gone(*A[:3]), "src/b/one.c": numbered(40, {9: "one.c", 20: "x"}), "src/b/two.c": numbered(40, {9: "q"})},
        "src/a/new.c",
        "src/b/new.c",
    ),
    "nothing moved": ({"keep.c": "changed\n"}, "src/a/new.c", None),
    "a new directory of the patch's": ({**gone(A[0]), **of("src/b/one.c")}, "mine/new.c", None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_belongs_where_git_suggests(name: str, tmp_path: Path) -> None:
    upstream, path, expected = CASES[name]
    repo = RepoBuilder(tmp_path / "repo")
    base = repo.commit("Base", of(*A))
    patch = repo.commit("Patch", {path: "new\n"})
    repo.branch("theirs", base)
    onto = repo.commit("Upstream", upstream)
    work = tmp_path / "work"
    run_git("worktree", "add", "-q", "--detach", work, onto, cwd=repo.path)
    picked = run_git("-c", "merge.directoryRenames=conflict", "cherry-pick", patch, cwd=work, check=False)
    told = SUGGESTED.search(picked.stdout.decode())
    assert (told.group(1) if told else None) == expected, picked.stdout
    objects = Objects()
    objects.add_directory(Path(repo.repo.path) / "objects", "repo")
    found = MovedDirectories(objects, repo.tree(base), repo.tree(onto)).suggested(path.encode())
    assert (found.decode() if found is not None else None) == expected


def test_where_something_stands_already_nothing_is_suggested(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    base = repo.commit("Base", of(*A))
    onto = repo.commit("Upstream", {**gone(*A[:3]), **of("src/b/one.c", "src/b/two.c", "src/b/new.c")})
    objects = Objects()
    objects.add_directory(Path(repo.repo.path) / "objects", "repo")
    assert MovedDirectories(objects, repo.tree(base), repo.tree(onto)).suggested(b"src/a/new.c") is None


FILES = {**of("gpu/one.cu", "gpu/two.cu"), "main.c": numbered(40)}
MOVE: Changes = {**gone("gpu/one.cu", "gpu/two.cu"), **of("cuda/one.cu", "cuda/two.cu")}


def test_canary_says_where_an_added_file_belongs(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (
        ("Add a kernel", {"gpu/mine.cu": "mine\n"}),
        ("Add another and change one", {"gpu/more.cu": "more\n", "gpu/one.cu": numbered(40, {9: "one.cu", 20: "x"})}),
        ("Change our own", {"gpu/mine.cu": "mine, changed\n"}),
    )
    fork = moved(tmp_path, steps, ("Move the kernels (#8)", MOVE), files=FILES)
    first, second, third = look(fork, run_cli)["patches"]
    assert (first["state"], first["strict"]) == ("clean", "clean")
    assert first["problems"] == ["gpu/mine.cu belongs at cuda/mine.cu now: its directory was renamed"]
    assert first["renamed"] == [{"from": "gpu/mine.cu", "to": "cuda/mine.cu"}]
    assert second["state"] == "renamed-source"
    assert second["renamed"] == [
        {"from": "gpu/one.cu", "to": "cuda/one.cu"},
        {"from": "gpu/more.cu", "to": "cuda/more.cu"},
    ]
    assert "gpu/more.cu belongs at cuda/more.cu now" in second["detail"]
    assert third["renamed"] == []


def test_sync_puts_an_added_file_where_it_belongs_and_asks(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (("Add a file", {"src/mine.cu": "mine\n" * 9}), ("Change it", {"src/mine.cu": "mine\n" * 8 + "changed\n"}))
    found = a_sync(tmp_path, patchstack, steps=steps)
    upstream = found.fork.upstream
    listed = upstream.git("ls-tree", "-r", "--name-only", "main", "src").split()
    texts = {path: upstream.git("show", f"main:{path}") + "\n" for path in listed}
    moves: Changes = {path.replace("src/", "lib/"): text for path, text in texts.items()}
    found.upstream("Move it all (#9)", {**gone(*listed), **moves})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 1
    told = capsys.readouterr().out
    assert "lib/mine.cu: the patch creates it as src/mine.cu, whose directory upstream renamed: git add it here" in told
    run_git("add", "lib/mine.cu", cwd=found.work)
    assert patchstack("sync", "--continue") == 0
    assert found.git("show", "HEAD:lib/mine.cu").splitlines()[-1] == "changed"
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
