"""`verify --checks`, `--record`, and `lint`, on a small series."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Patchstack, RunCli
from tests.support.builders import Fork, a_fork, lock_of, write_lock

HEAD = """\
# kept
series:
  mine:
    patches: {series}
    upstream: {upstream}
    pin: "{pin}"  # kept too
    checks:
"""
HOOK = "      - {name: hook, patch: 1, kind: present, pattern: 'changed by commit 1$'}\n"
SITES = "      - {name: places, patch: series, kind: sites, pattern: 'changed by (commit \\d)'}\n"


def a_series(directory: Path, checks: str) -> Fork:
    fork = a_fork(directory)
    write_lock(fork.series, lock_of(fork))
    text = HEAD.format(series=fork.series, upstream=fork.upstream.path, pin=fork.pin)
    (directory / "patchstack.yaml").write_text(text + checks)
    return fork


def test_checks_are_rows_of_the_document_and_of_the_screen(tmp_path: Path, run_cli: RunCli) -> None:
    a_series(tmp_path, HOOK)
    ran = run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", "--checks", "--json")
    assert ran.code == 0, ran
    (check,) = ran.document["checks"]
    assert (check["name"], check["verdict"], check["patch"], check["line"]) == ("hook", "PASS", 1, 8)
    ran = run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", "--checks")
    assert ran.stdout.splitlines()[-1] == "PASS  mine: checks: 1 PASS"
    assert run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", "--json").document["checks"] is None


@pytest.mark.parametrize(("command", "options"), [("verify", ["--checks"]), ("lint", [])])
def test_a_check_that_fails_is_exit_1_and_one_that_cannot_be_judged_4(
    tmp_path: Path, run_cli: RunCli, command: str, options: list[str]
) -> None:
    a_series(tmp_path, HOOK.replace("commit 1$", "nobody"))
    ran = run_cli(command, "--workspace", tmp_path / "patchstack.yaml", *options)
    assert ran.code == 1
    assert ran.stdout.splitlines()[-1] == "FAIL  mine: checks: 1 FAIL"
    (tmp_path / "other").mkdir()
    a_series(tmp_path / "other", HOOK.replace("pattern", "files: [none/**], pattern"))
    ran = run_cli(command, "--workspace", tmp_path / "other" / "patchstack.yaml", *options)
    assert (ran.code, ran.stdout.splitlines()[-1]) == (4, "INVALID  mine: checks: 1 INVALID")


def test_sites_are_recorded_with_date_and_reason_and_nothing_else_changes(
    tmp_path: Path, run_cli: RunCli, patchstack: Patchstack
) -> None:
    a_series(tmp_path, HOOK + SITES)
    path = tmp_path / "patchstack.yaml"
    before = path.read_text().splitlines()
    assert run_cli("verify", "--workspace", path, "--checks").code == 4
    assert patchstack("verify", "--workspace", path, "--record", "places", "--why", "the first three") == 0
    after = path.read_text().splitlines()
    assert after[:8] == before[:8]
    assert after[-5:] == [
        "        sites:",
        "          src/kernel.cu:",
        "            - '(file): commit 1'",
        "            - '(file): commit 2'",
        "            - '(file): commit 3'",
    ]
    assert any(line.strip().endswith(": the first three'") for line in after)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--record", "places"], "--record needs --why"),
        (["--why", "x"], "--why needs --record"),
        (["--record", "none", "--why", "x"], "there is no check none in mine"),
        (["--record", "hook", "--why", "x"], "hook is a check of kind present, which has no sites to record"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path: Path, run_cli: RunCli, options: list[str], told: str) -> None:
    a_series(tmp_path, HOOK + SITES)
    before = (tmp_path / "patchstack.yaml").read_bytes()
    ran = run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", *options)
    assert (ran.code, told in ran.stderr) == (2, True), ran
    assert (tmp_path / "patchstack.yaml").read_bytes() == before


def test_an_empty_set_is_not_recorded(tmp_path: Path, run_cli: RunCli) -> None:
    a_series(tmp_path, SITES.replace("changed by", "nowhere"))
    ran = run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", "--record", "places", "--why", "x")
    assert ran.code == 1
    assert "nothing to record for places" in ran.stderr


def test_a_series_without_checks_has_none_to_run(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    ran = run_cli("verify", *fork.options, "--checks")
    assert ran.code == 2
    assert "no checks exist for patches" in ran.stderr


def test_checks_that_cannot_be_used_are_told_before_anything_else(tmp_path: Path, run_cli: RunCli) -> None:
    a_series(tmp_path, HOOK.replace("present", "presnt"))
    ran = run_cli("verify", "--workspace", tmp_path / "patchstack.yaml", "--checks")
    assert ran.code == 2
    assert "the checks of mine cannot be used" in ran.stderr
    assert ":8: series.mine.checks.kind: 'presnt' is not one of present, absent, sites, command" in ran.stderr
