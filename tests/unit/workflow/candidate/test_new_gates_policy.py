"""`accept --policy-from`: a gate that the change adds runs in addition, in a sandbox, and its PASS proves nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.verdict import Verdict
from tests.conftest import Places
from tests.support.decided import REASON, ROWS, Decided, decide
from tests.support.fixed_engine import FixedEngine

MARK = "(brought by this change)"


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def made(tmp_path: Path, places: Places) -> Decided:
    """Return a workspace whose policy is a different file without the suite `brought`; jobs run in a sandbox."""
    found = decide(tmp_path / "w", places.cache)
    policy = tmp_path / "policy"
    policy.mkdir()
    for name in ("text.txt", "cases.txt"):
        shutil.copy(found.root / name, policy / name)
    (policy / "patchstack.yaml").write_text((found.root / "patchstack.yaml").read_text().partition("  brought:\n")[0])
    found.policy = policy / "patchstack.yaml"
    found.engine = FixedEngine(isolated=True)
    return found


def suite_of(made: Decided, named: dict[str, object]) -> dict[str, object]:
    content = made.evidence.outputs.read(str(named["sha256"]), int(str(named["size"])))
    assert content is not None
    found: dict[str, object] = json.loads(content)
    return found


def test_it_is_asked_on_both_builds_and_marked_and_the_decision_can_be_checked(made: Decided) -> None:
    done = made.accept(made.commit(ROWS, "New-Gate: rows\nNew-Gate: brought/rows-test"))
    assert done.decision is not None, [(one.name, one.detail) for one in done.steps]
    assert [(one.name, one.verdict) for one in done.steps if one.name.startswith("new ")] == [
        (f"new gate brought/{name} {MARK} ({which})", Verdict.PASS)
        for which in ("before", "candidate")
        for name in ("rows", "rows-test")
    ]
    (carried,) = done.decision.evidence["suites_of_new_gates"]
    entry = suite_of(made, carried)["entry"]
    assert isinstance(entry, dict)
    assert [one["name"] for one in entry["gates"]] == ["rows", "rows-test"], "and not the other gates of that suite"
    made.policy = None
    assert made.wrong() == []


def test_its_fail_is_a_fail(made: Decided) -> None:
    done = made.accept(made.commit("No rows", "New-Gate: rows"))
    assert done.decision is None
    failed = [(one.name, one.verdict) for one in done.steps if one.verdict is not Verdict.PASS]
    assert failed == [(f"new gate brought/rows {MARK} (candidate)", Verdict.FAIL)]


def test_its_pass_makes_no_fail_of_the_policy_a_pass(made: Decided) -> None:
    assert made.policy is not None
    made.policy.write_text(made.policy.read_text().replace('must: "^hello$"', 'must: "^goodbye$"'))
    done = made.accept(made.commit(ROWS, "New-Gate: rows\nNew-Gate: brought/hello"))
    assert done.decision is None
    assert ("gate hello (before)", Verdict.FAIL) in [(one.name, one.verdict) for one in done.steps]


def test_its_pass_shows_nothing_of_a_switch(made: Decided) -> None:
    commit = made.commit(ROWS, "Switch: TOY_ROWS\nNew-Gate: rows")
    with pytest.raises(UsageError, match="no gate proves the effect of a switch") as refused:
        made.accept(commit)
    assert refused.value.problems == (
        f"{commit[:12]} ({ROWS}): Switch: TOY_ROWS; rows comes with the change, so its PASS proves nothing",
    )
    assert refused.value.hint == "ask a maintainer to add the gate to the policy first, or use --switch-unproven REASON"
    done = made.accept(commit, reason=REASON)
    assert done.decision is not None
    assert done.decision.evidence["brings"]["unproven"] == [{"commit": commit, "switches": ["TOY_ROWS"]}]
    made.policy = None
    assert made.wrong() == []


def test_outside_a_sandbox_it_is_invalid_and_not_run(made: Decided) -> None:
    made.engine = FixedEngine()
    done = made.accept(made.commit(ROWS, "New-Gate: rows"))
    assert done.decision is None
    (step,) = (one for one in done.steps if one.verdict is not Verdict.PASS)
    assert (step.name, step.verdict) == (f"new gate brought/rows {MARK} (before)", Verdict.INVALID)
    assert "runs only in a sandbox" in step.detail
    assert step.evidence["observations"] == []


def test_a_gate_of_a_suite_of_the_policy_is_carried_with_it(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    rows = '      - {name: extra, kind: command, program: rows, must: "^rows: 8$"}\n'
    path.write_text(path.read_text().replace("  brought:\n", f"{rows}  brought:\n"))
    done = made.accept(made.commit(ROWS, "New-Gate: quick/extra"))
    assert done.decision is not None, [(one.name, one.detail) for one in done.steps]
    entry = suite_of(made, done.decision.evidence["suite"])["entry"]
    assert isinstance(entry, dict)
    assert [one["name"] for one in entry["gates"]][-2:] == ["hello", "extra"]
    made.policy = None
    assert made.wrong() == []


def test_a_decision_carries_the_suite_of_the_policy_whatever_the_change_says(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    before = path.read_text()
    path.write_text(before.replace('must: "^hello$"', "must: h").replace("same_top: 1}", "same_top: 0}"))
    done = made.accept(made.commit("Another line"))
    assert done.decision is not None
    entry = json.dumps(suite_of(made, done.decision.evidence["suite"])["entry"])
    assert '"must": "^hello$"' in entry
    assert '"must": "h"' not in entry
    path.write_text(before.partition("suites:\n")[0])
    assert made.accept(made.commit("One more line")).decision is not None, "also if the change has no suites at all"


def test_a_file_that_the_policy_has_too_is_the_policy_s(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    path.write_text(
        path.read_text()
        + "      - {name: mine, kind: backend-ops, backend: CPU, ops: [ARGMAX, L2_NORM], cases: {file: cases.txt}}\n"
    )
    known = (made.root / "cases.txt").read_bytes()
    (made.root / "cases.txt").write_text("nothing\n")
    from patchstack.workflow.brought_gates import read_brought

    found = read_brought(made.workspace, "brought/mine")
    assert (found.problem, found.suite, dict(found.files)) == ("", "brought", {"cases.txt": known})


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("gone", "no suite has the gate gone, which a patch names as New-Gate"),
        ("hello-x", "no suite has the gate hello-x, which a patch names as New-Gate"),
        ("odd/odd", "several suites have the gate odd/odd"),
    ],
)
def test_one_that_cannot_be_read_is_refused_before_anything_is_built(made: Decided, named: str, told: str) -> None:
    path = made.root / "patchstack.yaml"
    gate = '      - {name: odd, kind: command, program: rows, must: "^rows: 8$"}\n'
    path.write_text(f"{path.read_text()}  odd:\n    gates:\n{gate}{gate}")
    with pytest.raises(UsageError, match="a commit adds a gate that is not in the suites") as refused:
        made.accept(made.commit(ROWS, f"New-Gate: {named}"))
    assert told in refused.value.problems[0]


def test_a_change_brings_a_bounded_number_of_gates(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    gates = [f'      - {{name: n{one}, kind: command, program: rows, must: "^rows: 8$"}}\n' for one in range(33)]
    path.write_text(path.read_text() + "".join(gates))
    with pytest.raises(UsageError) as refused:
        made.accept(made.commit(ROWS, "\n".join(f"New-Gate: n{one}" for one in range(33))))
    assert refused.value.problems == ("a change may add at most 32 gates",)
