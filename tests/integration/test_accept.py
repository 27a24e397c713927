"""`patchstack accept` and `reject`: a candidate of a real fork, built and gated on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchstack.workspace.alone import alone_in
from tests.conftest import Places
from tests.support.builders import run_git
from tests.support.checkout import ROOT
from tests.support.terminal import live_lines, on_terminal, without_colour
from tests.support.toy import CMAKE, MAIN, Toy, a_toy, need_host_tools, variants_built

SUITES = """\
suites:
  quick:
    gates:
      - {name: version, kind: command, program: toy, args: [--version], must: "^version: 0"}
      - {name: quiet, kind: command, program: toy, args: [], must: "^version", must_not: LOUD}
"""
STEPS = (
    *("verify", "lint", "build before", "gate version (before)", "gate quiet (before)"),
    *("build candidate", "gate version (candidate)", "gate quiet (candidate)"),
)
BEGUN = tuple(f"{step}, {1 if 'version' in step else 2} of 2" if step.startswith("gate ") else step for step in STEPS)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    need_host_tools()
    made = a_toy(tmp_path, "host")
    workspace = tmp_path / "patchstack.yaml"
    text = workspace.read_text().replace(
        "    variant: cpu\n", f"    variant: cpu\n    fork: {made.fork.repo.path}\n    fork_ref: product\n"
    )
    workspace.write_text(text + SUITES)
    run(made, "export", check=True)
    return made


def start(toy: Toy, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "patchstack", *arguments],
        cwd=toy.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(toy: Toy, *arguments: str, check: bool = False) -> tuple[int, str, str]:
    child = start(toy, *arguments)
    stdout, stderr = child.communicate(timeout=120)
    assert "Traceback" not in stderr, stderr
    assert not check or child.returncode == 0, (stdout, stderr)
    return child.returncode, stdout, stderr


def accept(toy: Toy, *more: str) -> tuple[int, str, str]:
    return run(toy, "accept", "product", "--engine", "host", *more)


def patches(toy: Toy) -> list[str]:
    return sorted(path.name for path in toy.fork.series.glob("*.patch"))


def candidate(toy: Toy, main: str = MAIN.replace("return 0", "return  0"), subject: str = "A candidate") -> str:
    commit = toy.fork.repo.commit(subject, {"main.c": main})
    toy.fork.commits.append(commit)
    return commit


def test_each_step_is_told_when_it_begins_and_when_it_ends(toy: Toy) -> None:
    candidate(toy)
    code, _, stderr = accept(toy, "--why", "Spaces are nice.")
    assert code == 0, stderr
    timed = re.sub(r"\([^()]*\d s\)$", "(TIME)", stderr, flags=re.MULTILINE)
    steps = [line for line in timed.splitlines() if line.endswith(" (TIME)") or line in BEGUN]
    assert [line.partition(":")[0] for line in steps] == [
        told for begun, step in zip(BEGUN, STEPS, strict=True) for told in (begun, f"PASS     {step}")
    ]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", stderr)
    quiet = accept(toy, "-q")
    assert not any(step in quiet[2].splitlines() for step in BEGUN), quiet[2]


def test_a_terminal_sees_which_step_holds_the_time(toy: Toy) -> None:
    slow = MAIN.replace("int main(", "#include <unistd.h>\nint main(").replace("return 0", "sleep(1); return 0")
    candidate(toy, slow)
    told = on_terminal(["accept", "product", "--engine", "host"], toy.root)
    lines = live_lines(told)
    for step in ("gate version (candidate)", "gate quiet (candidate)"):
        assert any(line.startswith(step) for line in lines), (step, lines)
    assert "compiling" in told, "a build has a bar of its own"
    assert all(len(line) < 80 for line in lines)
    assert re.search(r"^[a-z ()]+ took [\d. a-z]+ s of [\d. a-z]+ s$", without_colour(told), re.MULTILINE)


def test_a_good_candidate_is_written_down_and_exported(toy: Toy) -> None:
    commit = candidate(toy)
    assert len(patches(toy)) == 2
    code, stdout, stderr = accept(toy, "--why", "Spaces are nice.")
    assert code == 0, stderr
    assert f"accepted {commit[:12]}: the series toy has it now" in stdout
    for line in (
        "verify: 2 patches give",
        "build before",
        "build candidate",
        "gate version (before)",
        "gate quiet (candidate)",
    ):
        assert line in stderr, stderr
    assert len(patches(toy)) == 3
    assert run(toy, "verify")[0] == 0
    (decision,) = (toy.root / "ledger").iterdir()
    document = json.loads(decision.read_text())
    assert document["outcome"] == "accepted"
    assert document["why"] == "Spaces are nice."
    assert document["candidates"][0]["commit"] == commit
    assert document["candidates"][0]["diff"].startswith("diff --git a/main.c b/main.c")
    assert all(len(step.get("observations", [])) <= 3 for step in document["evidence"]["steps"])


def test_the_ledger_of_a_series_without_context_keeps_no_text_of_upstreams(toy: Toy) -> None:
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace("    variant: cpu\n", "    variant: cpu\n    form: anchored\n"))
    candidate(toy, main=MAIN.replace("return 0", "return  0"))
    code, _, stderr = run(toy, "reject", "product", "--why", "no")
    assert code == 0, stderr
    (decision,) = (toy.root / "ledger").iterdir()
    diff = json.loads(decision.read_text())["candidates"][0]["diff"]
    lines = diff.splitlines()
    assert [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    hunks = diff[diff.index("@@") :].splitlines()
    assert not [line for line in hunks if line.startswith(" ")], diff
    assert [line for line in hunks if line.startswith("@@")] == [line for line in hunks if line.endswith("@@")], diff


def test_accepting_again_changes_nothing_and_runs_nothing(toy: Toy) -> None:
    candidate(toy)
    assert accept(toy)[0] == 0
    before = {path: path.read_bytes() for path in toy.root.rglob("*") if path.is_file() and ".git" not in path.parts}
    code, _, stderr = accept(toy)
    assert code == 0
    assert "compiling" not in stderr
    after = {path: path.read_bytes() for path in toy.root.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert after == before


def test_a_candidate_that_fails_a_gate_is_not_accepted_and_nothing_is_written(toy: Toy) -> None:
    candidate(toy, MAIN.replace("return 0", 'puts("LOUD"); return 0'))
    code, stdout, stderr = accept(toy)
    assert code == 1
    assert "not accepted: gate quiet (candidate). The series is unchanged" in stdout
    assert "PASS     gate version (candidate)" in stderr
    assert len(patches(toy)) == 2
    assert not (toy.root / "ledger").exists()


def test_a_rejection_has_the_evidence_that_accept_saw(toy: Toy) -> None:
    commit = candidate(toy, MAIN.replace("return 0", 'puts("LOUD"); return 0'))
    assert accept(toy)[0] == 1
    assert run(toy, "reject", "product", "--why", "It is loud.")[0] == 0
    (decision,) = (toy.root / "ledger").iterdir()
    steps = {one["name"]: one for one in json.loads(decision.read_text())["evidence"]["steps"]}
    loud = steps["gate quiet (candidate)"]
    assert (loud["verdict"], loud["kind"]) == ("FAIL", "command")
    assert steps["gate version (candidate)"]["verdict"] == "PASS"
    records = json.loads(decision.read_text())["evidence"]["records"]
    assert all((toy.root / "evidence" / "records" / f"{records[key]}.json").is_file() for key in loud["observations"])
    shown = run(toy, "ledger", "--show", decision.stem[:10])[1]
    assert "  FAIL    gate quiet (candidate): it prints what it must not" in shown
    (toy.root / "evidence" / "candidates" / f"{commit}.json").write_text("{")
    toy.fork.repo.amend("Another candidate", {"main.c": MAIN.replace("return 0", 'puts("LOUD"); return  0')})
    assert run(toy, "reject", "product", "--why", "Nobody looked at this one.")[0] == 0
    assert [
        json.loads(path.read_text())["evidence"] for path in (toy.root / "ledger").iterdir() if path != decision
    ] == [{}]


def test_a_candidate_that_does_not_compile_is_not_accepted(toy: Toy) -> None:
    candidate(toy, "int main(void) { return oops; }\n")
    code, stdout, stderr = accept(toy)
    assert code == 1
    assert "FAIL     build candidate: main.c:1: 'oops' undeclared" in stderr
    assert "not accepted: build candidate" in stdout


def test_a_series_that_is_not_the_fork_below_the_candidate_stops_everything(toy: Toy) -> None:
    candidate(toy)
    path = next(toy.fork.series.glob("0002-*"))
    path.write_text(path.read_text().replace('+#include "rows.h"', '+#include "./rows.h"'))
    code, stdout, stderr = accept(toy)
    assert code == 1
    assert "not accepted: verify" in stdout
    assert "build" not in stderr


def test_a_file_that_says_pass_is_no_option_any_more(toy: Toy, tmp_path: Path) -> None:
    candidate(toy)
    result = tmp_path / "bench.json"
    result.write_text('{"verdict": "PASS"}')
    code, _, stderr = accept(toy, "--benchmark", str(result))
    assert code == 2
    assert "error: --benchmark was removed: a file that says PASS proves nothing" in stderr
    assert "hint: set accept: {bench: [{workload: NAME, demand: keep}]} in patchstack.yaml" in stderr


def test_a_comparison_that_the_policy_asks_for_is_missing_until_it_ran(toy: Toy) -> None:
    """The built programs are measured: here `toy`, which prints a rate."""
    workspace = toy.root / "patchstack.yaml"
    workload = '{kind: command, program: toy, figures: {version: "^version: ([0-9.]+)"}, demand: keep}'
    workspace.write_text(
        workspace.read_text() + f"workloads:\n  quick: {workload}\naccept:\n  bench: [{{workload: quick}}]\n"
    )
    candidate(toy)
    code, stdout, stderr = accept(toy)
    assert code == 4, stderr
    assert "not accepted: bench quick. The series is unchanged" in stdout
    assert "INVALID  bench quick: no comparison of build " in stderr
    assert "bench      quick: a comparison of the two builds that meets the demand keep" in accept(toy, "--dry-run")[1]


def test_dry_run_says_what_is_known_and_writes_nothing(toy: Toy) -> None:
    candidate(toy)
    code, stdout, _ = accept(toy, "--dry-run")
    assert code == 0
    assert stdout.count("to be built") == 2
    assert not (toy.root / "ledger").exists()
    assert not (toy.root / "evidence").exists()
    assert accept(toy)[0] == 0
    assert accept(toy, "--dry-run")[1].count(", known") == 2


def test_a_range_is_accepted_as_one_decision(toy: Toy) -> None:
    below = toy.fork.commits[-1]
    first = candidate(toy)
    second = candidate(toy, MAIN.replace("return 0", "return   0"), "Another")
    code, _, stderr = run(toy, "accept", f"{below}..product", "--engine", "host")
    assert code == 0, stderr
    (decision,) = (toy.root / "ledger").iterdir()
    assert [one["commit"] for one in json.loads(decision.read_text())["candidates"]] == [first, second]
    code, _, stderr = run(toy, "accept", "product..product", "--engine", "host")
    assert code == 2
    assert "the range product..product is empty" in stderr


def test_killed_at_any_time_and_run_again_it_is_accepted_once(toy: Toy) -> None:
    candidate(toy)
    delay = 0.3
    while True:
        child = start(toy, "accept", "product", "--engine", "host")
        try:
            child.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.communicate(timeout=30)
            assert len(patches(toy)) in (2, 3)
            delay *= 1.5
            continue
        break
    time.sleep(0.1)
    assert child.returncode == 0
    assert len(patches(toy)) == 3
    assert len(list((toy.root / "ledger").glob("*.json"))) == 1
    assert run(toy, "verify")[0] == 0


def test_a_rejected_candidate_is_kept_found_and_warned_of(toy: Toy) -> None:
    loud = MAIN.replace("return 0", "print_everything_twice(); return 0").replace(
        "int main", "static void print_everything_twice(void) { puts(TOY_COMMIT); }\n\nint main"
    )
    commit = candidate(toy, loud, "Print everything twice")
    code, stdout, _ = run(toy, "reject", "product", "--why", "Nobody reads it.", "--tag", "output")
    assert code == 0
    assert f"rejected {commit[:12]}" in stdout
    assert "Print everything twice" in run(toy, "ledger", "print_everything_twice")[1]
    assert "no decision is about silence" in run(toy, "ledger", "silence")[2]
    (path,) = (toy.root / "ledger").iterdir()
    shown = run(toy, "ledger", "--show", path.stem[:10], "--diff")[1]
    assert "Nobody reads it." in shown
    assert "+static void print_everything_twice(void)" in shown
    toy.fork.repo.amend("Print it twice, differently", {"main.c": loud.replace("puts", "(void)puts")})
    code, _, stderr = accept(toy, "--without-gates")
    assert code == 0, "it only warns"
    assert "warning: " in stderr
    assert "Nobody reads it." in stderr
    code, _, stderr = run(toy, "reject", "product", "--why", " ")
    assert code == 2
    assert "a rejection needs a reason" in stderr
    code, _, stderr = run(toy, "reject", "product", "--why", "After all.")
    assert code == 2
    assert "accepted it" in stderr


def test_a_suite_whose_gate_cannot_be_judged_is_invalid(toy: Toy) -> None:
    workspace = toy.root / "patchstack.yaml"
    text = workspace.read_text().replace("program: toy, args: [--version]", "program: gone, args: []")
    workspace.write_text(text.replace("targets: [toy]", "targets: [toy], optional_targets: [gone]"))
    candidate(toy)
    code, stdout, stderr = accept(toy)
    assert code == 4
    assert "INVALID  gate version (before): gone is not in" in stderr
    assert "not accepted" in stdout


def test_a_program_that_no_target_makes_is_named_before_anything_is_compiled(toy: Toy, places: Places) -> None:
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(workspace.read_text().replace("program: toy, args: [--version]", "program: gone, args: []"))
    candidate(toy)
    code, stdout, stderr = accept(toy)
    assert (code, stdout) == (3, "")
    assert "error: the acceptance cannot start: requirements are missing" in stderr
    assert "  - gone, which version runs: no target of variant cpu builds it" in stderr
    assert "verify" not in stderr.splitlines()
    assert not (places.cache / "builds").exists()


def test_packages_that_prove_a_build_are_looked_for_before_anything_is_compiled(toy: Toy, places: Places) -> None:
    candidate(toy)
    (toy.root / "without" / "elftools").mkdir(parents=True)
    hidden = (
        "import importlib.util as u\nfind = u.find_spec\nu.find_spec = lambda n: find(n) if n != 'elftools' else None\n"
    )
    (toy.root / "without" / "sitecustomize.py").write_text(hidden)
    child = subprocess.run(
        [sys.executable, "-m", "patchstack", "accept", "product", "--engine", "host"],
        cwd=toy.root,
        env={**os.environ, "PYTHONPATH": f"{toy.root / 'without'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 3, child.stderr
    assert "  - the Python package pyelftools, which proves and records a build" in child.stderr
    assert not (places.cache / "builds").exists()


def test_lint_is_asked_before_anything_is_compiled(toy: Toy, places: Places) -> None:
    workspace = toy.root / "patchstack.yaml"
    policy = "    variant: cpu\n    lint: {trailers: [Reason]}\n"
    workspace.write_text(workspace.read_text().replace("    variant: cpu\n", policy))
    candidate(toy)
    code, stdout, stderr = accept(toy)
    assert code == 1
    assert "not accepted: lint. The series is unchanged" in stdout
    line = next(one for one in stderr.splitlines() if one.startswith("FAIL "))
    assert line.startswith("FAIL     lint: 0003-A-candidate.patch: trailers: ")
    assert "in other patches" in line
    assert not (places.cache / "builds").exists()
    toy.fork.repo.branch("product", toy.fork.commits[-2])
    toy.fork.repo.commit("A candidate", {"main.c": MAIN.replace("return 0", "return  0")}, body="Reason: spaces")
    code, _, stderr = accept(toy)
    assert code == 0, stderr
    assert "PASS     lint: the candidate keeps the rules; 2 in other patches" in stderr


def test_who_must_wait_for_an_accept_is_told_for_whom(toy: Toy) -> None:
    candidate(toy)
    with alone_in(toy.root, "patchstack accept two", lambda line: None):
        child = start(toy, "accept", "product", "--engine", "host", "--without-gates")
        assert child.stderr is not None
        told = child.stderr.readline()
        assert told.startswith(f"waiting: process {os.getpid()} of "), told
        assert "(patchstack accept two, since " in told
        time.sleep(0.5)
        assert child.poll() is None
        assert not (toy.root / "ledger").exists()
    child.communicate(timeout=120)
    assert child.returncode == 0
    assert not list(toy.root.glob(".patchstack*"))


def test_a_series_that_was_written_meanwhile_is_not_decided_on(toy: Toy) -> None:
    """A program that ignores our lock writes the series while the candidate is built."""
    lock = toy.fork.series / "series.lock"
    slow = MAIN.replace("return 0", "return 0 /* slow */")
    cmake = CMAKE + "execute_process(COMMAND sleep 5)\n"
    toy.fork.repo.commit("A slow build", {"main.c": slow, "CMakeLists.txt": cmake})
    child = start(toy, "accept", "product", "--engine", "host", "--without-gates")
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("build candidate"):
            break
    lock.write_text(lock.read_text() + "# written by another\n")
    _, stderr = child.communicate(timeout=120)
    assert child.returncode == 1, stderr
    assert f"error: {lock} was changed by another program; nothing was written" in stderr
    assert not list((toy.root / "ledger").glob("*.json"))
    assert len(patches(toy)) == 2


def require_pushed(toy: Toy) -> None:
    """Set the policy, and give the fork a remote that has its branch."""
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(
        workspace.read_text().replace("    variant: cpu\n", "    variant: cpu\n    require_pushed: true\n")
    )
    run_git("init", "-q", "--bare", "server", cwd=toy.root)
    toy.fork.repo.git("remote", "add", "server", toy.root / "server")
    toy.fork.repo.git("push", "-q", "server", "product")


def test_a_candidate_that_no_remote_has_is_refused_before_anything_is_built(toy: Toy, places: Places) -> None:
    require_pushed(toy)
    commit = candidate(toy)
    for option in ((), ("--dry-run",)):
        code, stdout, stderr = accept(toy, *option)
        assert (code, stdout) == (1, "")
        assert f"error: the fork is not pushed: server/product does not have {commit[:12]}" in stderr
        assert f"hint: run 'git -C {toy.fork.repo.path} push', then run this command again" in stderr
    assert not (places.cache / "builds").exists(), "the check comes before the builds"
    assert not (toy.root / "ledger").exists()
    assert len(patches(toy)) == 2
    toy.fork.repo.git("push", "-q", "server", "product")
    code, _, stderr = accept(toy)
    assert code == 0, stderr
    assert "not pushed" not in stderr
    assert len(patches(toy)) == 3


def test_a_candidate_on_a_branch_of_its_own_is_pushed_if_a_remote_has_that_branch(toy: Toy) -> None:
    require_pushed(toy)
    toy.fork.repo.branch("idea")
    commit = candidate(toy)
    code, _, stderr = run(toy, "accept", "idea", "--engine", "host", "--dry-run")
    assert code == 1
    assert f"error: the fork is not pushed: server/product does not have {commit[:12]}" in stderr
    toy.fork.repo.git("push", "-q", "server", "idea")
    for ref in ("idea", "server/idea"):
        code, _, stderr = run(toy, "accept", ref, "--engine", "host", "--dry-run")
        assert code == 0, stderr
        assert "not pushed" not in stderr


def test_without_the_policy_a_candidate_that_is_not_pushed_is_a_warning(toy: Toy) -> None:
    candidate(toy)
    code, _, stderr = accept(toy, "--without-gates")
    assert code == 0
    told = f"warning: the fork is not pushed: no remote of {toy.fork.repo.path} has a branch product\n"
    assert stderr.startswith(told), "it is said before the builds"
    assert stderr.count("not pushed") == 1


def test_a_build_records_where_its_variant_came_from_as_build_does(toy: Toy, places: Places) -> None:
    candidate(toy)
    assert accept(toy, "--without-gates")[0] == 0
    from_workspace = {"value": "cpu", "from": "toy in patchstack.yaml"}
    assert variants_built(places.cache) == [from_workspace, from_workspace]
    code, _, stderr = run(toy, "build", "--engine", "host")
    assert code == 0, stderr
    assert "compiling" not in stderr, "the key does not depend on it"
    candidate(toy, MAIN.replace("return 0", "return   0"))
    assert accept(toy, "--without-gates", "--variant", "cpu")[0] == 0
    assert variants_built(places.cache) == [{"value": "cpu", "from": "--variant"}, from_workspace, from_workspace]


def test_a_step_says_which_observations_were_recalled(toy: Toy) -> None:
    def steps(*more: str) -> dict[str, tuple[int, int]]:
        """Return, by gate, the number of its observations, and how many of them were recalled."""
        code, stdout, stderr = accept(toy, "--json", *more)
        assert code == 0, stderr
        found = {step["name"]: step["evidence"] for step in json.loads(stdout)["steps"] if "gate" in step["name"]}
        assert all(set(one["recalled"]) <= set(one["observations"]) for one in found.values())
        return {name: (len(one["observations"]), len(one["recalled"])) for name, one in found.items()}

    candidate(toy, MAIN.replace("return 0", 'puts("more"); return 0'))
    names = [f"gate {gate} ({which})" for which in ("before", "candidate") for gate in ("version", "quiet")]
    assert steps() == dict.fromkeys(names, (1, 0))
    (decision,) = (toy.root / "ledger").iterdir()
    written = json.loads(decision.read_text())["evidence"]["steps"]
    assert [step["recalled"] for step in written if step["name"] in names] == [[]] * 4
    assert run(toy, "ledger", "--show", decision.stem)[0] == 0
    candidate(toy, MAIN.replace("return 0", 'puts("most"); return 0'))
    assert steps() == dict.fromkeys(names[:2], (1, 1)) | dict.fromkeys(names[2:], (1, 0))
    candidate(toy, MAIN.replace("return 0", '/* why */ puts("most"); return 0'), "A comment")
    assert steps() == dict.fromkeys(names, (1, 1)), "the programs are the same but for the key that they carry"
    assert run(toy, "ledger", "--check")[0] == 0
    assert steps("--again") == dict.fromkeys(names, (1, 0)), "with --again, nothing known counts"


def test_a_switch_is_accepted_with_the_gate_that_it_brings(toy: Toy) -> None:
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(
        f'{workspace.read_text()}  brought:\n    gates: [{{name: loud, kind: command, program: toy, must: "^LOUD"}}]\n'
    )
    loud = MAIN.replace("return 0", 'puts("LOUD"); return 0')
    commit = toy.fork.repo.commit("Be loud", {"main.c": loud}, body="Switch: TOY_LOUD")
    code, _, stderr = accept(toy, "--suite", "quick")
    assert code == 2
    assert "error: no gate proves the effect of a switch" in stderr
    assert f"  - {commit[:12]} (Be loud): Switch: TOY_LOUD" in stderr
    assert "hint: name a gate in the commit message (New-Gate: NAME), or use --switch-unproven REASON" in stderr
    workspace.write_text(workspace.read_text().replace(", must_not: LOUD", ""))
    toy.fork.repo.branch("product", toy.fork.commits[-1])
    commit = toy.fork.repo.commit("Be loud", {"main.c": loud}, body="Switch: TOY_LOUD\nNew-Gate: loud")
    planned = accept(toy, "--suite", "quick", "--dry-run")[1]
    assert "new gate   before: brought/loud, which must not PASS" in planned
    assert "new gate   candidate: brought/loud, which must PASS" in planned
    code, _, stderr = accept(toy, "--suite", "quick")
    assert code == 0, stderr
    assert "PASS     new gate brought/loud (before): FAIL without the patch, as it must: it does not print" in stderr
    assert "PASS     new gate brought/loud (candidate): exit code 0" in stderr
    assert run(toy, "ledger", "--check")[0] == 0
    toy.fork.repo.commit("Be quiet", {"main.c": MAIN}, body="Switch: TOY_QUIET")
    code, _, stderr = accept(toy, "--suite", "quick", "--switch-unproven", "nobody listens")
    assert code == 0, stderr
    code, listed, _ = run(toy, "ledger")
    assert "accepted, switch unproven" in listed
    (document,) = (
        found
        for line in run(toy, "ledger", "--json")[1].splitlines()
        if (found := json.loads(line))["switches_unproven"]
    )
    assert [(one["switches"], one["reason"]) for one in document["switches_unproven"]] == [
        (["TOY_QUIET"], "nobody listens")
    ]
    shown = run(toy, "ledger", "--show", document["id"][:12])[1]
    assert "  switch  TOY_QUIET of " in shown
    assert "is unproven, no gate shows it: nobody listens" in shown
    assert "; switch unproven: nobody listens |" in run(toy, "docs")[1]


def test_a_new_gate_whose_program_no_target_makes_is_told_before_anything_is_built(toy: Toy) -> None:
    workspace = toy.root / "patchstack.yaml"
    workspace.write_text(
        f"{workspace.read_text()}  brought:\n    gates: [{{name: rows, kind: command, program: test-rows, must: ok}}]\n"
    )
    toy.fork.repo.commit("Rows", {"main.c": MAIN.replace("return 0", "return  0")}, body="New-Gate: rows")
    code, _, stderr = accept(toy, "--suite", "quick")
    assert code == 3
    assert "  - test-rows, which rows runs: no target of variant cpu builds it" in stderr
    assert "build before" not in stderr
