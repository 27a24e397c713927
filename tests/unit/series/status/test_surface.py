"""The surface of a series, compared with git's counts, and patches shown with context."""

from __future__ import annotations

from pathlib import Path

from patchstack.git.objects import Objects
from patchstack.series.status.surface import measure_surface, readable_diff
from tests.support.builders import Changes, Fork, RepoBuilder, a_fork, executable, mail, numbered, symlink

STEPS: list[tuple[str, Changes]] = [
    ("Edit", {"src/kernel.cu": numbered(300, {10: "ten", 11: "eleven", 200: "two hundred\nand a half"})}),
    ("Own file", {"src/own.h": "one\ntwo\nthree", "src/other.cpp": numbered(40, {3: ""})}),
    ("Mode and link", {"tools/run.sh": "#!/bin/sh\necho run\n", "src/link": symlink("other.cpp")}),
    ("Binary and removal", {"big/untouched.gguf": b"\0\1\2", "docs/notes.txt": None, "own.bin": b"\0own"}),
    ("Put back, and a file that comes", {"src/other.cpp": numbered(40), "src/gone.h": "x\n"}),
    ("and goes", {"src/gone.h": None, "src/kernel.cu": numbered(301, {10: "ten", 11: "eleven"})}),
]


def objects_of(*repositories: RepoBuilder) -> Objects:
    objects = Objects()
    for repository in repositories:
        objects.add_directory(Path(repository.repo.path) / "objects", str(repository.path))
    return objects


def objects(fork: Fork) -> Objects:
    return objects_of(fork.upstream, fork.repo)


def test_the_surface_is_what_git_counts(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=STEPS)
    base = fork.upstream.tree(fork.pin)
    labels = [f"{number:04d}" for number in range(1, 7)]
    surface = measure_surface(objects(fork), base, list(zip(labels, fork.trees, strict=True)))
    by_git = {}
    for line in fork.repo.diff(fork.pin, fork.ref, "--numstat", "--no-renames").decode().splitlines():
        inserted, changed, path = line.split("\t")
        by_git[path] = (inserted, changed)
    ours = {
        file.path: ("-", "-") if file.binary else (str(file.inserted), str(file.changed)) for file in surface.upstream
    }
    ours |= {file.path: ("-", "-") if file.binary else (str(file.lines), "0") for file in surface.own}
    # Changed by two patches and restored: no line of it is ours, but a pin bump must handle it twice.
    assert ours.pop("src/other.cpp") == ("0", "0")
    assert ours == by_git
    whole = fork.repo.diff(fork.pin, fork.ref, "-U0", "--no-renames")
    hunks = whole[whole.index(b"+++ b/src/kernel.cu") :].partition(b"\ndiff --git ")[0].count(b"\n@@ -")
    files = {file.path: file for file in surface.upstream}
    assert files["src/kernel.cu"].hunks == hunks == 2
    assert files["src/kernel.cu"].patches == ("0001", "0006")
    assert files["src/other.cpp"].patches == ("0002", "0005")
    assert files["docs/notes.txt"].removed
    assert [file.path for file in surface.own] == ["own.bin", "src/link", "src/own.h"]
    assert surface.upstream[0].path == "src/kernel.cu"


def test_a_series_without_patches_has_no_surface(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    surface = measure_surface(objects(fork), fork.upstream.tree(fork.pin), [])
    assert (surface.upstream, surface.own, surface.hunks, surface.inserted) == ((), (), 0, 0)


def test_a_patch_with_context_is_shown_as_its_file_has_it(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=STEPS)
    pairs = list(zip([fork.upstream.tree(fork.pin), *fork.trees[:-1]], fork.trees, strict=True))
    data = fork.patch(1).read_bytes()
    diff = data[data.index(b"diff --git") : data.rindex(b"-- \n")].decode()
    shown = readable_diff(objects(fork), data, pairs[0])
    assert shown.diff == diff
    assert readable_diff(objects(fork), data, None) == shown
    assert [(file.path, file.inserted, file.removed) for file in shown.files] == [("src/kernel.cu", 4, 3)]
    ends = readable_diff(objects(fork), fork.patch(2).read_bytes(), pairs[1]).diff
    assert ends.endswith("+three\n\\ No newline at end of file\n")
    other = fork.patch(5).read_bytes()
    assert readable_diff(objects(fork), other, pairs[4]).diff.encode() in other


def test_hunks_without_context_get_three_lines_of_the_tree_before(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=STEPS[:2])
    trees = (fork.upstream.tree(fork.pin), fork.trees[0])
    bare = fork.repo.diff(fork.pin, fork.commits[0], "-U0", "--full-index")
    shown = readable_diff(objects(fork), mail("Edit", bare), trees)
    full = fork.repo.diff(fork.pin, fork.commits[0], "-U3", "--full-index")
    body = [line for line in shown.diff.splitlines() if not line.startswith("@@ ")]
    assert body == [line for line in full.decode().splitlines() if not line.startswith("@@ ")]
    assert (shown.files[0].inserted, shown.files[0].removed) == (4, 3)
    # Not applied: without a tree, the text of the file is shown.
    assert readable_diff(objects(fork), mail("Edit", bare), None).diff == bare.decode()


def test_a_last_line_without_newline_is_drawn_as_git_draws_it(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    one = repo.commit("One", {"a": "a\nb\nc\nd\ne"})
    two = repo.commit("Two", {"a": "a\nb\nc\nd\ne\nf"})
    shown = readable_diff(objects_of(repo), repo.diff(one, two, "-U0"), (repo.tree(one), repo.tree(two)))
    assert shown.diff.splitlines()[5:] == repo.diff(one, two).decode().splitlines()[5:]


def test_what_only_git_can_read_is_drawn_from_the_trees(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=STEPS)
    data = fork.repo.diff(fork.commits[2], fork.commits[3], "--binary")
    shown = readable_diff(objects(fork), data, (fork.trees[2], fork.trees[3]))
    assert "Binary files a/big/untouched.gguf and b/big/untouched.gguf differ" in shown.diff
    assert "deleted file mode 100644\n--- a/docs/notes.txt\n+++ /dev/null\n" in shown.diff
    assert {(file.path, file.binary) for file in shown.files} == {
        *(("big/untouched.gguf", True), ("docs/notes.txt", False), ("own.bin", True))
    }
    assert readable_diff(objects(fork), mail("Binary", data), None).diff.startswith("diff --git a/big/untouched.gguf")


def test_modes_and_renames_are_told(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    one = repo.commit("One", {"a": "a\n", "b": numbered(20)})
    two = repo.commit("Two", {"a": executable("a\n"), "b": None, "c": numbered(20)})
    shown = readable_diff(objects_of(repo), mail("Two", repo.diff(one, two, "-M")), (repo.tree(one), repo.tree(two)))
    assert shown.diff == repo.diff(one, two, "-M").decode()
    assert [(file.path, file.was) for file in shown.files] == [("a", None), ("c", "b")]
