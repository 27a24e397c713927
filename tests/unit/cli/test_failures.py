"""Failures of the command line: each has an exit code and a message, our bugs have a log, and none prints a
traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from patchstack.cli.failures import guarded, without_credentials
from patchstack.errors import ConfigError, MissingError, NotHeldError, PatchstackError, UsageError
from patchstack.report.streams import paint_words
from tests.conftest import Patchstack, Places, RunCli
from tests.support.builders import a_fork
from tests.support.checkout import ROOT


def raises(error: BaseException) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("x"), 2), (ConfigError("x"), 2), (MissingError("x"), 3), (NotHeldError("x"), 1), (SystemExit(5), 5)],
)
def test_every_failure_has_its_exit_code(error: BaseException, code: int) -> None:
    assert guarded(raises(error)) == code


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ((), "error"),
        (("-v",), "error[PS0312]"),
        (("--verbose",), "error[PS0312]"),
        (("--json",), "error[PS0312]"),
        (("-q",), "error"),
    ],
)
def test_an_error_is_shown_with_its_code_when_asked_or_for_a_program(
    patchstack: Patchstack, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...], word: str
) -> None:
    given = ("--patches", str(tmp_path), "--pin", "0" * 40, "--upstream", str(tmp_path))
    (tmp_path / "0001-x.patch").write_text(
        "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
    )
    assert patchstack("verify", *given, *options) == 2
    assert f"{word}: {tmp_path} is not a git repository\n" in capfd.readouterr().err
    assert patchstack("verify", *given) == 2
    assert "[PS" not in capfd.readouterr().err, "the codes end with the command line"


def test_a_code_is_coloured_with_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert paint_words("error[PS0312]: x", sys.stderr) == "\x1b[1;31merror[PS0312]:\x1b[0m x"
    assert paint_words("error[: x", sys.stderr) == "error[: x"


def test_a_command_that_returns_holds() -> None:
    assert guarded(lambda: None) == 0


def test_an_error_is_told_with_its_problems_and_its_hint() -> None:
    error = PatchstackError("it failed", problems=["one", "two"], hint="do this")
    assert error.render() == "error: it failed\n  - one\n  - two\n\nhint: do this"
    assert PatchstackError("it failed").render() == "error: it failed"


def cached_workspace(directory: Path, upstream: str) -> None:
    fork = a_fork(directory)
    (directory / "patchstack.yaml").write_text(
        f"variants: {{toy: {{targets: [toy]}}}}\nseries:\n  product:\n    patches: patches\n"
        f"    upstream: {upstream}\n    pin: {fork.pin}\n    fork: fork\n    fork_ref: product\n    variant: toy\n"
    )


@pytest.mark.parametrize("below", ["", "a/b"])
@pytest.mark.parametrize(
    ("command", "local"),
    [
        (["verify"], False),
        (["status"], False),
        (["canary"], False),
        (["export", "--dry-run"], False),
        (["build", "--engine", "host"], True),
        (["bisect", "--run", "true"], True),
    ],
)
def test_a_cache_that_cannot_be_written_is_named_with_the_variable_that_moves_it(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, command: list[str], local: bool, below: str
) -> None:
    cached_workspace(tmp_path, "upstream" if local else f"file://{tmp_path}/upstream")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PATCHSTACK_CACHE", str(tmp_path / "file" / below))
    ran = run_cli(*command)
    assert ran.code == 3, ran
    assert f"error: the cache directory {tmp_path / 'file' / below} cannot be used: Not a directory: " in ran.stderr
    assert "hint: set PATCHSTACK_CACHE to a writable directory" in ran.stderr


@pytest.mark.parametrize("command", ["verify", "status", "export"])
def test_with_local_repositories_no_cache_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    cached_workspace(tmp_path, "upstream")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PATCHSTACK_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "argv", ["patchstack", command])
    from patchstack.cli.main import app

    assert guarded(app) == 0, capsys.readouterr()


def test_an_interrupt_is_told_in_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raises(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_is_logged_where_the_message_says_and_shown_in_one_line(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raises(ZeroDivisionError("oops"))) == 70
    told = capsys.readouterr().err
    first, blank, hint = told.splitlines()
    assert (first, blank) == ("error: a bug in patchstack: ZeroDivisionError: oops", "")
    log = Path(hint.partition("the traceback is in ")[2].partition(";")[0])
    assert log.is_relative_to(places.home)
    assert "Traceback (most recent call last)" in log.read_text()


def test_a_bug_is_told_even_where_no_log_can_be_written(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (places.home / "file").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(places.home / "file"))
    assert guarded(raises(ZeroDivisionError("oops"))) == 70
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_reason_for_a_traceback(tmp_path: Path, options: list[str]) -> None:
    fork = a_fork(tmp_path, 2)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "patchstack", "verify", *fork.options, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write)
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["verify", "--no-such-option"], ["no-such-command"]])
def test_wrong_usage_is_told_on_stderr(run_cli: RunCli, arguments: list[str]) -> None:
    ran = run_cli(*arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert arguments[-1] in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["verify", "--help"], ["verify", "-h"]])
def test_help_is_given_on_stdout(run_cli: RunCli, arguments: list[str]) -> None:
    ran = run_cli(*arguments)
    assert (ran.code, ran.stderr) == (0, "")
    assert "Usage:" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["verfy"],
            "error: no such command 'verfy'\n\nhint: did you mean 'verify'? see 'patchstack --help'\n",
        ),
        (
            ["verify", "--pn", "x"],
            "error: no such option: --pn\n\nhint: did you mean one of --help, --json, --pin? "
            "see 'patchstack verify --help'\n",
        ),
        (["show"], "error: missing argument '[SERIES] N'\n\nhint: see 'patchstack show --help'\n"),
    ],
)
def test_wrong_usage_is_told_as_every_other_error(run_cli: RunCli, arguments: list[str], told: str) -> None:
    assert run_cli(*arguments).stderr == told


def test_an_error_of_one_of_several_series_names_it_after_the_word() -> None:
    assert PatchstackError("it failed", hint="do this").render("paged") == "error: paged: it failed\n\nhint: do this"


def test_a_failure_of_the_machine_names_the_path_and_gives_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raises(OSError(28, "No space left on device", "/x/y"))) == 3
    first, blank, hint = capsys.readouterr().err.splitlines()
    assert (first, blank) == ("error: /x/y: No space left on device", "")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_printed(run_cli: RunCli, option: str) -> None:
    assert run_cli(option).stdout.startswith("patchstack ")


def test_colour_can_be_asked_for_and_the_words_stay(run_cli: RunCli) -> None:
    ran = run_cli("--color", "always", "verify", "--patches", "nowhere")
    assert ran.stderr.startswith("\x1b[1;31merror:\x1b[0m --patches needs --pin\n\n\x1b[36mhint:\x1b[0m ")
    assert "\x1b" not in run_cli("verify", "--patches", "nowhere").stderr


def test_a_table_to_a_pipe_is_coloured_only_if_that_is_asked_for(run_cli: RunCli, tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    plain = run_cli("verify", *fork.options).stdout
    coloured = run_cli("--color", "always", "verify", *fork.options).stdout
    assert "\x1b" not in plain
    assert coloured.count("\x1b[32mok\x1b[0m") == 2
    assert coloured.replace("\x1b[32m", "").replace("\x1b[0m", "") == plain


def test_quiet_leaves_results_and_errors(run_cli: RunCli, tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    (fork.series / "series.lock").unlink(missing_ok=True)
    loud, hushed = (run_cli(*options, "verify", *fork.options, "--apply-only") for options in ([], ["-q"]))
    assert hushed.stdout == loud.stdout
    assert hushed.stderr == ""
    assert run_cli("-q", "verify", "--patches", "nowhere").stderr.startswith("error: --patches needs --pin")


def test_verbose_names_every_program_that_is_run_without_passwords(run_cli: RunCli, tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    told = run_cli("-v", "verify", *fork.options).stderr
    assert "run: git " in told
    assert "run: " not in run_cli("verify", *fork.options).stderr
    assert without_credentials("git clone https://me:secret@x.org/y") == "git clone https://x.org/y"
