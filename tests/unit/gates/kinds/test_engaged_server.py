"""Gate kind engaged, through a server: a switch that only a server knows leaves its mark there."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.gates.kinds.engaged import EngagedSettings, chosen, questions_of, run
from patchstack.llama.prompt import Prompting
from patchstack.observe.protocol import Model, Observation
from patchstack.verdict import Verdict
from tests.support.answering import Scripted, an_answer, seen
from tests.unit.gates.kinds.test_engaged import settings

TINY = Model(name="tiny", path="/models/tiny.gguf")
PROMPTING = Prompting(model=TINY, prompt="Hello", tokens=4, tries=2)
SPEC = EngagedSettings(
    program=chosen(PROMPTING, server=True),
    questions=questions_of(PROMPTING),
    on=(("TRACE", "1"),),
    mark=r"\bserved step=",
    at_least=2,
)
TRACED = b"main: listening\nserved step=1\nserved step=2\n"


def answered(stderr: bytes = b"") -> Observation:
    return seen(an_answer(), an_answer(), stderr=stderr)


@pytest.mark.parametrize(
    ("on", "off", "verdict", "reason"),
    [
        (answered(TRACED), answered(), Verdict.PASS, "on leaves the mark 2 times, off never: served step=1"),
        (answered(), answered(), Verdict.FAIL, "on leaves no mark: the switch does nothing here"),
        (answered(TRACED), answered(TRACED), Verdict.FAIL, "off leaves the mark too, 2 times: served step=1"),
        (seen(an_answer(), stderr=TRACED), answered(), Verdict.INVALID, "on: "),
        (seen(stderr=b"x.c:1: GGML_ASSERT(y) failed\n", code=134), answered(), Verdict.FAIL, "on: it crashed"),
    ],
)
def test_both_servers_make_the_verdict(on: Observation, off: Observation, verdict: Verdict, reason: str) -> None:
    bench = Scripted({"TRACE=1": [on], "": [off]})
    found = run(SPEC, bench)
    assert found.verdict is verdict, found
    assert reason in found.reason


def test_each_server_is_asked_the_prompt_twice() -> None:
    bench = Scripted({"TRACE=1": [answered(TRACED)], "": [answered()]})
    run(SPEC, bench)
    assert [len(invocation.requests) for invocation, _ in bench.asked] == [2, 2]
    assert {invocation.program for invocation, _ in bench.asked} == {"llama-server"}


def test_an_entry_with_server_asks_one(tmp_path: Path) -> None:
    entry = "model: tiny\nprompt: Hello\non: {T: 4}\nmark: served\n"
    spec, problems = settings(entry + "server: true\n", tmp_path)
    assert problems == []
    assert (spec.program.name, len(spec.questions)) == ("llama-server", 2)
    spec, problems = settings(entry + "server: false\n", tmp_path)
    assert (problems, spec.program.name, spec.questions) == ([], "llama-completion", ())


def test_a_program_of_its_own_is_no_server(tmp_path: Path) -> None:
    _, problems = settings("program: llama-completion\non: {T: 1}\nmark: m\nserver: true\n", tmp_path)
    assert any("server: not allowed with program; use args" in problem for problem in problems)
