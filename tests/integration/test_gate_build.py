"""`patchstack gate run` without a named build: it uses the current build of the series, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_accept import SUITES, run
from tests.support.toy import MAIN, Toy, a_toy, need_host_tools


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    need_host_tools()
    made = a_toy(tmp_path, "host")
    workspace = tmp_path / "patchstack.yaml"
    fork = f"    variant: cpu\n    fork: {made.fork.repo.path}\n    fork_ref: product\n"
    workspace.write_text(workspace.read_text().replace("    variant: cpu\n", fork) + SUITES)
    run(made, "export", check=True)
    return made


def gates(toy: Toy, *more: str) -> tuple[int, str, str]:
    return run(toy, "gate", "run", *more)


def test_a_series_that_was_never_built_has_no_verdict(toy: Toy) -> None:
    code, _, stderr = gates(toy, "--engine", "host")
    assert code == 3
    assert "error: toy is not built: no build has the key " in stderr
    assert "hint: patchstack build toy --engine host\n" in stderr
    assert toy.build("toy").code == 0
    code, stdout, stderr = gates(toy, "--engine", "host")
    assert code == 0, stderr
    assert "PASS  quick: 2 gates: 2 PASS; 2 observed" in stdout
    toy.fork.repo.commit("Another patch", {"main.c": MAIN.replace("return 0", 'puts("LOUD"); return 0')})
    run(toy, "export", check=True)
    code, _, stderr = gates(toy, "--engine", "host")
    assert code == 3, "the newest build is of the series as it was"
    assert "is not built" in stderr


def test_another_variant_is_another_build(toy: Toy) -> None:
    text = (toy.root / "patchstack.yaml").read_text()
    loud = "  loud: {extends: cpu, cmake: {TOY_LOUD: ON}}\nseries:\n"
    (toy.root / "patchstack.yaml").write_text(text.replace("series:\n", loud, 1))
    assert toy.build("toy").code == 0
    code, _, stderr = gates(toy, "--engine", "host", "--variant", "loud")
    assert code == 3
    assert "variant (loud) and engine (host)" in stderr
    assert "hint: patchstack build toy --variant loud --engine host\n" in stderr


def test_what_is_named_is_run_and_said_to_be_of_no_series(toy: Toy) -> None:
    key = toy.build("toy", "--json", check=True).document["key"]
    place = next((toy.root.parent).rglob(f"{key}/bin"), None)
    named = gates(toy, "--build", key[:12])
    assert named[0] == 0, named
    assert "is not the current tree" not in named[2]
    first = toy.build("toy", "--at", "1", "--json", check=True).document["key"]
    older = gates(toy, "--build", first, "--json")
    assert older[0] == 0
    assert "its tree is not the current tree of any series" in older[2]
    assert json.loads(older[1])["build"] == first
    assert place is not None
    code, stdout, stderr = gates(toy, "--bin", str(place), "--json")
    assert code == 0, stderr
    assert "these programs do not belong to any series" in stderr
    assert json.loads(stdout)["build"] is None


def test_a_build_and_a_series_exclude_each_other(toy: Toy) -> None:
    code, _, stderr = gates(toy, "--bin", "bin", "--series", "toy")
    assert code == 2
    assert "cannot be used with --build or --bin" in stderr
