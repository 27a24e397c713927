"""`--policy-from`: all of the workspace file except the pins comes from a trusted commit or file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from patchstack.errors import ConfigError, MissingError
from patchstack.gates.suite import read_suites
from patchstack.observe.models import read_models
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
    """Return a workspace at the commit `main`, in a separate repository; the file names a list of cases."""
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
        assert found.not_used == ("cases/mul.txt: changed or removed",)


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
    with pytest.raises(MissingError, match="is missing"), policy_from(tmp_path / "patchstack.yaml", ref):
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


def refused(workspace: Path, policy: str = "main") -> ConfigError:
    with pytest.raises(ConfigError) as raised, policy_from(workspace, policy):
        pytest.fail("it was taken")
    return raised.value


@pytest.mark.parametrize("target", ["/etc/passwd", "../.git/config", "../../outside", "/proc/self/environ"])
@pytest.mark.parametrize("place", ["0001-x.patch", "deep/er/0001-x.patch"])
def test_a_link_at_any_depth_leads_neither_out_nor_to_the_configuration(
    fork: Fork, tmp_path: Path, place: str, target: str
) -> None:
    """A checkout's configuration may hold the token that fetched it."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("SECRET")
    target = target.replace("outside", outside.name)
    link = fork.series / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target if target.startswith("/") else Path(*[".."] * place.count("/")) / target)
    error = refused(tmp_path / "patchstack.yaml")
    assert error.message == "the patches of product are not inside the workspace"
    assert "SECRET" not in error.render()


def test_a_link_to_itself_leads_nowhere(fork: Fork, tmp_path: Path) -> None:
    (fork.series / "0001-loop.patch").symlink_to("0001-loop.patch")
    assert "are not inside the workspace" in refused(tmp_path / "patchstack.yaml").message


def test_a_link_to_a_file_of_the_workspace_is_taken(fork: Fork, tmp_path: Path) -> None:
    (fork.series / "series.txt").symlink_to("../cases/mul.txt")
    with policy_from(tmp_path / "patchstack.yaml", "main") as found:
        assert found.series


@pytest.mark.parametrize("name", ["ledger", "evidence", ".patchstack", "evidence/candidates/x.json", "ledger/deep/x"])
def test_what_commands_write_beside_the_workspace_does_not_lead_out(fork: Fork, tmp_path: Path, name: str) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-else"
    outside.mkdir()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).symlink_to(outside)
    assert (
        refused(tmp_path / "patchstack.yaml").message
        == f"the files of {name.split('/')[0]} are not inside the workspace"
    )


