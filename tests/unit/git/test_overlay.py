"""Edits of a tree in memory against git's own index: the same tree ids for all edits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.git.objects import EMPTY_TREE, MissingObject, Objects
from patchstack.git.overlay import EXECUTABLE, FILE, SYMLINK, TreeOverlay
from tests.support.oracle import hermetic_environment

# Names whose order depends on the slash that git sorts directories with, and on bytes above ASCII.
NAMES = ["a", "a.b", "a-b", "a0", "ab", "a b", "A", "b", "é", "a/", "a\x7f"]
PARTS = [name for name in NAMES if "/" not in name]
paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)
modes = st.sampled_from([FILE, FILE, FILE, EXECUTABLE, SYMLINK])
edits = st.lists(st.tuples(paths, st.one_of(st.none(), st.tuples(modes, st.integers(0, 3)))), max_size=12)

Files = dict[str, tuple[int, str]]


class Store:
    """A repository that makes trees with git's index, one process for each tree."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="patchstack-overlay-"))
        self.git_dir = self.directory / "repo.git"
        self._environment = hermetic_environment(
            GIT_DIR=str(self.git_dir), GIT_INDEX_FILE=str(self.directory / "index")
        )
        self._git("init", "-q", "--bare")
        self.blobs = [self._git("hash-object", "-w", "--stdin", stdin=b"%d\n" % number) for number in range(4)]

    def _git(self, *args: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", *args], input=stdin, env=self._environment, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def tree(self, files: Files) -> str:
        """Return the tree of these files, from `git update-index` and `git write-tree`."""
        (self.directory / "index").unlink(missing_ok=True)
        lines = b"".join(
            b"%o %s\t%s\0" % (mode, oid.encode(), os.fsencode(path)) for path, (mode, oid) in files.items()
        )
        self._git("update-index", "-z", "--index-info", stdin=lines)
        return self._git("write-tree")

    def objects(self) -> Objects:
        objects = Objects()
        objects.add_directory(self.git_dir / "objects", "the store")
        return objects


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store()
    yield store
    shutil.rmtree(store.directory)


def blocked(files: Files, path: str) -> bool:
    """Return whether a file is impossible at a path: a parent is a file, or the path is a directory."""
    return any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in files)


def carried_out(store: Store, overlay: TreeOverlay, files: Files, path: str, put: tuple[int, int] | None) -> None:
    """Apply one edit to the overlay and to the plain list of files."""
    if put is None:
        if path in files:
            overlay.remove(path.encode())
            del files[path]
    elif not blocked(files, path):
        entry = (put[0], store.blobs[put[1]])
        overlay.put(path.encode(), *entry)
        files[path] = entry


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(begin=edits, changes=st.lists(edits, min_size=1, max_size=2))
def test_any_puts_and_removes_give_the_tree_that_git_gives(
    store: Store,
    begin: list[tuple[str, tuple[int, int] | None]],
    changes: list[list[tuple[str, tuple[int, int] | None]]],
) -> None:
    files: Files = {}
    for path, put in begin:
        if put is not None and not blocked(files, path):
            files[path] = (put[0], store.blobs[put[1]])
    base = store.tree(files)
    objects = store.objects()
    overlay = TreeOverlay(objects, base)
    for batch in changes:
        for path, put in batch:
            carried_out(store, overlay, files, path, put)
        # Also write in the middle: an overlay must continue from a written state.
        tree = overlay.write()
        assert tree == store.tree(files)
        assert dict(overlay.files()) == {path.encode(): entry for path, entry in files.items()}
        assert dict(TreeOverlay(objects, tree).files()) == dict(overlay.files())
    for path in files:
        assert overlay.entry(path.encode()) == files[path]
        assert overlay.obstacle(f"{path}/below".encode()) == (path.encode(), files[path])
        assert overlay.obstacle(path.encode()) is None


def test_names_sort_as_git_sorts_them_with_a_slash_behind_directories(store: Store) -> None:
    overlay = TreeOverlay(store.objects(), EMPTY_TREE)
    files: Files = {}
    for path in ("a/b", "a.b", "a-b", "a0", "ab", "b/c/d", "b.c", "b0"):
        carried_out(store, overlay, files, path, (FILE, 1))
    assert overlay.write() == store.tree(files)


