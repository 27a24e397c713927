"""A real series brought forward over a real llama.cpp clone: it stops at the expected patches, and the result holds.

PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES as in test_real_series.py; the figures are those of the series of 54
patches and of upstream's linear history after its pin, and are checked only if the series has 54.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack
from tests.support.builders import run_git, snapshot
from tests.support.oracle import Oracle, objects_of
from tests.support.syncing import fates

REPO = os.environ.get("PATCHSTACK_LLAMA_REPO")
SERIES = os.environ.get("PATCHSTACK_LLAMA_SERIES")
PIN = os.environ.get("PATCHSTACK_LLAMA_PIN", "0ed235ea2c17a19fc8238668653946721ed136fd")
REF = os.environ.get("PATCHSTACK_LLAMA_REF", "master")

pytestmark = pytest.mark.skipif(not (REPO and SERIES), reason="needs PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES")


@pytest.fixture
def upstream(tmp_path: Path, patchstack: Patchstack) -> list[str]:
    """Make a workspace of the series with a fork, and return upstream's commits after the pin."""
    assert REPO and SERIES
    shutil.copytree(SERIES, tmp_path / "patches")
    if len(list((tmp_path / "patches").glob("*.patch"))) != 54:
        pytest.skip("PATCHSTACK_LLAMA_REPO is set, but the series is not that of 54 patches")
    assert patchstack("init", "--patches", "patches", "--upstream", REPO, "--pin", PIN, "--name", "real") == 0
    assert patchstack("checkout", "real", "fork", "--no-files") == 0
    with (tmp_path / "patchstack.yaml").open("a") as settings:
        settings.write("    fork: fork\n    fork_ref: real\n")
    assert patchstack("export") == 0
    listed = run_git("rev-list", "--reverse", "--first-parent", f"{PIN}..{REF}", cwd=Path(REPO))
    return listed.stdout.decode().split()


def step(patchstack: Patchstack, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = patchstack("sync", *options, "--json")
    return code, json.loads(capsys.readouterr().out)


def test_where_strict_apply_stops_three_way_merges_go_on(
    upstream: list[str], tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert REPO
    watched = (tmp_path / "patches", tmp_path / "fork")
    before = snapshot(*watched)
    code, found = step(patchstack, capsys, "--to", upstream[12], "--worktree", "work")
    assert code == 0
    assert fates(found).count("unchanged") == 50 and fates(found).count("context only") == 4
    assert snapshot(*watched) == before
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
    made = run_git("rev-parse", f"{upstream[12]}^{{tree}}", cwd=Path(REPO)).stdout.decode().strip()
    oracle = Oracle(tmp_path, objects_of(Path(REPO)))
    for path in sorted((tmp_path / "patches").glob("*.patch")):
        applied = oracle.apply(made, path.read_bytes())
        assert applied, path
        made = applied
    assert made == found["report"]["tree"], "git apply, patch by patch, gives it as well"


def test_at_the_281st_commit_each_conflict_names_its_cause(
    upstream: list[str], patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = step(patchstack, capsys, "--to", upstream[280], "--worktree", "work")
    causes: dict[int, set[int]] = {}
    built_on: dict[int, set[str]] = {}
    for _ in range(54):
        if code == 0:
            break
        stop = found["stop"]
        collisions = stop["collisions"]
        causes[stop["number"]] = {mover["pull_request"] for one in collisions for mover in one["upstream"]}
        built_on[stop["number"]] = {label for one in collisions for label in one["left_out"]}
        code, found = step(patchstack, capsys, "--skip")
    assert code == 0
    assert 25441 in causes[23], "CUDA: dedup MoE gate/up activation quantization"
    assert 24127 in causes[14] and 23940 in causes[18] and 24646 in causes[30] and 24216 in causes[33]
    assert not built_on[14] and not built_on[18] and built_on[15] == {"0014"} and built_on[48] == {"0035"}
    assert 25 not in causes, "MoE re-graph still goes over"
    assert len(causes) == 30
    assert found["report"]["holds"] is True and found["report"]["patch_count"] == 24
    options = {one["name"]: (one["old"], one["new"]) for one in found["report"]["toolchain"]["options"]}
    assert options["GGML_ET"] == (None, "OFF") and options["GGML_HEXAGON_FA_EXP2_HF"][1] is None
    skipped = [argument for number in causes for argument in ("--drop", str(number))]
    assert patchstack("sync", *skipped, "--why", "upstream rewrote the code that it changes") == 0
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