def test_a_workspace_file_that_is_a_link_is_not_read_through(fork: Fork, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-environ"
    secret.write_text("TOKEN: [SECRET\n")
    (tmp_path / "patchstack.yaml").unlink()
    (tmp_path / "patchstack.yaml").symlink_to(secret)
    error = refused(tmp_path / "patchstack.yaml")
    assert error.message == "the settings of the change are not inside the workspace"
    assert "SECRET" not in error.render()


def commit_policy(tmp_path: Path, *names: str) -> None:
    run_git("add", *names, cwd=tmp_path)
    run_git("commit", "-q", "-m", "More policy", cwd=tmp_path)
    run_git("branch", "-f", "main", "HEAD", cwd=tmp_path)


def test_a_model_of_the_policy_is_not_one_that_the_change_brings(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    workspace.write_text(workspace.read_text() + "models:\n  one: {path: models/one.gguf}\n")
    (tmp_path / "models").mkdir()
    commit_policy(tmp_path, "patchstack.yaml")
    told = "models/one.gguf: the change could replace this model: give its sha256 or an absolute path, or commit it"
    with policy_from(workspace, "main") as found, pytest.raises(ConfigError) as raised:
        read_suites(found)
    assert told in raised.value.problems[0]

    (tmp_path / "models" / "one.gguf").write_text("GGUF")
    commit_policy(tmp_path, "models")
    with policy_from(workspace, "main") as found:
        problems: list[str] = []
        assert read_models(found, problems)["one"].path == str(tmp_path / "models" / "one.gguf")
    (tmp_path / "models" / "one.gguf").unlink()
    (tmp_path / "models" / "one.gguf").symlink_to("/etc/passwd")
    with policy_from(workspace, "main") as found:
        assert Path(read_models(found, problems)["one"].path).read_text() == "GGUF", "the policy's own"
    assert not problems


def test_a_model_with_a_digest_may_be_in_the_work_tree_but_leads_nowhere_else(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    workspace.write_text(workspace.read_text() + f"models:\n  one: {{path: one.gguf, sha256: {'a' * 64}}}\n")
    commit_policy(tmp_path, "patchstack.yaml")
    problems: list[str] = []
    with policy_from(workspace, "main") as found:
        assert read_models(found, problems)["one"].path == str(tmp_path / "one.gguf")
        assert not problems
        (tmp_path / "one.gguf").symlink_to("/etc/passwd")
        read_models(found, problems)
    assert "one.gguf is outside the workspace: give an absolute path" in problems[0]


def test_files_above_the_workspace_come_from_the_policy_and_from_nowhere_else(fork: Fork, tmp_path: Path) -> None:
    below = tmp_path / "backend" / "cpp"
    below.mkdir(parents=True)
    cases = text(fork).replace(": patches", ": ../../patches").replace(": upstream", ": ../../upstream")
    suites = SUITES.replace("cases/mul.txt", "../../cases/mul.txt")
    (below / "patchstack.yaml").write_text(cases.replace(": fork\n", ": ../../fork\n") + suites)
    commit_policy(tmp_path, "backend")
    (tmp_path / "cases" / "mul.txt").write_text("")
    # Patches above the workspace's directory are outside of it.
    assert "not inside the workspace" in refused(below / "patchstack.yaml").message
    inside = (below / "patchstack.yaml").read_text().replace("../../patches", "patches")
    (below / "patches").mkdir()
    (below / "patchstack.yaml").write_text(inside)
    commit_policy(tmp_path, "backend")
    with policy_from(below / "patchstack.yaml", "main") as found:
        assert "MUL_MAT(type=f32)" in repr(read_suites(found)[0].gates[0].settings)
        assert found.not_used == ("../../cases/mul.txt: changed or removed",)
    # A name that leads out of the repository must not reach a file that somebody put into the temporary directory.
    planted = Path(tempfile.gettempdir()) / "cases-of-somebody.txt"
    planted.write_text("ADD()\n")
    try:
        up = "../" * (len(below.relative_to(tmp_path).parts) + 1)
        (below / "patchstack.yaml").write_text(inside.replace("../../cases/mul.txt", f"{up}{planted.name}"))
        commit_policy(tmp_path, "backend")
        with (
            policy_from(below / "patchstack.yaml", "main") as found,
            pytest.raises(ConfigError, match="cannot be used"),
        ):
            read_suites(found)
    finally:
        planted.unlink()


def bare_files(place: Path) -> None:
    """Write a repository as plain files, which a change can contain."""
    run_git("init", "-q", "--bare", str(place), cwd=place.parent)


def test_a_fork_or_upstream_that_the_change_brings_is_refused(fork: Fork, tmp_path: Path) -> None:
    workspace = tmp_path / "patchstack.yaml"
    with policy_from(workspace, "main") as found:
        assert found.series, "clones that the checkout does not track are somebody else's"
    (tmp_path / "fork").rename(tmp_path / "real-fork")
    bare_files(tmp_path / "fork")
    run_git("add", "-f", "fork", cwd=tmp_path)
    error = refused(workspace)
    assert error.message == "the policy names a repository that the change itself adds"
    (told,) = error.problems
    assert told.startswith("series.product.fork: fork/")
    assert told.endswith(" is a file of the checkout")

    run_git("rm", "-rqf", "--cached", "fork", cwd=tmp_path)
    shutil.rmtree(tmp_path / "fork")
    (tmp_path / "fork").symlink_to("real-fork")
    run_git("add", "-f", "fork", cwd=tmp_path)
    assert refused(workspace).problems == ("series.product.fork: fork is a link of the checkout",)

    run_git("rm", "-qf", "--cached", "fork", cwd=tmp_path)
    (tmp_path / "fork").unlink()
    (tmp_path / "real-fork").rename(tmp_path / "fork")
    head = run_git("rev-parse", "HEAD", cwd=tmp_path / "fork").stdout.decode().strip()
    run_git("update-index", "--add", "--cacheinfo", f"160000,{head},fork", cwd=tmp_path)
    (tmp_path / "trusted.yaml").write_text(text(fork))
    for policy in ("main", "trusted.yaml"):
        assert refused(workspace, policy).problems == ("series.product.fork: fork is a submodule of the checkout",)


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
    assert "the commit gone, which contains the policy, is missing" in gone.stderr


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
    assert "does not run code from a proposed change" in ran.stderr


def test_every_kind_of_change_is_told_by_its_key() -> None:
    trusted = {"series": {"a": {"pin": "1", "fork": "x"}, "gone": {"pin": "1"}}, "engine": "docker"}
    head = {"series": {"a": {"pin": "2", "fork": "y"}, "new": {"pin": "3"}}, "lint": [1]}
    assert list(changes(trusted, head)) == [
        "series.a.fork: 'y', not 'x'",
        "series.gone: removed",
        "series.new: added (a mapping)",
        "engine: removed",
        "lint: added (a list)",
    ]
