"""Builds and gates on a runner: from the action, and job by job through the workflows that gate and release."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.jobs import Ran, Runner
from tests.support.builders import run_git
from tests.support.checkout import ROOT
from tests.support.ci_world import a_runner
from tests.support.toy import MAIN, Toy, a_toy, need_docker, need_host_tools

WORKFLOWS = ROOT / ".github" / "workflows"
SUITES = """
suites:
  quick:
    allow: [cpu-load]
    gates:
      - {name: says, kind: command, program: toy, must: [version]}
  strict:
    allow: [cpu-load]
    gates:
      - {name: says, kind: command, program: toy, must: [version]}
      - {name: sings, kind: command, program: toy, must: ["la la ::add-mask::x"]}
"""


def a_workplace(directory: Path, engine: str) -> tuple[Toy, Runner]:
    """Return the toy in a repository whose path has a blank, and a runner. The runner's own path has no blank, because
    CMake on the host fails on compiler options with such a path."""
    place = directory / "a product"
    place.mkdir()
    toy = a_toy(place, engine)
    workspace = place / "patchstack.yaml"
    fork = f"    fork: {toy.fork.repo.path}\n    fork_ref: product\n"
    workspace.write_text(workspace.read_text() + fork + SUITES)
    return toy, a_runner(directory / "runner", place)


@pytest.fixture
def on_host(tmp_path: Path) -> tuple[Toy, Runner]:
    need_host_tools()
    return a_workplace(tmp_path, "host")


@pytest.fixture
def in_docker(tmp_path: Path) -> tuple[Toy, Runner]:
    need_docker()
    return a_workplace(tmp_path, "docker")


def build(runner: Runner, args: str = "--engine host", **inputs: str) -> Ran:
    return runner.act(ROOT, {"command": "build", "args": args, **inputs})


def test_a_build_tells_its_key_and_where_it_is(on_host: tuple[Toy, Runner]) -> None:
    toy, runner = on_host
    ran = build(runner)
    assert ran.ok, ran.log
    assert ran.outputs["holds"] == "true"
    assert len(ran.outputs["build-key"]) == 64
    assert ran.outputs["applied-tree"] == toy.fork.trees[-1]
    assert (Path(ran.outputs["build-directory"]) / "bin" / "toy").is_file()
    assert "### build <code>cpu</code>: <code>built</code>" in ran.summary
    assert build(runner).outputs["build-key"] == ran.outputs["build-key"]


def test_what_does_not_compile_stands_on_the_patch_that_wrote_it(on_host: tuple[Toy, Runner]) -> None:
    toy, runner = on_host
    toy.commit("Break it", {"main.c": MAIN.replace("return 0;", "return nowhere;")})
    ran = build(runner)
    assert not ran.ok
    assert ran.outputs["holds"] == "false"
    (error,) = [command for command in ran.commands if command.properties["title"] == "cpu: compile"]
    patch = toy.fork.patches[-1]
    assert error.properties["file"] == f"patches/{patch.name}"
    assert patch.read_text().split("\n")[int(error.properties["line"]) - 1].startswith("diff --git a/main.c")
    assert "nowhere" in error.data and error.data.startswith("main.c:8: ")


def test_a_series_is_built_on_another_upstream_commit(on_host: tuple[Toy, Runner]) -> None:
    toy, runner = on_host
    tip = toy.fork.upstream.commit("Go on", {"README": "newer\n"})
    pinned, ahead = build(runner), build(runner, **{"upstream-commit": tip})
    assert ahead.ok, ahead.log
    assert ahead.outputs["applied-tree"] != pinned.outputs["applied-tree"]
    documents = [json.loads((Path(ran.outputs["report"]) / "build.jsonl").read_text()) for ran in (pinned, ahead)]
    assert [one["source"]["pin"] for one in documents] == [toy.fork.pin, tip]


def _with_a_default_branch(place: Path) -> None:
    """Make the workspace's directory a checkout that has fetched the default branch, which holds the policy."""
    run_git("init", "-q", cwd=place)
    run_git("add", "patchstack.yaml", "patches", cwd=place)
    run_git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "base", cwd=place)
    run_git("update-ref", "refs/remotes/origin/main", "HEAD", cwd=place)


