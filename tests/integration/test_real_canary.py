"""canary on a real series over a real llama.cpp history, with a loop of `git apply --cached` as the judge.

Set PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES as for `test_real_series.py`; PATCHSTACK_LLAMA_TO names the
upstream commit to go to (`master` unless set). The clone must hold the commits from the pin to it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli
from tests.support.builders import snapshot
from tests.support.oracle import Oracle, objects_of

REPO = os.environ.get("PATCHSTACK_LLAMA_REPO")
SERIES = os.environ.get("PATCHSTACK_LLAMA_SERIES")
PIN = os.environ.get("PATCHSTACK_LLAMA_PIN", "0ed235ea2c17a19fc8238668653946721ed136fd")
TO = os.environ.get("PATCHSTACK_LLAMA_TO", "master")
KNOWN_TIP = "0a50d9909a34"  # 281 commits after the pin; the known results for the 54 patches there are checked too

pytestmark = pytest.mark.skipif(not (REPO and SERIES), reason="needs PATCHSTACK_LLAMA_REPO and PATCHSTACK_LLAMA_SERIES")


def ask(run_cli: RunCli, *options: str) -> dict[str, Any]:
    assert REPO and SERIES
    before = snapshot(Path(SERIES))
    ran = run_cli("canary", "--patches", SERIES, "--upstream", REPO, "--pin", PIN, "--to", TO, "--json", *options)
    assert snapshot(Path(SERIES)) == before
    assert ran.code in (0, 1), ran
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_first_breaking_commits_are_git_s(tmp_path: Path, run_cli: RunCli) -> None:
    assert REPO and SERIES
    document = ask(run_cli, "--strict", "--blame", "--quick")
    oracle = Oracle(tmp_path, objects_of(Path(REPO)))
    patches = sorted(Path(SERIES).glob("*.patch"))
    listed = oracle.git("rev-list", "--reverse", "--first-parent", f"{PIN}..{document['upstream']['commit']}")
    commits = listed.stdout.decode().split()
    # Git's own chain at the commits that matter: where we say a patch breaks, just before, and at the tip.
    told = {patch["file"]: patch["first_broken"] for patch in document["patches"]}
    indices = {broken["index"] for broken in told.values() if broken}
    failing: dict[int, set[str]] = {}
    for index in sorted({at for one in indices for at in (one - 1, one) if at >= 0} | {len(commits) - 1}):
        oracle.git("read-tree", commits[index])
        failing[index] = {
            path.name
            for path in patches
            if oracle.git("-c", "apply.whitespace=nowarn", "apply", "--cached", str(path), check=False).returncode
        }
    for file, broken in told.items():
        for index, failed in failing.items():
            if broken is None or index < broken["index"]:
                assert file not in failed, (file, index)
        assert broken is None or file in failing[broken["index"]], (file, broken)
        assert broken is None or broken["commit"] == commits[broken["index"]]
    strictly = {patch["file"] for patch in document["patches"] if patch["strict"] not in ("clean", "offset")}
    assert strictly == failing[len(commits) - 1]


def test_known_cases_of_the_54_patches_are_recognised(run_cli: RunCli) -> None:
    document = ask(run_cli, "--strict", "--blame")
    if document["upstream"]["commit"][:12] != KNOWN_TIP or document["patch_count"] != 54:
        pytest.skip("another series, or another tip")
    patches = {patch["number"]: patch for patch in document["patches"]}
    first = min(document["breaking"], key=lambda commit: int(commit["index"]))
    assert (first["index"], first["commit"][:9], document["commits"]) == (12, "8c146a836", 281)
    assert patches[1]["first_broken"]["lines"][0].startswith("src/CMakeLists.txt: hunk 1 ")
    assert sum(patch["first_broken"] is not None for patch in document["patches"]) == 45
    assert patches[23]["first_broken"]["pr"] == 25441
    assert (patches[23]["like"]["how"], patches[23]["like"]["commit"]["pr"]) == ("title", 25441)
    assert patches[25]["state"] in ("clean", "offset", "stale")
    assert {patch["caused_by"] is not None for patch in document["patches"] if patch["state"] == "cascade"} == {True}
