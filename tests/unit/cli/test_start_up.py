"""Start-up time of every command: the imports before its first output."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from patchstack.cli.gate import ALONE
from patchstack.cli.lazy import Lazy
from patchstack.cli.main import COMMANDS, app
from tests.support.checkout import ROOT

HEAVY = ("pygit2", "rich", "ruamel", "git", "email", "ssl", "concurrent", "platformdirs", "patchstack.workspace")


def imported(statement: str) -> list[str]:
    """Return the heavy modules that a new interpreter has imported after a statement."""
    code = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["export", "--help"], ["--version"], ["gate", "--help"], ["gpu", "--help"], ["ci", "--help"]],
)
def test_help_and_version_import_nothing_of_weight(arguments: list[str]) -> None:
    statement = f"from patchstack.cli.main import app\ntry:\n    app({arguments!r})\nexcept SystemExit:\n    pass"
    assert imported(statement) == []


def test_the_heavy_modules_would_be_seen() -> None:
    assert "pygit2" in imported("import patchstack.demo.build")


def test_verify_reads_a_series_without_libgit2() -> None:
    assert "pygit2" not in imported("import patchstack.cli.verify, patchstack.series.verify.verify")


def test_a_verification_imports_no_code_that_only_explains_or_changes() -> None:
    code = (
        "import sys, patchstack.series.verify.verify, patchstack.report.documents.verify\n"
        "print(*sorted(name for name in sys.modules if name in sys.argv[1:]))"
    )
    unused = ["git.patch.text", "git.diagnose", "series.verify.drift", "series.verify.match", "checks.model"]
    unused += ["workspace.write", "workspace.alone"]
    command = [sys.executable, "-c", code, *(f"patchstack.{name}" for name in [*unused, "git.apply"])]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["patchstack.git.apply"]


def test_the_end_of_a_command_searches_no_objects_for_cycles() -> None:
    code = (
        "import atexit, gc, sys\natexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
        "from patchstack.cli.main import main\nsys.argv[1:] = ['--version']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["True"]


def test_a_command_line_waits_for_its_own_command_alone() -> None:
    loaded = "print(*sorted(name for name in sys.modules if name in targets))"
    code = (
        "import sys\nfrom patchstack.cli.main import COMMANDS, app\n"
        "targets = {one.target.partition(':')[0] for one in COMMANDS.values()}\n"
        "try:\n    app(sys.argv[1:])\nexcept SystemExit:\n    pass\n" + loaded
    )

    def after(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()[-1:]

    assert after("--help") == [""]
    assert after("show", "--help") == ["patchstack.cli.show"]


@pytest.mark.parametrize("commands", [COMMANDS, ALONE], ids=["patchstack", "gate"])
def test_every_command_named_is_there_and_is_told_by_one_sentence(commands: dict[str, Lazy]) -> None:
    runner = CliRunner()
    group = [] if commands is COMMANDS else ["gate"]
    for name, command in commands.items():
        told = runner.invoke(app, [*group, name, "--help"])
        assert told.exit_code == 0, told.output
        assert told.output.startswith(f"Usage: patchstack {' '.join([*group, name])} ")
        assert command.short_help.endswith((".", "?"))


def test_a_command_of_no_name_of_ours_is_refused_with_the_nearest() -> None:
    refused = CliRunner().invoke(app, ["verfy"])
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: no such command 'verfy'\n\nhint: did you mean 'verify'? see 'patchstack --help'\n"
    )