def test_a_pull_request_s_gates_run_on_what_another_machine_built(in_docker: tuple[Toy, Runner]) -> None:
    toy, runner = in_docker
    _with_a_default_branch(toy.root)
    runner.ref = "refs/heads/pull-request/7"
    runner.links_checkout = False
    inputs = {"variant": "cpu", "suite": "quick"}
    made = runner.job(WORKFLOWS / "gates-gpu.yml", "build", inputs=inputs)
    assert made is not None
    assert made.ok, made.log
    needs = {"build": {"result": "success"}}
    gated = runner.job(WORKFLOWS / "gates-gpu.yml", "gate", inputs=inputs, needs=needs)
    assert gated is not None
    assert gated.ok, gated.log
    assert "| <code>says</code> | <code>command</code> | PASS |" in gated.summary
    statement = json.loads((runner.directory / "artifacts" / "patchstack-gates" / "test-result.json").read_text())
    assert (statement["result"], statement["passedTests"]) == ("PASSED", ["quick/says"])
    failed = runner.job(WORKFLOWS / "gates-gpu.yml", "gate", inputs={**inputs, "suite": "strict"}, needs=needs)
    assert failed is not None
    assert not failed.ok
    (error,) = [command for command in failed.commands if command.name == "error"]
    assert error.properties["title"] == "strict/sings"
    assert "::add-mask::x" in error.data, "words of a program are words"


def test_a_release_builds_gates_and_attests_what_was_built(in_docker: tuple[Toy, Runner]) -> None:
    toy, runner = in_docker
    runner.ref = "refs/tags/v1"
    inputs = {"variants": "cpu"}
    plan = runner.job(WORKFLOWS / "release.yml", "plan", inputs=inputs)
    assert plan is not None
    (row,) = json.loads(plan.outputs["matrix"])["include"]
    made = runner.job(
        WORKFLOWS / "release.yml", "build", inputs=inputs, needs={"plan": {"outputs": plan.outputs}}, matrix=row
    )
    assert made is not None
    assert made.ok, made.log
    assert f"<code>{toy.fork.trees[-1]}</code>" in made.summary
    assert (runner.directory / "artifacts" / "patchstack-release-cpu" / "cpu.tar").is_file()
    needs: dict[str, Any] = {
        "plan": {"outputs": plan.outputs},
        "build": {"result": "success", "outputs": made.outputs},
        "ledger": {"result": "success"},
        "gate": {"result": "skipped", "outputs": {}},
    }
    compared = runner.job(WORKFLOWS / "release.yml", "compare", inputs=inputs, needs=needs)
    assert compared is not None
    assert compared.ok, compared.log
    (subject,) = json.loads(compared.outputs["subjects"])
    attested = runner.job(
        WORKFLOWS / "release.yml",
        "attest",
        inputs=inputs,
        needs={"compare": {"result": "success", "outputs": compared.outputs}},
        matrix={"subject": subject},
    )
    assert attested is not None
    digest = hashlib.sha256((toy.root / "cpu.tar").read_bytes()).hexdigest()
    assert runner.other == [("actions/attest", {"subject-name": "cpu.tar", "subject-digest": f"sha256:{digest}"})]


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_a_call_publishes_nothing_and_a_branch_releases_nothing(tmp_path: Path, event: str) -> None:
    place = tmp_path / "a product"
    place.mkdir()
    runner = a_runner(tmp_path / "runner", place)
    runner.event_name = event
    assert runner.job(WORKFLOWS / "release.yml", "plan", inputs={}) is None
    runner.ref = "refs/tags/v1"
    done = {"package": {"result": "success", "outputs": {"artifact": "package"}}, "attest": {"result": "success"}}
    assert runner.job(WORKFLOWS / "release.yml", "package", inputs={}) is None
    assert runner.job(WORKFLOWS / "release.yml", "publish", inputs={}, needs=done) is None
    (runner.directory / "artifacts" / "package").mkdir()
    assert runner.job(WORKFLOWS / "release.yml", "publish", needs=done) is not None
    assert [action for action, _ in runner.other] == ["pypa/gh-action-pypi-publish"]
