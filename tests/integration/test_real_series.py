"""A real series over a real llama.cpp clone, with git as the judge of every prefix tree.

Set PATCHSTACK_LLAMA_REPO to a clone (bare, partial, missing untouched blobs: all fine) and PATCHSTACK_LLAMA_SERIES to a
directory of patches; PATCHSTACK_LLAMA_PIN defaults to the pin below.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from patchstack.git.remote import Cache
from patchstack.series.verify.verify import prove_series
from patchstack.workspace import SeriesConfig
from tests.conftest import Patchstack
from tests.support.builders import run_git, snapshot
from tests.support.oracle import Oracle, objects_of

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
    result = prove_series(config, Cache(lambda: tmp_path / "cache", offline=True), apply_only=True, keep_going=True)
    assert snapshot(Path(SERIES)) == before
    oracle = Oracle(tmp_path, objects_of(Path(REPO)))
    tree = result.base_tree
    for row in result.rows:
        expected = oracle.apply(tree, (Path(SERIES) / str(row.file)).read_bytes())
        assert row.tree == expected, row
        tree = expected or tree
    assert result.applied_tree == tree


@pytest.mark.skipif(not (REPO and SERIES), reason="needs PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES")
def test_a_foreign_series_gets_a_fork_and_then_stays_byte_for_byte(tmp_path: Path, patchstack: Patchstack) -> None:
    assert REPO and SERIES
    series = tmp_path / "patches"
    shutil.copytree(SERIES, series)
    count = len(list(series.glob("*.patch")))
    upstream = Path(REPO).resolve()
    assert patchstack("init", "--patches", "patches", "--upstream", upstream, "--pin", PIN, "--name", "real") == 0
    assert patchstack("checkout", "real", "fork", "--no-files") == 0
    settings = tmp_path / "patchstack.yaml"
    settings.write_text(
        f"{settings.read_text().rstrip()}\n    fork: fork\n    fork_ref: real\n".replace("expect: lock", "")
    )
    assert patchstack("verify") == 0, "what is there is what the fork holds"
    assert patchstack("export") == 0
    first = {path.name: path.read_bytes() for path in series.iterdir()}
    assert patchstack("verify") == 0
    assert patchstack("checkout", "real", "again", "--no-files") == 0
    ids = [run_git("rev-list", f"{PIN}..real", cwd=tmp_path / name).stdout.split() for name in ("fork", "again")]
    assert ids[0] == ids[1] and len(ids[0]) == count
    for path in series.glob("*.patch"):
        path.unlink()
    settings.write_text(settings.read_text().replace("fork: fork", "fork: again"))
    assert patchstack("export") == 0
    assert {path.name: path.read_bytes() for path in series.iterdir()} == first