def test_an_overlay_without_edits_is_the_tree_itself_and_makes_no_objects(store: Store) -> None:
    tree = store.tree({"a/b": (FILE, store.blobs[0])})
    objects = store.objects()
    assert TreeOverlay(objects, tree).write() == tree
    assert not list(objects.made)


def test_removing_the_last_file_removes_its_directories_too(store: Store) -> None:
    kept: Files = {"x": (FILE, store.blobs[0])}
    overlay = TreeOverlay(store.objects(), store.tree({**kept, "a/b/c": (FILE, store.blobs[1])}))
    overlay.remove(b"a/b/c")
    assert overlay.write() == store.tree(kept)
    assert overlay.entry(b"a") is None
    overlay.remove(b"x")
    assert overlay.write() == EMPTY_TREE


def test_a_file_may_take_the_place_of_a_directory_that_went_and_back(store: Store) -> None:
    overlay = TreeOverlay(store.objects(), store.tree({"a/b": (FILE, store.blobs[0])}))
    overlay.remove(b"a/b")
    overlay.put(b"a", FILE, store.blobs[1])
    assert overlay.write() == store.tree({"a": (FILE, store.blobs[1])})
    overlay.remove(b"a")
    overlay.put(b"a/b/c", EXECUTABLE, store.blobs[2])
    assert overlay.write() == store.tree({"a/b/c": (EXECUTABLE, store.blobs[2])})


def test_git_mktree_agrees_about_a_flat_tree(store: Store) -> None:
    overlay = TreeOverlay(store.objects(), EMPTY_TREE)
    lines = b""
    for name in ("z", "a.b", "a", "A", "é"):
        overlay.put(name.encode(), FILE, store.blobs[0])
        lines += f"100644 blob {store.blobs[0]}\t{name}".encode() + b"\0"
    assert overlay.write() == store._git("mktree", "-z", stdin=lines)


def test_putting_what_is_there_already_changes_nothing(store: Store) -> None:
    files: Files = {"a/b": (FILE, store.blobs[0]), "c": (SYMLINK, store.blobs[1])}
    tree = store.tree(files)
    overlay = TreeOverlay(store.objects(), tree)
    overlay.put(b"a/b", FILE, store.blobs[0])
    assert overlay.write() == tree


def test_reading_ahead_asks_for_directories_and_files_together_and_changes_nothing(store: Store) -> None:
    files: Files = {
        **{f"{name}/below/{name}": (FILE, store.blobs[number]) for number, name in enumerate("abcd")},
        "link": (SYMLINK, store.blobs[0]),
    }
    tree = store.tree(files)
    named = [path.encode() for path in files]
    odd = [b"a", b"a/below", b"a/below/a/x", b"x/y", b"link/x", b"", b"/", b"a//b", b"a/below/"]
    objects, asked = store.objects(), list[list[str]]()
    overlay, ask = TreeOverlay(objects, tree), objects.read_ahead

    def noted(oids: Iterable[str]) -> None:
        asked.append(list(oids))
        ask(asked[-1])

    objects.read_ahead = noted  # type: ignore[method-assign]
    overlay.read_ahead([*named, *odd])
    assert [len(set(oids)) for oids in asked] == [4, 4, 0, 4]
    assert asked[-1] == store.blobs
    assert overlay.write() == tree
    assert dict(overlay.files()) == {path.encode(): entry for path, entry in files.items()}
    assert [objects.blob(oid) for oid in store.blobs] == [b"0\n", b"1\n", b"2\n", b"3\n"]


def test_a_directory_that_is_missing_is_told_when_it_is_needed_not_when_it_is_read_ahead() -> None:
    objects = Objects()
    tree = objects.add("tree", b"40000 a\0" + b"\1" * 20)
    overlay = TreeOverlay(objects, tree)
    overlay.read_ahead([b"a/b"])
    with pytest.raises(MissingObject, match="01" * 20):
        overlay.entry(b"a/b")
