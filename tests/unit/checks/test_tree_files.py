"""The selected files of a tree: the same as by comparing each file with each glob."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.checks.tree_files import Selection, TreeFiles
from patchstack.series.lint.globs import matching
from tests.support.builders import symlink
from tests.support.checking import Ground

FILES = ["a.cpp", "src/a.cpp", "src/b.h", "src/deep/er/a.cpp", "tools/x.py", "src-old/a.cpp"]


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["**"], sorted(FILES)),
        (["*.cpp"], ["a.cpp", "src-old/a.cpp", "src/a.cpp", "src/deep/er/a.cpp"]),
        (["src/*.cpp"], ["src/a.cpp"]),
        (["src/**"], ["src/a.cpp", "src/b.h", "src/deep/er/a.cpp"]),
        (["src/"], ["src/a.cpp", "src/b.h", "src/deep/er/a.cpp"]),
        (["src/b.h", "tools/x.py"], ["src/b.h", "tools/x.py"]),
        (["/a.cpp"], ["a.cpp"]),
        (["nothing/**"], []),
    ],
)
def test_globs_select_files_wherever_they_are(tmp_path: Path, globs: list[str], expected: list[str]) -> None:
    ground = Ground(tmp_path, {**dict.fromkeys(FILES, "x\n"), "src/link.cpp": symlink("a.cpp")})
    found = TreeFiles(ground.objects).select(ground.repo.tree("HEAD"), Selection(globs=globs))
    assert sorted(file.path for file in found) == expected


GLOB = st.text(alphabet="ab/*?.", min_size=1, max_size=8)
PATH = st.lists(st.text(alphabet="ab.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@given(st.lists(GLOB, min_size=1, max_size=3), PATH)
def test_no_directory_is_left_out_that_holds_a_file_which_is_meant(globs: list[str], path: str) -> None:
    selection = Selection(globs=globs)
    assert selection.matches(path) == (matching(path, globs) is not None)
    if selection.matches(path):
        parts = path.split("/")
        assert all(selection.may_hold("/".join(parts[:depth])) for depth in range(1, len(parts)))


def test_paths_select_themselves_and_no_pattern(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"src/a[1].cpp": "x\n", "src/a1.cpp": "x\n"})
    found = TreeFiles(ground.objects).select(ground.repo.tree("HEAD"), Selection(paths=["src/a[1].cpp"]))
    assert [file.path for file in found] == ["src/a[1].cpp"]
