"""Gate kind engaged: a switch leaves its mark if it is on, and none if it is off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.engaged import KIND, EngagedSettings, run, settings_problems
from patchstack.llama.program import GRAPHS_REUSED, Program
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.programs import a_bench, program

SPEC = EngagedSettings(
    program=Program(name="tool", sentinel="^done$", tries=2, seconds=20),
    on=(("TRACE", "1"),),
    mark=r"^\[shape\] ",
    at_least=2,
)
LEAVES = 'echo "[shape] a" >&2; echo "[shape] b" >&2'


def judged(script: str, tmp_path: Path, spec: EngagedSettings = SPEC) -> Judgement:
    program(tmp_path / "bin", "tool", script)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        return run(spec, bench)


@pytest.mark.parametrize(
    ("script", "verdict", "reason"),
    [
        (
            f"[ -z $TRACE ] || {{ {LEAVES}; }}; echo done >&2",
            Verdict.PASS,
            "on leaves the mark 2 times, off never: [shape] a",
        ),
        ("echo done >&2", Verdict.FAIL, "on leaves no mark: the switch does nothing here"),
        ('[ -z $TRACE ] || echo "[shape] a" >&2; echo done', Verdict.FAIL, "on leaves the mark 1 times, not 2"),
        (f"{LEAVES}; echo done >&2", Verdict.FAIL, "off leaves the mark too, 2 times: [shape] a"),
        (f"[ -z $TRACE ] || {{ {LEAVES}; echo done; }}", Verdict.INVALID, "off: its output was lost"),
        ("[ -n $TRACE ] && [ $TRACE ] || echo done", Verdict.INVALID, "on: its output was lost"),
        (
            "[ -z $TRACE ] || { echo a.c:7: bad >&2; kill -ABRT $$; }; echo done",
            Verdict.FAIL,
            "on: it crashed with SIGABRT",
        ),
        ("[ $TRACE ] || kill -SEGV $$; echo done", Verdict.FAIL, "off: it crashed with SIGSEGV"),
    ],
)
def test_both_runs_make_the_verdict(script: str, verdict: Verdict, reason: str, tmp_path: Path) -> None:
    found = judged(script, tmp_path)
    assert found.verdict is verdict, found
    assert reason in found.reason


@pytest.mark.parametrize(
    ("where", "verdict"), [("stderr", Verdict.PASS), ("stdout", Verdict.FAIL), ("output", Verdict.PASS)]
)
def test_the_mark_is_looked_for_where_it_should_be(where: str, verdict: Verdict, tmp_path: Path) -> None:
    script = f"[ -z $TRACE ] || {{ {LEAVES}; }}; echo done"
    assert judged(script, tmp_path, replace(SPEC, where=where)).verdict is verdict


def test_the_mark_may_be_in_a_file_of_the_run(tmp_path: Path) -> None:
    spec = replace(SPEC, where="file:trace.txt")
    assert (
        judged('[ -z $TRACE ] || printf "[shape] 1\\n[shape] 2\\n" >trace.txt; echo done', tmp_path, spec).verdict
        is Verdict.PASS
    )
    nothing = judged("echo done # no file", tmp_path, spec)
    assert (nothing.verdict, nothing.reason) == (Verdict.FAIL, "on leaves no mark: the switch does nothing here")


def test_a_mark_at_the_start_of_a_line_is_one_behind_the_loggers_stamp_too(tmp_path: Path) -> None:
    stamped = "[ -z $TRACE ] || { echo '0.00.193.885 I [shape] a' >&2; echo '[shape] b' >&2; }; echo done"
    assert judged(stamped, tmp_path).verdict is Verdict.PASS


def test_a_switch_may_be_another_value_instead_of_none(tmp_path: Path) -> None:
    spec = replace(SPEC, on=(("TRACE", "yes"),), off=(("TRACE", "no"),))
    found = judged(f"[ $TRACE = no ] || {{ {LEAVES}; }}; echo done", tmp_path, spec)
    assert found.verdict is Verdict.PASS
    assert found.details["off"] == {"env": {"TRACE": "no"}, "lines": 0, "shown": []}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (replace(SPEC, off=SPEC.on), "nothing is switched"),
        (replace(SPEC, on=()), "nothing is switched"),
        (replace(SPEC, program=replace(SPEC.program, sentinel=None)), "sentinel is missing, and tool has no default"),
        (replace(SPEC, where="file:../x"), "is not one of stderr, stdout, output and file:NAME"),
        (replace(SPEC, where="both"), "is not one of stderr, stdout, output and file:NAME"),
    ],
)
def test_settings_that_prove_nothing_are_refused(spec: EngagedSettings, problem: str) -> None:
    (found,) = settings_problems(spec)
    assert problem in found[1]


def settings(text: str, tmp_path: Path) -> tuple[EngagedSettings, list[str]]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    problems: list[str] = []
    models = {"tiny": Model(name="tiny", path="/models/tiny.gguf")}
    return KIND.read(Node(read_yaml(path), path, "", problems), models), problems


def test_an_entry_with_a_prompt_runs_completion_and_knows_its_sentinel(tmp_path: Path) -> None:
    spec, problems = settings("model: tiny\nprompt: x\non: {T: 4}\nmark: '^m'\nat_least: 4\n", tmp_path)
    assert problems == []
    assert (spec.program.name, spec.program.sentinel, spec.on, spec.at_least) == (
        "llama-completion",
        GRAPHS_REUSED,
        (("T", "4"),),
        4,
    )


def test_an_entry_with_a_program_runs_that(tmp_path: Path) -> None:
    text = "program: tool\nargs: [-m, '{model:tiny}']\non: {T: 1}\nmark: m\nsentinel: ^done$\nwhere: file:t.txt\n"
    spec, problems = settings(text, tmp_path)
    assert problems == []
    assert (spec.program.args, spec.brings) == (("-m", "{model:tiny}"), ("t.txt",))
    assert [model.name for model in spec.program.models] == ["tiny"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("program: tool\non: {T: 1}\nmark: m\n", "sentinel is missing"),
        ("program: llama-completion\nmark: m\n", "on and off have the same environment"),
        ("program: llama-completion\non: {T: 1}\n", "mark is missing"),
        ("program: ../x\nsentinel: s\non: {T: 1}\nmark: m\n", "'../x' is a path"),
        (
            "program: llama-completion\non: {T: 1}\nmark: m\nprompt: x\n",
            "prompt: not allowed with program; use args",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_complained_about(text: str, problem: str, tmp_path: Path) -> None:
    _, problems = settings(text, tmp_path)
    assert len(problems) == 1, problems
    assert problem in problems[0]
