"""Applying to files on disk gives the same result as applying to the tree, over the same mutated patches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchstack.errors import NotHeldError, UsageError
from patchstack.git.apply import Applier
from patchstack.git.objects import Objects
from patchstack.series.files.directory import PatchFile, Series
from patchstack.series.mirror.apply_to_directory import materialize
from tests.fuzz.strategies import DIFF_OPTIONS, Files, changed_trees, clear_of_conflicts, damaged, trees
from tests.fuzz.test_apply_against_git import Bench


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    shutil.rmtree(bench.directory)


def write(root: Path, files: Files) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, (mode, content) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == 0o120000:
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(mode & 0o777)


def read(root: Path) -> Files:
    files: Files = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            files[name] = (0o120000, os.fsencode(path.readlink()))
        elif path.is_file():
            files[name] = (0o100755 if path.stat().st_mode & 0o100 else 0o100644, path.read_bytes())
    return files


@settings(parent=settings.get_profile("fuzz"), max_examples=int(os.environ.get("PATCHSTACK_FUZZ_EXAMPLES", "200")) // 2)
@given(data=st.data())
def test_a_directory_ends_as_the_tree_does(bench: Bench, data: st.DataObject) -> None:
    base = clear_of_conflicts(data.draw(trees))
    target = data.draw(changed_trees(base))
    patch = bench.diff(bench.tree(base), bench.tree(target), data.draw(st.sampled_from(DIFF_OPTIONS)))
    patch = data.draw(damaged(patch))
    objects = Objects()
    objects.add_directory(bench.store, "fuzz")
    with Applier(objects, bench.tree(base)) as applier:
        expected = applier.apply(patch)
    root = bench.directory / "files"
    write(root, base)
    series = Series(
        name="fuzz",
        directory=bench.directory,
        patches=(PatchFile(file="0001-x.patch", number=1, subject="x", commit=None, data=patch),),
    )
    try:
        materialize(series, root, strip=1)
    except NotHeldError:
        # A binary diff without data can only name a blob, which a repository may have, but a directory does not.
        assert expected.tree is None or b"\nBinary files " in patch, (expected, patch)
        assert read(root) == base
    except UsageError as error:
        # Entries that a tree can have and a disk cannot.
        assert "submodule" in error.message or "link with an invalid target" in error.message, (error, patch)
        assert read(root) == base
    else:
        assert bench.tree(read(root)) == expected.tree, (expected, patch)
