"""A real series over a real llama.cpp clone, with git as the judge of every prefix tree.

Set PATCHSTACK_LLAMA_REPO to a clone (bare, partial, missing untouched blobs: all fine) and PATCHSTACK_LLAMA_SERIES to a
directory of patches; PATCHSTACK_LLAMA_PIN defaults to the pin below.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchstack.git.transport import Cache
from patchstack.series.proof import prove
from patchstack.workspace import SeriesConfig
from tests.builders import snapshot
from tests.oracle import Oracle

REPO = os.environ.get("PATCHSTACK_LLAMA_REPO")
SERIES = os.environ.get("PATCHSTACK_LLAMA_SERIES")
PIN = os.environ.get("PATCHSTACK_LLAMA_PIN", "0ed235ea2c17a19fc8238668653946721ed136fd")


@pytest.mark.skipif(not (REPO and SERIES), reason="needs PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES")
def test_every_prefix_tree_is_git_s(tmp_path: Path) -> None:
    assert REPO and SERIES
    config = SeriesConfig(
        name="real", patches=Path(SERIES), upstream=REPO, pin=PIN, fork=None, fork_ref=None, expect="lock"
    )
    before = snapshot(Path(SERIES))
    result = prove(config, Cache(lambda: tmp_path / "cache", offline=True), apply_only=True, keep_going=True)
    assert snapshot(Path(SERIES)) == before
    objects = next(path for path in (Path(REPO) / "objects", Path(REPO) / ".git" / "objects") if path.is_dir())
    oracle = Oracle(tmp_path, objects)
    tree = result.base_tree
    for row in result.rows:
        expected = oracle.apply(tree, (Path(SERIES) / str(row.file)).read_bytes())
        assert row.tree == expected, row
        tree = expected or tree
    assert result.applied_tree == tree
