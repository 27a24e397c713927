"""`patchstack bisect --build`: every point is a keyed build."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import Places
from tests.support.checkout import ROOT
from tests.support.toy import MAIN, a_toy, need_host_tools, variants_built


def run(root: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "patchstack", "bisect", "--engine", "host", "--build", "cpu", "--json", *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_the_binaries_of_every_point_are_built_once_and_a_tree_that_does_not_build_is_skipped(
    tmp_path: Path, places: Places
) -> None:
    need_host_tools()
    toy = a_toy(tmp_path, "host")
    toy.commit("Does not compile", {"main.c": "int main(void) { return oops; }\n"})
    toy.commit("Fails", {"main.c": MAIN.replace("return 0;", "return 3;")})
    toy.commit("Still fails", {"notes": "x\n"})
    command = "sh -c '$PATCHSTACK_BIN/toy --version'"
    code, found, told = run(tmp_path, "--run", command)
    assert code == 4, told
    assert [one["number"] for one in found["candidates"]] == [3, 4]
    log = {one["number"]: one for one in found["log"]}
    assert (log[3]["said"], log[3]["code"]) == ("skip", None)
    assert "it does not build: 'oops' undeclared" in log[3]["why"]
    assert {number: one["said"] for number, one in log.items()} == {5: "bad", 0: "good", 2: "good", 3: "skip", 4: "bad"}
    assert "commit" not in Path(log[0]["log"]).read_text() and "version: 0 (" in Path(log[0]["log"]).read_text()
    assert told.count("compiling") == 5
    again = run(tmp_path, "--run", command)
    assert again[1]["candidates"] == found["candidates"]
    assert "compiling" not in again[2], "every build is found again"
    assert variants_built(places.cache) == [{"value": "cpu", "from": "--build"}] * 5
