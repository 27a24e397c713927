"""Under a policy, a gate that a patch adds also runs, only in a sandbox: it can make the result FAIL, never PASS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import a_fork
from tests.support.checkout import ROOT
from tests.support.programs import program
from tests.support.toy import IMAGE, need_docker

GOOD = "{name: hello, kind: command, program: hello, must: ^hello$}"
BAD = "{name: hello, kind: command, program: hello, must: ^goodbye$}"
MARK = "(brought by this change)"


def workspace(place: Path, gates: str, *trailers: str, own: str = GOOD, models: str = "") -> None:
    """A workspace whose policy has the gate `own`, and whose head has `gates` as well; patches with trailers."""
    message = "Change the kernel\n\n" + "".join(f"New-Gate: {one}\n" for one in trailers)
    fork = a_fork(place, steps=[(message, {"src/kernel.cu": "int x;\n"})])
    text = (
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        "    fork: fork\n    fork_ref: product\n"
    )
    (place / "trusted.yaml").write_text(f"{text}suites:\n  quick:\n    gates:\n      - {own}\n")
    (place / "patchstack.yaml").write_text(f"{text}{models}suites:\n  quick:\n    gates:\n{gates}")
    program(place / "bin", "hello", "echo hello")
    program(place / "bin", "look", 'cat "$@" 2>/dev/null || echo nothing')


def run(place: Path, engine: str = "docker", *more: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    """Return the exit code, the verdict and reason of each gate, and stderr."""
    image = ("--image", IMAGE) if engine == "docker" else ()
    words = ("gate", "run", "--policy-from", "trusted.yaml", "--bin", "bin", "--engine", engine, *image, *more)
    done = subprocess.run(
        [sys.executable, "-m", "patchstack", *words, "--json"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    gates = json.loads(done.stdout)["gates"] if done.stdout else []
    return done.returncode, {one["name"]: (one["verdict"], one["reason"]) for one in gates}, done.stderr


def gates_of(*entries: str) -> str:
    return "".join(f"      - {one}\n" for one in (GOOD, *entries))


def test_a_gate_that_a_patch_brings_runs_in_addition_and_is_marked(tmp_path: Path) -> None:
    need_docker()
    workspace(tmp_path, gates_of("{name: new, kind: command, program: hello, must: ^hello$}"), "new")
    code, gates, told = run(tmp_path)
    assert (code, gates["hello"][0], gates[f"new {MARK}"][0]) == (0, "PASS", "PASS"), told


def test_its_fail_makes_the_result_fail(tmp_path: Path) -> None:
    need_docker()
    workspace(tmp_path, gates_of("{name: new, kind: command, program: hello, must: ^never$}"), "quick/new")
    code, gates, told = run(tmp_path)
    assert (code, gates["hello"][0], gates[f"quick/new {MARK}"][0]) == (1, "PASS", "FAIL"), told


def test_its_pass_makes_no_fail_a_pass_whatever_it_is_named(tmp_path: Path) -> None:
    need_docker()
    evil = "{name: again, kind: command, program: hello, must: ^hello$}"
    # The head changes the gate of the policy, and names it as new; it adds one more.
    workspace(tmp_path, gates_of(evil), "hello", "quick/hello", "again", own=BAD)
    code, gates, told = run(tmp_path)
    assert code == 1, told
    assert gates["hello"][0] == "FAIL"
    assert {name: verdict for name, (verdict, _) in gates.items()} == {"hello": "FAIL", f"again {MARK}": "PASS"}


def test_it_never_runs_on_the_host(tmp_path: Path) -> None:
    made = tmp_path / "was-here"
    program(tmp_path / "bin", "evil", f"touch {made}; echo hello")
    workspace(tmp_path, gates_of("{name: new, kind: command, program: evil, must: hello}"), "new")
    text = (tmp_path / "patchstack.yaml").read_text()
    (tmp_path / "patchstack.yaml").write_text(f"engine: host\n{text}")
    code, gates, told = run(tmp_path, "host")
    assert (code, gates["hello"][0], gates[f"new {MARK}"][0]) == (4, "PASS", "INVALID"), told
    assert "runs only in a sandbox, and the engine host has none" in gates[f"new {MARK}"][1]
    assert not made.exists()


ODD = {
    "an absolute file": ("{name: new, kind: backend-ops, backend: CPU, op: ADD, cases: {file: /etc/passwd}}", "only"),
    "a file above": ("{name: new, kind: backend-ops, backend: CPU, op: ADD, cases: {file: ../secret}}", "only"),
    "a link out": ("{name: new, kind: backend-ops, backend: CPU, op: ADD, cases: {file: link}}", "leads out"),
    "a file that never ends": ("{name: new, kind: command, program: look, args: [pipe], must: x}", None),
    "the home": ("{name: new, kind: command, program: look, args: [~/.ssh/id], must: x}", "only"),
    "its own model": ("{name: new, kind: command, program: look, args: ['{model:mine}'], must: x}", "mine"),
    "a kind that nobody knows": ("{name: new, kind: shell, program: look, must: x}", "is not one of"),
    "no gate": ("{name: other, kind: command, program: hello, must: x}", "no suite has the gate new"),
    "two gates": (f"{GOOD.replace('hello', 'new', 1)}\n      - {GOOD.replace('hello', 'new', 1)}", "several suites"),
    "an entry without end": ("&a {name: new, kind: command, program: hello, must: x, more: [*a]}", "cannot be used"),
}


@pytest.mark.parametrize("what", ODD)
def test_what_an_attacker_writes_is_invalid_and_reads_nothing(tmp_path: Path, what: str) -> None:
    entry, says = ODD[what]
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "secret").write_text("SECRET")
    (place / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "pipe")
    workspace(place, gates_of(entry), "new", models=f"models:\n  mine: {{path: {tmp_path / 'secret'}}}\n")
    code, gates, told = run(place, "host")
    assert (code, gates["hello"][0], gates[f"new {MARK}"][0]) == (4, "PASS", "INVALID"), told
    assert (says or "only in a sandbox") in gates[f"new {MARK}"][1]
    assert "SECRET" not in told


def test_without_a_policy_or_with_gates_named_nothing_is_added(tmp_path: Path) -> None:
    workspace(tmp_path, gates_of("{name: new, kind: command, program: hello, must: ^never$}"), "new")
    assert run(tmp_path, "host", "hello")[:2] == (0, {"hello": run(tmp_path, "host", "hello")[1]["hello"]})
