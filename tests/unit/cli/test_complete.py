"""Shell completion: values of the nearest workspace, and no output if anything is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.cli.gate import ALONE
from patchstack.cli.main import COMMANDS, app
from tests.conftest import Ran
from tests.support.checkout import ROOT

WORKSPACE = """\
series:
  paged: {patches: patches, upstream: u, pin: %s}
  other: {patches: more, upstream: u, pin: %s}
variants:
  mine: {}
suites:
  quick: {gates: [{name: ids, kind: tokens}, {name: greedy, kind: completion}]}
  slow: {gates: [{name: drifting, kind: drift}]}
"""
DECISION = "80453ca56b69f8213546fb17916edb4ef18b01b5"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make a workspace with two series, a variant, two suites and a decision."""
    (tmp_path / "patchstack.yaml").write_text(WORKSPACE % ("a" * 40, "b" * 40))
    for directory, files in (("patches", ("0001-one.patch", "0007-seven.patch")), ("more", ("0012-twelve.patch",))):
        (tmp_path / directory).mkdir()
        for file in files:
            (tmp_path / directory / file).touch()
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / f"{DECISION}.json").write_text("{}")
    return tmp_path


Asked = Callable[..., Ran]
"""Returns patchstack's answer when a shell asks it to complete a line in a directory."""


def question(shell: str, line: str, **more: str) -> dict[str, str]:
    """Return the variables with which a shell asks."""
    words = line.split(" ")
    return {
        "_PATCHSTACK_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        **more,
    }


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    """Asks in this process."""

    def ask(directory: Path, shell: str, line: str, **more: str) -> Ran:
        capsys.readouterr()
        with monkeypatch.context() as at:
            at.chdir(directory)
            for name, value in question(shell, line, **more).items():
                at.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                app(prog_name="patchstack")
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(code=ended.value.code, stdout=out, stderr=err)

    return ask


def asked_as_process(directory: Path, shell: str, line: str, **more: str) -> Ran:
    """Ask a process, as a shell does."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        **question(shell, line, **more),
    }
    code = "from patchstack.cli.main import app; app(prog_name='patchstack')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=environment, capture_output=True, text=True, timeout=60
    )
    return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("patchstack ver", ["verify"]),
        ("patchstack verify ", ["paged", "other"]),
        ("patchstack verify o", ["other"]),
        ("patchstack verify paged ", ["other"]),
        ("patchstack show ", ["paged", "other", "1", "7", "12"]),
        ("patchstack show other ", ["paged", "12"]),
        ("patchstack build --at 1", ["1", "12"]),
        ("patchstack build paged --at ", ["1", "7"]),
        ("patchstack build other --variant cpu --at 1", ["12"]),
        ("patchstack build --at 1 other", ["other"]),
        ("patchstack checkout other elsewhere --at ", ["12"]),
        ("patchstack sync paged --drop ", ["1", "7"]),
        ("patchstack build nosuch --at 1", ["1", "12"]),
        ("patchstack build --variant m", ["mine"]),
        ("patchstack build --variant cpu", ["cpu"]),
        ("patchstack gate run --suite ", ["quick", "slow"]),
        ("patchstack gate run --suite slow ", ["drifting"]),
        ("patchstack gate record g", ["greedy"]),
        ("patchstack ledger --show ", [DECISION[:12]]),
        ("patchstack reject --series p", ["paged"]),
        ("patchstack --color a", ["auto", "always"]),
    ],
)
def test_values_come_from_the_nearest_workspace(workspace: Path, asked: Asked, line: str, values: list[str]) -> None:
    below = workspace / "patches"
    answer = asked(below, "bash", line)
    assert (answer.stdout.split(), answer.stderr, answer.code) == (values, "", 0)


def test_every_command_is_completed_by_name(tmp_path: Path) -> None:
    assert asked_as_process(tmp_path, "bash", "patchstack ").stdout.split() == list(COMMANDS)
    assert set(asked_as_process(tmp_path, "bash", "patchstack gate ").stdout.split()) > set(ALONE)


def test_zsh_and_fish_get_a_word_about_each_value(workspace: Path) -> None:
    assert '"7":"seven"' in asked_as_process(workspace, "zsh", "patchstack build --at ").stdout
    told = asked_as_process(workspace, "fish", "patchstack build --at ", _TYPER_COMPLETE_FISH_ACTION="get-args").stdout
    assert "7\tseven\n" in told


def damaged(workspace: Path) -> None:
    (workspace / "patchstack.yaml").write_text("series: [}")


def of_other_kinds(workspace: Path) -> None:
    (workspace / "patchstack.yaml").write_text("series: 7\nsuites: {quick: {gates: no}}\nvariants: []\n")


def gone(workspace: Path) -> None:
    (workspace / "patchstack.yaml").unlink()
    (workspace / "ledger" / f"{DECISION}.json").unlink()


@pytest.mark.parametrize("break_it", [damaged, of_other_kinds, gone])
@pytest.mark.parametrize(
    "line", ["patchstack verify ", "patchstack show ", "patchstack build --at ", "patchstack gate run "]
)
def test_a_workspace_that_cannot_be_read_is_silence(
    workspace: Path, asked: Asked, break_it: Callable[[Path], None], line: str
) -> None:
    break_it(workspace)
    answer = asked(workspace, "bash", line)
    assert (answer.stdout.strip(), answer.stderr, answer.code) == ("", "", 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_nothing_to_run(workspace: Path, asked: Asked, shell: str) -> None:
    evil = "0003-\\$(touch x)`touch y`.patch"
    (workspace / "patches" / evil).touch()
    (workspace / "patchstack.yaml").write_text('series: {"$(touch x)": {patches: patches}, good: {patches: patches}}')
    told = asked(workspace, shell, "patchstack show ", _TYPER_COMPLETE_FISH_ACTION="get-args").stdout
    assert "good" in told
    assert "3" in told
    assert "touch" not in told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_can_be_had(tmp_path: Path, shell: str) -> None:
    told = asked_as_process(tmp_path, shell, "patchstack ", _PATCHSTACK_COMPLETE=f"source_{shell}")
    assert "_PATCHSTACK_COMPLETE=complete_" + shell in told.stdout, told
