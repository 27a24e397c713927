"""-q, -v and --color, before and after the name of every command; a value of another option is never read as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from patchstack.cli.main import app
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork
from tests.support.terminal import on_terminal


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a fork with its series, in a workspace."""
    found = a_fork(tmp_path)
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product: {{patches: patches, upstream: upstream, pin: {found.pin}, expect: lock}}\n"
    )
    return found


def commands() -> list[tuple[str, Any]]:
    """Yield every command and group with its words, as a command line loads them."""

    def below(words: list[str], group: Any) -> list[tuple[str, Any]]:
        found = []
        for name in group.commands:
            one = group.commands[name]
            found.append((" ".join([*words, name]), one))
            if hasattr(one, "commands"):
                found += below([*words, name], one)
        return found

    return below([], get_command(app))


def test_every_command_takes_them_once_and_its_help_does_not_repeat_them() -> None:
    found = commands()
    assert {"verify", "gate", "gate run", "gate kl", "gpu status", "ci action"} <= {name for name, _ in found}
    for name, command in found:
        options = [option for parameter in command.params for option in parameter.opts]
        for option in ("--color", "--quiet", "-q", "--verbose", "-v"):
            assert options.count(option) == 1, (name, option)
        assert all(one.hidden for one in command.params if one.name in ("color", "quiet", "verbose")), name


@pytest.mark.parametrize(
    "arguments",
    [
        ("-q", "verify", "--apply-only"),
        ("verify", "-q", "--apply-only"),
        ("verify", "--apply-only", "--quiet"),
        ("verify", "product", "-q", "--apply-only"),
    ],
)
def test_quiet_leaves_results_alone(fork: Fork, run_cli: RunCli, arguments: tuple[str, ...]) -> None:
    loud = run_cli("verify", "--apply-only", "--upstream", "fork")
    assert loud.stderr == "note: product: upstream is fork for this command, not ./upstream\n"
    ran = run_cli(*arguments, "--upstream", "fork")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == loud.stdout


@pytest.mark.parametrize("arguments", [("-v", "lint"), ("lint", "-v"), ("lint", "--verbose"), ("-v", "lint", "-v")])
def test_verbose_names_each_program_once(fork: Fork, run_cli: RunCli, arguments: tuple[str, ...]) -> None:
    ran = run_cli(*arguments)
    lines = ran.stderr.splitlines()
    assert lines
    assert all(line.startswith(("run: git -C ", "run: git cat-file --batch")) for line in lines)
    assert len(lines) == len(set(lines)), "told by one listener"
    assert run_cli("lint").stderr == "", "it ends with the command line"


@pytest.mark.parametrize(
    ("arguments", "painted"),
    [
        (("--color", "always", "lint"), True),
        (("lint", "--color", "always"), True),
        (("lint", "--color=always", "product"), True),
        (("--color", "always", "lint", "--color", "never"), False),
        (("lint",), False),
    ],
)
def test_colour_can_be_asked_for_after_the_command(
    fork: Fork, run_cli: RunCli, arguments: tuple[str, ...], painted: bool
) -> None:
    ran = run_cli(*arguments)
    assert ran.stdout == ("\x1b[32mPASS\x1b[0m" if painted else "PASS") + "  product: clean: 3 patches\n"


def test_a_terminal_is_told_no_colour_after_the_command(fork: Fork, tmp_path: Path) -> None:
    assert "\x1b[32mPASS" in on_terminal(["lint"], tmp_path)
    assert on_terminal(["lint", "--color", "never", "-q"], tmp_path) == "PASS  product: clean: 3 patches\n"


def test_an_unknown_colour_is_wrong_usage_in_our_words(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("lint", "--color", "blue")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(
        "error: invalid value for '--color': 'blue' is not one of 'auto', 'always', 'never'\n\nhint: see '"
    )
    # click names the program as Python was started: in these tests it may be pytest's module.
    assert ran.stderr.endswith("patchstack lint --help'\n")


def test_the_value_of_another_option_is_not_taken_for_one_of_them(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("bisect", "product", "--run", "-q")
    assert ran.code == 2
    assert ran.stderr.endswith(
        "error: program -q does not exist\n\nhint: no shell runs the command; to use one: --run 'sh -c \"…\"'\n"
    )
