"""A gate that comes with its patch must not PASS without it, and must PASS with it: both are in the decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.evidence.ledger import Outcome
from patchstack.verdict import Verdict
from patchstack.workflow.candidate.accept import AcceptStep
from patchstack.workflow.candidate.reject import reject
from tests.conftest import Places
from tests.support.decided import REASON, ROWS, TRAILERS, Decided, decide


@pytest.fixture
def made(tmp_path: Path, places: Places) -> Decided:
    return decide(tmp_path / "w", places.cache)


def new_steps(steps: tuple[AcceptStep, ...]) -> dict[str, tuple[Verdict, str, str]]:
    """Return verdict, detail, and the gate's own verdict, by the name of each step of a gate that came with the
    candidate."""
    return {
        one.name: (one.verdict, one.detail, str(one.evidence["gave"])) for one in steps if one.name.startswith("new ")
    }


def test_a_gate_that_fails_without_the_patch_and_passes_with_it_is_in_the_decision(made: Decided) -> None:
    done = made.accept(made.commit(ROWS, TRAILERS))
    assert done.decision is not None
    assert new_steps(done.steps) == {
        "new gate brought/rows (before)": (
            Verdict.PASS,
            "FAIL without the patch, as it must: it does not print '^rows: 8$'",
            "FAIL",
        ),
        "new gate brought/rows-option (before)": (
            Verdict.PASS,
            "FAIL without the patch, as it must: impossible: rows does not accept its arguments:"
            " error: invalid argument: --rows",
            "FAIL",
        ),
        "new gate brought/rows-test (before)": (
            Verdict.PASS,
            "FAIL without the patch, as it must: impossible: test-rows is not in the build",
            "FAIL",
        ),
        **{
            f"new gate brought/{name} (candidate)": (Verdict.PASS, "exit code 0, and what it must print", "PASS")
            for name in ("rows", "rows-option", "rows-test")
        },
    }
    assert made.wrong() == []
    (checked,) = (one for one in made.check().decisions if one.decision.id == done.decision.id)
    assert "3 gates that came with it: FAIL without it, PASS with it, drawn again" in checked.findings.derived
    observed = {step["name"]: step["observations"] for step in done.decision.evidence["steps"] if "new_of" in step}
    assert len(observed["new gate brought/rows-option (before)"]) == 1, "the refusal is kept as evidence"
    assert set(observed["new gate brought/rows-option (before)"]) < set(done.decision.evidence["records"])


def test_a_gate_that_passes_without_the_patch_does_not_see_it(made: Decided) -> None:
    commit = made.commit(ROWS, "Switch: TOY_ROWS\nNew-Gate: brought/hello")
    done = made.accept(commit)
    assert done.decision is None
    assert [(one.name, one.verdict) for one in done.steps if one.verdict is not Verdict.PASS] == [
        ("new gate brought/hello (before)", Verdict.FAIL)
    ]
    assert done.steps[-1].detail.startswith("the gate does not see the patch: without it, it is PASS: ")
    assert "build candidate" not in [one.name for one in done.steps], "the candidate is not built"
    from patchstack.git.remote import Cache
    from patchstack.workflow.candidate.candidate import open_candidates

    way = open_candidates(made.workspace.series[0], Cache(lambda: made.cache, offline=True), commit)
    decision, _ = reject(way, made.ledger, why="its gate does not see it")
    assert decision.outcome is Outcome.REJECTED
    assert made.wrong() == [], "what was seen of a rejected candidate can be drawn again as well"


def test_a_gate_that_fails_with_its_patch_is_no_reason_to_accept(made: Decided) -> None:
    done = made.accept(made.commit("No rows", "New-Gate: rows"))
    assert done.decision is None
    assert new_steps(done.steps)["new gate brought/rows (candidate)"] == (
        Verdict.FAIL,
        "it does not print '^rows: 8$'",
        "FAIL",
    )


def test_a_new_gate_of_the_suite_that_is_asked_need_not_pass_before(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    rows = '      - {name: rows, kind: command, program: rows, must: "^rows: 8$"}\n'
    path.write_text(path.read_text().replace("  brought:\n", f"{rows}  brought:\n"))
    done = made.accept(made.commit(ROWS, "New-Gate: rows"))
    assert done.decision is not None
    names = [one.name for one in done.steps]
    assert "new gate quick/rows (before)" in names
    assert "new gate quick/rows (candidate)" in names
    assert "gate rows (before)" not in names, "of several gates of a name, that of the suite that is asked is meant"
    assert done.decision.evidence["suites_of_new_gates"] == []
    assert made.wrong() == []


def test_a_switch_without_a_gate_needs_a_reason_which_is_recorded(made: Decided) -> None:
    commit = made.commit("Loud rows", "Switch: TOY_LOUD")
    with pytest.raises(UsageError, match="no gate proves the effect of a switch") as refused:
        made.accept(commit)
    assert refused.value.problems == (f"{commit[:12]} (Loud rows): Switch: TOY_LOUD",)
    assert "--switch-unproven REASON" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="--switch-unproven needs a reason"):
        made.accept(commit, reason=" ")
    done = made.accept(commit, reason=REASON)
    assert done.decision is not None
    assert done.decision.evidence["brings"]["reason"] == REASON
    assert [(one.name, one.verdict, one.detail) for one in done.steps if one.name.startswith("switch ")] == [
        (
            f"switch TOY_LOUD of {commit[:12]}",
            Verdict.PASS,
            "unproven, no gate shows that it does something: nothing prints it yet",
        )
    ]
    (checked,) = (one for one in made.check().decisions if one.decision.id == done.decision.id)
    told = f"switch TOY_LOUD of {commit[:12]}: that it does something; no gate shows it: {REASON}"
    assert told in checked.findings.asserted
    assert made.accept(commit, reason=REASON).decision == done.decision, "an equal acceptance is not recorded twice"
    again = made.accept(commit, reason="it prints later").decision
    assert again is not None
    assert again.supersedes == (done.decision.id,)


def test_a_reason_that_nothing_needs_is_refused(made: Decided) -> None:
    with pytest.raises(UsageError, match="the candidates have no switch without a gate"):
        made.accept(made.commit(ROWS, TRAILERS), reason=REASON)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("row", "New-Gate: row: no suite has it; perhaps you meant rows"),
        ("nothing-like-it", "New-Gate: nothing-like-it: no suite has it"),
        ("quick/rows", "New-Gate: quick/rows: no suite has it; perhaps you meant rows"),
    ],
)
def test_a_gate_that_no_suite_has_is_refused_before_anything_is_built(made: Decided, named: str, told: str) -> None:
    commit = made.commit(ROWS, f"New-Gate: {named}")
    with pytest.raises(UsageError, match="a commit adds a gate that is not in the suites") as refused:
        made.accept(commit)
    assert refused.value.problems == (f"{commit[:12]} (Ask for the rows): {told}",)


def test_a_name_that_two_other_suites_have_must_say_which(made: Decided) -> None:
    path = made.root / "patchstack.yaml"
    path.write_text(
        path.read_text() + '  more:\n    gates: [{name: rows, kind: command, program: rows, must: "^rows: 8$"}]\n'
    )
    with pytest.raises(UsageError) as refused:
        made.accept(made.commit(ROWS, "New-Gate: rows"))
    assert refused.value.problems[0].endswith("several suites have it; name one of brought/rows, more/rows")


def test_all_gates_of_a_range_are_asked_on_both_ends_of_it(made: Decided) -> None:
    before = made.toy.fork.commits[-1]
    first = made.commit("No rows yet", "Switch: TOY_ROWS\nNew-Gate: rows-test")
    made.commit(ROWS, "Switch: TOY_ROWS\nNew-Gate: rows")
    done = made.accept(f"{before}..product")
    assert done.decision is not None
    assert [(one["commit"] == first, one["gate"]) for one in done.decision.evidence["brings"]["gates"]] == [
        (True, "rows-test"),
        (False, "rows"),
    ]
    assert len(new_steps(done.steps)) == 4
    assert made.wrong() == []


def test_a_commit_in_the_middle_of_the_series_is_decided_anew_with_its_gates(made: Decided) -> None:
    commit = made.commit(ROWS, TRAILERS)
    first = made.accept(commit)
    made.accept(made.commit("More"))
    path = made.root / "patchstack.yaml"
    path.write_text(
        path.read_text().replace('"^rows: 8$"}\n      - {name: rows-option', '"^rows: "}\n      - {name: rows-option')
    )
    done = made.accept(commit)
    assert first.decision is not None
    assert done.decision is None, "the gate has changed, and passes without the patch now"
    path.write_text(path.read_text().replace('"^rows: "}', '"^rows: [0-9]"}'))
    again = made.accept(commit).decision
    assert again is not None
    assert again.supersedes == (first.decision.id,), "another gate is another decision"
    assert made.wrong() == []


def test_words_of_a_commit_cannot_move_the_cursor(made: Decided, capsys: pytest.CaptureFixture[str]) -> None:
    from patchstack.report.ledger import decision_lines

    commit = made.commit("Loud", "Switch: TOY\x1b[2J_LOUD")
    done = made.accept(commit, reason="because\x1b[1A of\nthat")
    assert done.decision is not None
    told = "\n".join(decision_lines(done.decision, diff=False))
    assert "\x1b" not in told
    assert "is unproven, no gate shows it: because" in told
