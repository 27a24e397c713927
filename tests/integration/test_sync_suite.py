"""`patchstack sync --accept` with a suite in its policy: the new branch is built and gated before the pin moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Places, Ran
from tests.support.checkout import ROOT
from tests.support.toy import MAIN, Toy, a_toy, need_host_tools, variants_built

POLICY = """\
    sync: {require: [test -f main.c], suite: quick}
suites:
  quick:
    gates:
      - {name: version, kind: command, program: toy, args: [--version], must: "^version: 0"}
      - {name: quiet, kind: command, program: toy, args: [], must: "^version", must_not: LOUD}
"""
LOUD = MAIN.replace("return 0", 'puts("LOUD"); return 0')


class Syncing:
    """A toy whose upstream has one new commit, and whose pin moves only after a suite has passed."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy

    def run(self, *arguments: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "patchstack", *arguments],
            cwd=self.toy.root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def accept(self, option: str = "--accept") -> Ran:
        return self.run("sync", option, "--engine", "host")

    @property
    def settings(self) -> Path:
        return self.toy.root / "patchstack.yaml"

    def edit(self, old: str, new: str) -> None:
        text = self.settings.read_text()
        assert old in text
        self.settings.write_text(text.replace(old, new))

    def pin(self) -> str:
        return next(line for line in self.settings.read_text().splitlines() if "pin:" in line).split('"')[1]

    def checks(self) -> dict[str, Any]:
        """Return the checks in the sync's document."""
        found: dict[str, Any] = json.loads(self.run("sync", "--json").stdout)["report"]["checks"]
        return found


@pytest.fixture
def syncing(tmp_path: Path) -> Syncing:
    need_host_tools()
    toy = a_toy(tmp_path, "host")
    found = Syncing(toy)
    fork = f"    variant: cpu\n    fork: {toy.fork.repo.path}\n    fork_ref: product\n"
    found.edit("    variant: cpu\n", fork + POLICY)
    assert found.run("export").code == 0
    return found


def begin(syncing: Syncing, main: str) -> str:
    to = syncing.toy.fork.upstream.commit("Upstream goes on (#3)", {"main.c": main})
    ran = syncing.run("sync", "--to", "main", "--worktree", str(syncing.toy.root / "work"))
    assert ran.code == 0, ran
    return to


def test_the_pin_moves_when_the_suite_has_passed(syncing: Syncing, places: Places) -> None:
    to = begin(syncing, MAIN.replace("return 0", "return  0"))
    ran = syncing.accept()
    assert ran.code == 0, ran
    for told in ("required: test -f main.c", "PASS     build new pin: ", "PASS     gate quiet (new pin): "):
        assert told in ran.stderr
    assert syncing.pin() == to
    (record,) = (syncing.toy.root / ".patchstack" / "synced").iterdir()
    checks = json.loads(record.read_text())["report"]["checks"]
    assert checks["verdict"] == "PASS"
    names = ["test -f main.c", "build new pin", "gate version (new pin)", "gate quiet (new pin)"]
    assert [step["name"] for step in checks["steps"]] == names
    assert len(checks["steps"][1]["evidence"]["build"]) == 64
    assert variants_built(places.cache) == [{"value": "cpu", "from": "toy in patchstack.yaml"}]
    assert syncing.run("verify").code == 0


def test_a_gate_that_fails_keeps_the_pin_and_continue_asks_again(syncing: Syncing) -> None:
    to = begin(syncing, LOUD)
    old = syncing.pin()
    ran = syncing.accept()
    assert ran.code == 1
    assert "error: the pin does not move: suite quick does not hold on the new branch" in ran.stderr
    assert "  - FAIL gate quiet (new pin): " in ran.stderr
    assert "hint: use --drop N --why TEXT to drop a patch, or --abort; " in ran.stderr
    shown = syncing.run("sync")
    assert shown.code == 1
    assert "FAIL     gate quiet (new pin): " in shown.stdout
    assert "toy: checks before the pin moves: FAIL" in shown.stdout
    assert "next: patchstack sync toy --continue checks again, and moves the pin if all holds" in shown.stderr
    assert syncing.pin() == old
    assert not (syncing.toy.root / ".patchstack" / "synced").exists()
    syncing.edit("must_not: LOUD", "must_not: QUIET")  # the gate was wrong
    again = syncing.accept("--continue")
    assert again.code == 0, again
    assert "compiling" not in again.stderr
    assert syncing.pin() == to


def test_a_gate_that_cannot_be_judged_keeps_the_pin(syncing: Syncing) -> None:
    syncing.edit("program: toy, args: [--version]", "program: gone, args: []")
    to = begin(syncing, MAIN.replace("return 0", "return  0"))
    ran = syncing.accept()
    assert ran.code == 4
    assert "error: the pin does not move: suite quick could not be judged" in ran.stderr
    assert "  - INVALID gate version (new pin): gone is not in" in ran.stderr
    assert (syncing.run("sync").code, syncing.checks()["verdict"]) == (4, "INVALID")
    syncing.edit("program: gone, args: []", "program: toy, args: [--version]")
    assert syncing.accept("--continue").code == 0
    assert syncing.pin() == to


def test_a_branch_that_does_not_compile_keeps_the_pin(syncing: Syncing) -> None:
    begin(syncing, MAIN.replace("return 0", "return oops"))
    old = syncing.pin()
    ran = syncing.accept()
    assert ran.code == 1
    assert "  - FAIL build new pin: main.c:" in ran.stderr and "'oops' undeclared" in ran.stderr
    assert syncing.pin() == old


def test_a_command_that_fails_keeps_the_suite_from_being_run(syncing: Syncing) -> None:
    syncing.edit("test -f main.c", "test -f gone.c")
    begin(syncing, MAIN.replace("return 0", "return  0"))
    ran = syncing.accept()
    assert ran.code == 1
    assert "the pin does not move: test -f gone.c exited 1" in ran.stderr
    assert "suite quick" not in ran.stderr
    assert [step["verdict"] for step in syncing.checks()["steps"]] == ["FAIL"]


def test_another_branch_forgets_what_was_checked(syncing: Syncing) -> None:
    begin(syncing, LOUD)
    assert syncing.accept().code == 1
    assert syncing.run("sync", "--drop", "2", "--why", "not wanted").code == 0
    shown = syncing.run("sync")
    assert (shown.code, "checks before" in shown.stdout) == (0, False)
    ran = syncing.run("sync", "--continue")
    assert ran.code == 0 and syncing.pin() == syncing.toy.fork.pin, "continue alone accepts nothing"


def test_a_suite_that_is_not_there_is_told_before_the_work(syncing: Syncing) -> None:
    syncing.edit("suite: quick", "suite: slow")
    ran = syncing.run("sync", "--to", "main")
    assert ran.code == 2
    assert "error: there is no suite slow" in ran.stderr
    assert not (syncing.toy.root / ".patchstack").exists()


def test_a_suite_without_a_variant_to_build_is_told_before_the_work(syncing: Syncing) -> None:
    syncing.edit("    variant: cpu\n", "")
    ran = syncing.run("sync", "--to", "main")
    assert ran.code == 2
    assert "error: suite quick needs a build of toy, but no variant is named" in ran.stderr
    assert not (syncing.toy.root / ".patchstack").exists()


def test_options_of_the_suite_go_with_accept(syncing: Syncing) -> None:
    ran = syncing.run("sync", "--to", "main", "--engine", "host")
    assert ran.code == 2
    assert "error: --engine and --unproven require --accept or --continue" in ran.stderr
