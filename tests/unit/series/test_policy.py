"""`--policy-from`: every word of the workspace file but the pins comes from a commit or file that is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import ConfigError, MissingError
from patchstack.gates.suite import read_suites
from patchstack.series.policy import policy_from
from patchstack.workspace import read_workspace
from patchstack.workspace.policy import changes
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, run_git

SUITES = """\
suites:
  quick:
    gates:
      - {name: ops, kind: backend-ops, backend: CPU, op: MUL_MAT, cases: {file: cases/mul.txt}}
"""


@pytest.fixture
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fork:
    """A workspace at the commit `main`, in a repository of its own; the file names a list of cases."""
    made = a_fork(tmp_path, 3)
    (tmp_path / "patchstack.yaml").write_text(text(made) + SUITES)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mul.txt").write_text("MUL_MAT(type=f32)\n")
    run_git("init", "-q", "-b", "main", ".", cwd=tmp_path)
    run_git("add", "patchstack.yaml", "patches", "cases", cwd=tmp_path)
    run_git("commit", "-q", "-m", "The base", cwd=tmp_path)
    run_git("switch", "-q", "-c", "proposal", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    return made


def text(fork: Fork, pin: str = "", more: str = "") -> str:
    return (
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {pin or fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n{more}"
    )


HOSTILE = {
    "another fork": ("    fork: fork\n", "    fork: evil\n", "series.product.fork: 'evil', not 'fork'"),
    "another upstream": ("upstream: upstream\n", "upstream: evil\n", "series.product.upstream: 'evil', not 'upstream'"),
    "another directory": ("patches: patches\n", "patches: evil\n", "series.product.patches: 'evil', not 'patches'"),
    "the lock instead": ("    fork_ref", "    expect: lock\n    fork_ref", "series.product.expect: added ('lock')"),
    "another form": ("    fork_ref", "    form: anchored\n    fork_ref", "series.product.form: added ('anchored')"),
    "fewer rules": ("    fork_ref", "    lint: {size: {patch_kib: 9}}\n    fork_ref", "series.product.lint: added"),
    "waivers": ("    fork_ref", "    waive: [{rule: size, why: x}]\n    fork_ref", "series.product.waive: added"),
    "the host": ("suites:", "engine: host\nsuites:", "engine: added ('host')"),
    "a recipe": ("suites:", "variants: {mine: {extends: cpu, recipe: ../../x}}\nsuites:", "variants: added"),
    "a toolkit": ("suites:", "variants: {mine: {extends: cuda, toolkit: /root}}\nsuites:", "variants: added"),
    "a key that nobody knows": ("suites:", "later: {trust: me}\nsuites:", "later: added"),
    "fewer gates": ("op: MUL_MAT,", "op: ADD,", "suites.quick.gates.ops.op: 'ADD', not 'MUL_MAT'"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_the_head_says_otherwise_is_listed_and_not_used(fork: Fork, tmp_path: Path, what: str) -> None:
    before, after, told = HOSTILE[what]
    workspace = tmp_path / "patchstack.yaml"
    trusted = read_workspace(workspace)
    assert before in workspace.read_text()
    workspace.write_text(workspace.read_text().replace(before, after, 1))
    with policy_from(workspace, "main") as found:
        assert found.series == trusted.series
        assert (found.variants, found.engine) == (trusted.variants, trusted.engine)
        assert [suite.gates[0].settings for suite in read_suites(found)] == [
            suite.gates[0].settings for suite in read_suites(trusted)
        ]
        assert found.path == workspace
        (said,) = found.not_used
    assert said.startswith(told)


def test_the_head_gives_the_pin(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace(fork.pin, "a" * 40))
    with policy_from(workspace, "main") as found:
        assert (found.series[0].pin, found.not_used) == ("a" * 40, ())


def test_files_that_the_workspace_names_come_from_the_policy(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    with policy_from(workspace, "main") as found:
        before = read_suites(found)[0].gates[0].settings
    (tmp_path / "cases" / "mul.txt").write_text("")
    with policy_from(workspace, "main") as found:
        assert read_suites(found)[0].gates[0].settings == before
        assert found.not_used == ("cases/mul.txt: changed or taken out",)


def test_a_file_may_be_the_policy_and_a_file_named_like_a_commit_is_none(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    (tmp_path / "trusted.yaml").write_text(text(fork, more="    form: anchored\n"))
    with policy_from(workspace, "trusted.yaml") as found:
        assert found.series[0].anchored
    (tmp_path / "main").write_text(text(fork, more="    form: anchored\n"))
    with policy_from(workspace, "main") as found:
        assert not found.series[0].anchored


@pytest.mark.parametrize("ref", ["nowhere", "--help", "-x", "0" * 40, "main:patches", ""])
def test_a_commit_that_is_not_here_is_missing(fork: Fork, tmp_path: Path, ref: str) -> None:
    with pytest.raises(MissingError, match="is not here"), policy_from(tmp_path / "patchstack.yaml", ref):
        pytest.fail("it was taken")


def test_patches_that_lead_out_of_the_workspace_are_refused(fork: Fork, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    fork.series.rename(outside)
    fork.series.symlink_to(outside)
    with (
        pytest.raises(ConfigError, match="the patches of product are not inside the workspace"),
        policy_from(tmp_path / "patchstack.yaml", "main"),
    ):
        pytest.fail("it was taken")
    fork.series.unlink()
    fork.series.mkdir()
    (fork.series / "0001-x.patch").symlink_to(outside / fork.patches[0].name)
    with (
        pytest.raises(ConfigError, match="not inside the workspace"),
        policy_from(tmp_path / "patchstack.yaml", "main"),
    ):
        pytest.fail("it was taken")


def test_verify_and_lint_go_by_the_policy(fork: Fork, tmp_path: Path, run_cli: RunCli) -> None:
    workspace = tmp_path / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace("    fork: fork\n", "    fork: evil\n"))
    assert run_cli("verify").code != 0
    for command in ("verify", "lint"):
        ran = run_cli(command, "--policy-from", "main")
        assert ran.code == 0, ran
        assert "changed here, not used: series.product.fork: 'evil', not 'fork'" in ran.stderr
    gone = run_cli("verify", "--policy-from", "gone")
    assert gone.code == 3
    assert "the commit gone, which the policy comes from, is not here" in gone.stderr


COMMANDS = {
    "verify": ("verify",),
    "lint": ("lint",),
    "build": ("build", "--variant", "cpu"),
    "gate run": ("gate", "run", "--variant", "cpu"),
    "accept": ("accept", "product", "--dry-run", "--variant", "cpu"),
    "ci matrix": ("ci", "matrix", "--suite", "all"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_ci_goes_by_the_policy(
    fork: Fork, tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    workspace = tmp_path / "patchstack.yaml"
    hostile = workspace.read_text()
    for before, after, _ in HOSTILE.values():
        if before in hostile and not before.startswith("suites"):
            hostile = hostile.replace(before, after, 1)
    workspace.write_text(hostile.replace("suites:", "engine: host\nvariants: {cpu: {recipe: ../../x}}\nsuites:"))
    ran = run_cli(*COMMANDS[command], "--policy-from", "main")
    assert "changed here, not used: series.product.fork: 'evil', not 'fork'" in ran.stderr, ran
    assert "changed here, not used: engine: added ('host')" in ran.stderr
    assert "changed here, not used: variants: added (a mapping)" in ran.stderr
    assert ran.code == (3 if command in ("build", "gate run", "accept") else 0), ran
    if ran.code == 3:
        assert "no Docker engine" in ran.stderr, "the host was not taken"


def test_the_host_is_refused_unless_the_command_line_names_it(fork: Fork, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "trusted.yaml").write_text(text(fork) + "engine: host\n")
    ran = run_cli("build", "--policy-from", "trusted.yaml", "--variant", "cpu")
    assert ran.code == 2
    assert "what a change brings is not run on this machine itself" in ran.stderr


def test_every_kind_of_change_is_told_by_its_key() -> None:
    trusted = {"series": {"a": {"pin": "1", "fork": "x"}, "gone": {"pin": "1"}}, "engine": "docker"}
    head = {"series": {"a": {"pin": "2", "fork": "y"}, "new": {"pin": "3"}}, "lint": [1]}
    assert list(changes(trusted, head)) == [
        "series.a.fork: 'y', not 'x'",
        "series.gone: taken out",
        "series.new: added (a mapping)",
        "engine: taken out",
        "lint: added (a list)",
    ]
