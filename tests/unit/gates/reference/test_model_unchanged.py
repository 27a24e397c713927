"""A changed transcript: what counts as evidence, and which arguments and environments are the same path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.reference.model_unchanged import Evidence, still_the_same, with_evidence
from patchstack.llama.compute_path import path_args, same_environment, same_path
from patchstack.llama.kl import Side
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict

MODEL = Model(name="tiny", path="/models/tiny.gguf")
PROMPTING = Prompting(model=MODEL, prompt="x", tokens=8, args=("-no-cnv", "-ctk", "q8_0", "-sys", "be brief"))


def judged(states: dict[str, str], *measured: tuple[str, str, bool], key: str = "state") -> Judgement:
    """Return a judgement of states with these verdicts and evidence: state, verdict, whether it counts."""
    details: list[Any] = [{key: name, "verdict": verdict} for name, verdict in states.items()]
    worst = next((one for one in (Verdict.FAIL, Verdict.INVALID) if one in states.values()), Verdict.PASS)
    bare = Judgement(verdict=worst, reason="r", details={"states": details})
    return with_evidence(
        bare,
        [
            Evidence(state=state, against="build b", verdict=Verdict(verdict), reason="k", counts=counts)
            for state, verdict, counts in measured
        ],
    )


@pytest.mark.parametrize("key", ["state", "name"])
@pytest.mark.parametrize(
    ("states", "measured", "same"),
    [
        ({"": "FAIL"}, [("", "PASS", True)], True),
        ({"a": "FAIL", "b": "PASS"}, [("a", "PASS", True)], True),
        ({"a": "FAIL", "b": "FAIL"}, [("a", "PASS", True)], False),
        ({"a": "FAIL", "b": "INVALID"}, [("a", "PASS", True)], False),
        ({"a": "FAIL"}, [("a", "PASS", False)], False),
        ({"a": "FAIL"}, [("a", "FAIL", True)], False),
        ({"a": "FAIL"}, [("a", "INVALID", True)], False),
        ({"a": "FAIL"}, [("b", "PASS", True)], False),
        ({"a": "FAIL"}, [], False),
        ({"a": "PASS"}, [], False),
    ],
)
def test_the_model_is_the_same_where_every_state_that_does_not_hold_was_shown_to_be(
    states: dict[str, str], measured: list[tuple[str, str, bool]], same: bool, key: str
) -> None:
    assert still_the_same(judged(states, *measured, key=key)) is same


def test_evidence_stands_beside_a_verdict_and_does_not_change_it() -> None:
    found = judged({"a": "FAIL"}, ("a", "PASS", True))
    assert (found.verdict, found.reason) == (Verdict.FAIL, "r; KL of a against build b: PASS, k")
    assert with_evidence(found, []) is found


def test_the_path_is_what_chooses_how_it_is_computed_not_what_is_said() -> None:
    assert path_args(PROMPTING) == ("-ngl", "99", "-fa", "on", "-ctk", "q8_0")
    assert path_args(replace(PROMPTING, gpu_layers=0, args=())) == ("-ngl", "0", "-fa", "on")


@pytest.mark.parametrize(
    ("side", "problem"),
    [
        (Side(model=MODEL, args=("-ctk", "q8_0")), None),
        (Side(model=MODEL, args=("-ngl", "3", "-ctk", "q8_0", "-ngl", "99")), None),
        (Side(model=MODEL), "it runs with -ngl 99 -fa on, but the gate with -ngl 99 -fa on -ctk q8_0"),
        (Side(model=MODEL, args=("-ctk", "q8_0", "-fa", "off")), "it runs with -ngl 99 -fa off -ctk q8_0"),
        (Side(model=replace(MODEL, name="big"), args=("-ctk", "q8_0")), "its model is big, not tiny"),
    ],
)
def test_two_runs_share_a_path_or_not(side: Side, problem: str | None) -> None:
    found = same_path(PROMPTING, side)
    assert found is None if problem is None else problem in (found or "")


def test_environments_are_the_same_but_for_what_changes_no_result() -> None:
    quiet = ("GGML_NO_BACKTRACE", "1")
    assert same_environment((("A", "1"), quiet), (("A", "1"),))
    assert not same_environment((("A", "1"),), (("A", "0"),))
    assert not same_environment((("A", "1"),), ())
