"""The decisions of a bisection, by table, and trees in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import EXECUTABLE, FILE, SUBMODULE, SYMLINK, TreeOverlay
from patchstack.workflow.bisect.bisect import Ending, PointState, SearchResult, comes_and_goes, next_point
from patchstack.workflow.bisect.checkout_tree import TreeDirectory


def search(count: int, answer: Callable[[int], PointState]) -> tuple[SearchResult, dict[int, PointState]]:
    said: dict[int, PointState] = {}
    while isinstance(step := next_point(0, count - 1, said), int):
        assert step not in said, "nothing is tried twice"
        said[step] = answer(step)
    return step, said


def bad_from(first: int) -> Callable[[int], PointState]:
    return lambda point: PointState.BAD if point >= first else PointState.GOOD


@pytest.mark.parametrize("count", [2, 3, 4, 7, 55, 282])
def test_the_first_bad_one_is_found_wherever_it_is_in_a_binary_search(count: int) -> None:
    for first in range(1, count):
        found, said = search(count, bad_from(first))
        assert (found.ending, found.candidates) == (Ending.FIRST_BAD, (first,))
        assert len(said) <= 2 + count.bit_length()
        assert comes_and_goes(said) is None


def test_skipped_points_are_gone_round() -> None:
    found, said = search(
        16, lambda point: PointState.SKIP if point in (7, 8) else PointState.BAD if point >= 11 else PointState.GOOD
    )
    assert (found.ending, found.candidates) == (Ending.FIRST_BAD, (11,))
    assert said[7] is PointState.SKIP


def test_with_all_between_skipped_every_one_of_them_may_be_it() -> None:
    found, said = search(
        16, lambda point: PointState.SKIP if 5 <= point <= 8 else PointState.BAD if point >= 9 else PointState.GOOD
    )
    assert (found.ending, found.candidates) == (Ending.BETWEEN_SKIPS, (5, 6, 7, 8, 9))
    assert {said[point] for point in range(5, 9)} == {PointState.SKIP}, "each of them was tried"


@pytest.mark.parametrize(
    ("ends", "ending"),
    [
        ((PointState.GOOD, PointState.GOOD), Ending.ALL_GOOD),
        ((PointState.BAD, PointState.BAD), Ending.ALL_BAD),
        ((PointState.SKIP, PointState.BAD), Ending.END_SKIPPED),
        ((PointState.GOOD, PointState.SKIP), Ending.END_SKIPPED),
    ],
)
def test_ends_that_are_not_good_and_bad_end_the_search_at_once(
    ends: tuple[PointState, PointState], ending: Ending
) -> None:
    found, said = search(9, lambda point: ends[point > 0])
    assert found.ending is ending
    assert len(said) <= 2


def test_bad_with_good_behind_it_is_noticed() -> None:
    # 0 good, 1 to 3 bad, 4 to 5 good, 6 to 8 bad: either place may be found, but that there are two is always reported.
    answer = {4: PointState.GOOD, 8: PointState.BAD, 0: PointState.GOOD, 6: PointState.BAD, 5: PointState.GOOD}
    assert comes_and_goes(answer) is None
    assert comes_and_goes({**answer, 2: PointState.BAD}) == (2, 5)


def tree(objects: Objects, files: dict[str, tuple[int, str]]) -> str:
    overlay = TreeOverlay(objects, EMPTY_TREE)
    for path, (mode, text) in files.items():
        overlay.put(path.encode(), mode, text if mode == SUBMODULE else objects.add("blob", text.encode()))
    return overlay.write()


@pytest.fixture
def directory(tmp_path: Path) -> TreeDirectory:
    (tmp_path / "tree").mkdir()
    return TreeDirectory(tmp_path / "tree", Objects())


def files(directory: TreeDirectory) -> dict[str, str]:
    root = directory.root
    paths = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_text() for path in paths}


def objects_of(directory: TreeDirectory) -> Objects:
    return directory._objects


def test_a_directory_holds_one_tree_after_the_other(directory: TreeDirectory) -> None:
    objects = objects_of(directory)
    one = {
        "a/b/c.txt": (FILE, "c"),
        "run.sh": (EXECUTABLE, "#!/bin/sh\n"),
        "link": (SYMLINK, "a/b"),
        "sub": (SUBMODULE, "1" * 40),
        "same": (FILE, "same"),
    }
    directory.move(tree(objects, one))
    assert files(directory) == {"a/b/c.txt": "c", "run.sh": "#!/bin/sh\n", "link": "a/b", "same": "same"}
    assert os.access(directory.root / "run.sh", os.X_OK) and (directory.root / "sub").is_dir()
    (directory.root / "built.o").write_text("made by the command")
    before = (directory.root / "same").stat().st_mtime_ns
    # A file becomes a directory, a directory a file, a link a directory.
    two = {"a": (FILE, "a"), "run.sh/x": (FILE, "x"), "link/y": (FILE, "y"), "same": (FILE, "same")}
    assert directory.move(tree(objects, two)) == 0
    assert files(directory) == {
        "a": "a",
        "run.sh/x": "x",
        "link/y": "y",
        "same": "same",
        "built.o": "made by the command",
    }
    assert (directory.root / "same").stat().st_mtime_ns == before, "what is the same is not written again"
    assert not (directory.root / "link").is_symlink()


def test_what_a_command_did_to_the_trees_own_files_is_put_back(directory: TreeDirectory) -> None:
    objects = objects_of(directory)
    one = tree(objects, {"a": (FILE, "a"), "b": (FILE, "b"), "c": (FILE, "c"), "d/e": (FILE, "e")})
    directory.move(one)
    (directory.root / "a").write_text("spoilt")
    (directory.root / "b").unlink()
    (directory.root / "c").chmod(0o755)
    assert (
        directory.move(tree(objects, {"a": (FILE, "a"), "b": (FILE, "b"), "c": (FILE, "c2"), "d/e": (FILE, "e")})) == 3
    )
    assert files(directory) == {"a": "a", "b": "b", "c": "c2", "d/e": "e"}


def test_nothing_is_written_through_a_link_that_a_command_made(directory: TreeDirectory, tmp_path: Path) -> None:
    objects = objects_of(directory)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not ours")
    directory.move(tree(objects, {"d/x": (FILE, "1")}))
    (directory.root / "d" / "x").unlink()
    (directory.root / "d").rmdir()
    (directory.root / "d").symlink_to(outside)
    directory.move(tree(objects, {"d/x": (FILE, "2"), "d/y": (FILE, "y")}))
    assert files(directory) == {"d/x": "2", "d/y": "y"}
    assert sorted(path.name for path in outside.iterdir()) == ["x"] and (outside / "x").read_text() == "not ours"


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT"])
def test_a_tree_that_would_leave_the_directory_is_refused(directory: TreeDirectory, name: str) -> None:
    objects = objects_of(directory)
    blob = objects.add("blob", b"x")
    inner = objects.add("tree", b"100644 x\0" + bytes.fromhex(blob))
    outer = objects.add("tree", f"40000 {name}\0".encode() + bytes.fromhex(inner))
    with pytest.raises(UsageError) as caught:
        directory.move(outer)
    assert f"the tree contains the unsafe path '{name}/x'" in caught.value.message
    assert files(directory) == {}


def test_a_file_without_content_is_left_out_and_named(directory: TreeDirectory) -> None:
    overlay = TreeOverlay(objects_of(directory), EMPTY_TREE)
    overlay.put(b"big.gguf", FILE, "9" * 40)
    overlay.put(b"a", FILE, objects_of(directory).add("blob", b"a"))
    directory.move(overlay.write())
    assert files(directory) == {"a": "a"}
    assert directory.absent == {b"big.gguf"}
