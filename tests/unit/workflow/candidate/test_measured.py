"""The comparisons that count for a candidate, and those that do not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from patchstack.bench.bundle import pack, unpack
from patchstack.bench.declare import Declared
from patchstack.bench.judge import Demand, Row
from patchstack.bench.plan import PlanRow
from patchstack.bench.terms import BenchTerm
from patchstack.builds.record.store import Stored
from patchstack.canonical import canonical
from patchstack.errors import ConfigError
from patchstack.evidence.outputs import Outputs
from patchstack.evidence.store import Observations
from patchstack.files.places import cache_places
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.measured import Measured, drawn_again, measured
from tests.support.build_records import a_record
from tests.support.comparisons import a_comparison, observations, quick
from tests.support.programs import program

TREES = ("1" * 40, "2" * 40)


def a_build(tmp_path: Path, tree: str, **more: Any) -> Stored:
    """Make a build of a tree: a directory with a program, and a record whose key follows from its inputs."""
    inputs = {"schema": "patchstack.build-key/1", "tree": tree, "absent": [], "cmake": {}, "targets": ["speed"], **more}
    key = hashlib.sha256(canonical(inputs)).hexdigest()
    program(tmp_path / key / "bin", "speed", f"echo {tree}\n")
    return Stored(key=key, directory=tmp_path / key, record=a_record(key, inputs=inputs))


@pytest.fixture
def built(tmp_path: Path) -> tuple[Stored, Stored]:
    return a_build(tmp_path, TREES[0]), a_build(tmp_path, TREES[1])


def a_term(demand: Demand = Demand.KEEP, env: dict[str, str] | None = None, variant: str | None = None) -> BenchTerm:
    declared = Declared(kind="command", workload=quick(), rows=(Row(name="rate"),))
    return BenchTerm(name="quick", declared=declared, demand=demand, env=env or {}, variant=variant)


def step(built: tuple[Stored, Stored], tmp_path: Path, term: BenchTerm | None = None) -> Measured:
    return measured(term or a_term(), built, TREES, Outputs(tmp_path / "evidence"), None)


def test_a_comparison_of_the_two_builds_that_pays_holds(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    name = a_comparison(*built).name
    found = step(built, tmp_path)
    assert found.verdict is Verdict.PASS
    assert found.detail == f"the demand keep is met: comparison {name}: keep, rate is faster by more than 1%"
    assert found.evidence["comparison"] == name


def test_without_a_comparison_nothing_holds_and_the_command_is_named(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    found = step(built, tmp_path, a_term(env={"FAST": "1"}))
    assert found.verdict is Verdict.INVALID
    a, b = (one.key[:12] for one in built)
    assert found.detail == (
        f"no comparison of build {a} with build {b} on quick: this machine has none of this workload; "
        f"patchstack bench ab --a {a} --b {b} -w quick --env FAST=1 makes one"
    )


def test_a_loss_fails_and_a_gain_measured_afterwards_does_not_change_that(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    name = a_comparison(*built, ratio=0.95, seed=1).name
    assert step(built, tmp_path).verdict is Verdict.FAIL
    a_comparison(*built, seed=2)
    found = step(built, tmp_path)
    assert found.verdict is Verdict.FAIL
    assert f"comparison {name}: reject, rate is slower by more than 1% (2 comparisons count)" in found.detail


def test_a_comparison_that_is_not_finished_is_not_judged_and_another_may_be(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    a_comparison(*built, pairs=3, seed=1)
    assert step(built, tmp_path).verdict is Verdict.INVALID
    a_comparison(*built, seed=2)
    assert step(built, tmp_path).verdict is Verdict.PASS


def test_not_worse_is_another_demand_of_the_same_runs(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    a_comparison(*built, ratio=1.002)
    assert step(built, tmp_path).verdict is not Verdict.PASS
    assert step(built, tmp_path, a_term(Demand.NOT_WORSE)).verdict is Verdict.PASS


def test_a_hand_written_pass_is_no_comparison(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    directory = cache_places().comparisons / "0123456789abcdef"
    directory.mkdir(parents=True)
    (directory / "plan.json").write_text('{"verdict": "PASS", "outcome": "keep", "demand_met": true}')
    found = step(built, tmp_path)
    assert found.verdict is Verdict.INVALID
    assert "plan.json is damaged" in found.detail


def test_the_comparison_of_another_candidate_does_not_count(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    other = a_build(tmp_path, "3" * 40)
    a_comparison(built[0], other)
    found = step(built, tmp_path)
    assert found.verdict is Verdict.INVALID
    assert f"side B is build {other.key[:12]}, not the candidate's build, {built[1].key[:12]}" in found.detail


def test_sides_that_are_swapped_do_not_count(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    a_comparison(built[1], built[0])
    assert f"side A is build {built[1].key[:12]}, not the build before the candidate" in step(built, tmp_path).detail


def test_a_changed_run_is_refused(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    directory = a_comparison(*built)
    runs = json.loads((directory / "pair-0004.json").read_text())["runs"]
    kept = observations().find(runs[0]["key"])
    assert kept is not None
    changed = type(kept)(
        key=kept.key, ingredients=kept.ingredients, facts=kept.facts, blobs={**kept.blobs, "stdout": b"rate: 9999.0\n"}
    )
    observations().keep(changed)
    found = step(built, tmp_path)
    assert found.verdict is Verdict.INVALID
    assert f"run {runs[0]['slot']} of pair 4 of {directory.name} is missing or was changed" in found.detail


def test_runs_of_other_programs_do_not_count(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    a_comparison(*built)
    program(built[1].programs, "speed", "echo another\n")
    assert "of pair 1 used other programs than those of its build" in step(built, tmp_path).detail


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"directories": True}, "side A is a directory of programs, not a build"),
        ({"env": {"FAST": "1"}}, "side A ran with FAST=1, not no variables"),
        ({"alpha": 0.2}, "its error rate alpha is 20%, more than 1%"),
        (
            {"rows": [PlanRow(name="rate", primary=True, margin=0.0001, guard_margin=0.03)]},
            "its rows or margins are not those of workload quick",
        ),
        ({"workload": quick(args=("--short",))}, "its workload is not quick as declared in patchstack.yaml"),
    ],
)
def test_a_comparison_that_was_not_asked_for_does_not_count(
    built: tuple[Stored, Stored], tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    a_comparison(*built, **more)
    found = step(built, tmp_path)
    assert found.verdict is Verdict.INVALID
    assert told in found.detail


# A comparison of another machine


def test_a_comparison_of_builds_made_elsewhere_brings_their_inputs(
    built: tuple[Stored, Stored], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [a_build(tmp_path, tree, architecture="90a-real") for tree in TREES]
    directory = a_comparison(there[0], there[1])
    content = pack(directory, observations(), {one.key: dict(one.record.inputs) for one in there})
    monkeypatch.setenv("PATCHSTACK_CACHE", str(tmp_path / "here"))
    unpack(content, cache_places().comparisons, observations())
    assert step(built, tmp_path).verdict is Verdict.INVALID
    found = step(built, tmp_path, a_term(variant="gpu"))
    assert found.verdict is Verdict.PASS
    kept = Outputs(tmp_path / "evidence").read(found.evidence["bundle"]["sha256"], found.evidence["bundle"]["size"])
    assert kept is not None
    assert drawn_again(kept, Demand.KEEP, TREES, None, ({}, {}))[0] is Verdict.PASS
    with pytest.raises(ConfigError, match="whose source is not that of the candidate's build"):
        drawn_again(kept, Demand.KEEP, (TREES[0], "3" * 40), None, ({}, {}))


def test_builds_made_elsewhere_may_differ_in_nothing_but_the_source(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    a = a_build(tmp_path, TREES[0], architecture="90a-real", toolchain="sha256:1")
    b = a_build(tmp_path, TREES[1], architecture="90a-real", toolchain="sha256:2")
    directory = a_comparison(a, b)
    content = pack(directory, observations(), {one.key: dict(one.record.inputs) for one in (a, b)})
    unpack(content, cache_places().comparisons, observations())
    assert "the builds differ in more than the source: toolchain" in step(built, tmp_path, a_term(variant="g")).detail


def packed(built: tuple[Stored, Stored]) -> dict[str, Any]:
    directory = a_comparison(*built)
    builds = {one.key: dict(one.record.inputs) for one in built}
    document: dict[str, Any] = json.loads(pack(directory, observations(), builds))
    return document


def test_a_file_whose_build_is_said_to_be_of_another_source_is_refused(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    document = packed(built)
    document["builds"][built[1].key]["tree"] = "3" * 40
    with pytest.raises(ConfigError, match="do not match its key: the file was changed"):
        taken_in(document, tmp_path)


def test_a_file_with_a_changed_plan_is_refused_and_writes_nothing(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    document = packed(built)
    document["plan"]["rows"][0]["margin"] = 0.0001
    with pytest.raises(ConfigError, match="was changed: it does not match its name"):
        taken_in(document, tmp_path)
    assert not (tmp_path / "comparisons").exists()


def test_a_file_cannot_bring_runs_that_gates_could_take_for_theirs(
    built: tuple[Stored, Stored], tmp_path: Path
) -> None:
    document = packed(built)
    run = document["runs"][0]
    run["ingredients"]["salt"] = ""
    run["key"] = hashlib.sha256(canonical(run["ingredients"])).hexdigest()
    with pytest.raises(ConfigError, match="does not belong to comparison"):
        taken_in(document, tmp_path)
    assert not (tmp_path / "observations").exists()


def test_a_file_cannot_replace_a_run_that_is_here(built: tuple[Stored, Stored], tmp_path: Path) -> None:
    document = packed(built)
    taken_in(document, tmp_path)
    document["runs"][0]["outputs"]["stdout"] = "cmF0ZTogOTk5OQo="
    with pytest.raises(ConfigError, match="already exists with different output"):
        taken_in(document, tmp_path)


def taken_in(document: dict[str, Any], tmp_path: Path) -> Path:
    kept = Observations(tmp_path / "observations", tmp_path / "outputs")
    return unpack(json.dumps(document).encode(), tmp_path / "comparisons", kept)
