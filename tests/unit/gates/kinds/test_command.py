"""Gate kind command: a program's exit status, and the text it must and must not print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.command import KIND, CommandSettings, run
from patchstack.llama.program import Program
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.programs import a_bench, program

SPEC = CommandSettings(program=Program(name="tool", tries=2, seconds=20), must=("all is well",), must_not=("NaN",))


def judged(script: str, tmp_path: Path, spec: CommandSettings = SPEC) -> Judgement:
    program(tmp_path / "bin", spec.program.name, script)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        return run(spec, bench)


@pytest.mark.parametrize(
    ("script", "verdict", "reason"),
    [
        ("echo all is well", Verdict.PASS, "exit code 0, and what it must print"),
        ("echo all is well >&2", Verdict.PASS, "exit code 0, and what it must print"),
        ("printf 'all is \\033[1;32mwell\\033[0m'", Verdict.PASS, "exit code 0, and what it must print"),
        ("echo nothing to do", Verdict.FAIL, "it does not print 'all is well'"),
        ("true", Verdict.INVALID, "it printed nothing"),
        ("echo all is well; echo loss NaN", Verdict.FAIL, "it prints what it must not ('NaN'): loss NaN"),
        ("echo all is well; exit 3", Verdict.FAIL, "exit code 3, not 0"),
        ("echo error: no such op >&2; exit 1", Verdict.FAIL, "exit code 1, not 0: it exited with 1: error: no such op"),
        ("echo t.c:4: boom >&2; kill -ABRT $$", Verdict.FAIL, "exit code 134, not 0: t.c:4: boom"),
        ("echo all is well; kill -TERM $$", Verdict.INVALID, "it was ended by SIGTERM"),
        ("exit 127", Verdict.INVALID, "it could not be started"),
        ("echo CUDA error: out of memory >&2; kill -ABRT $$", Verdict.INVALID, "it ran out of memory"),
    ],
)
def test_the_exit_code_and_the_words_make_the_verdict(
    script: str, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    found = judged(script, tmp_path)
    assert found.verdict is verdict, found
    assert reason in found.reason


@pytest.mark.parametrize(
    ("script", "verdict"), [("echo all is well; exit 2", Verdict.PASS), ("echo all is well", Verdict.FAIL)]
)
def test_another_exit_code_may_be_the_right_one(script: str, verdict: Verdict, tmp_path: Path) -> None:
    assert judged(script, tmp_path, replace(SPEC, exit=2)).verdict is verdict


def test_a_line_that_is_missing_is_looked_for_again_and_sometimes_missing_is_not_judged(tmp_path: Path) -> None:
    missing = judged(f"echo x >>{tmp_path}/n; echo hm", tmp_path)
    assert (missing.verdict, (tmp_path / "n").read_text()) == (Verdict.FAIL, "x\n" * 3)
    now_and_then = judged(
        f'echo y >>{tmp_path}/m; echo hm; [ "$(wc -l <{tmp_path}/m)" -ne 2 ] || echo all is well', tmp_path
    )
    assert now_and_then.verdict is Verdict.INVALID
    assert "1 of 2 runs print the required lines: the others may have lost them" in now_and_then.reason


def test_a_gate_that_asks_for_nothing_does_not_pass(tmp_path: Path) -> None:
    assert judged("echo all is well", tmp_path, replace(SPEC, must=())).verdict is Verdict.INVALID


LOSSY = replace(SPEC, program=replace(SPEC.program, name="llama-thing"))
SURE = replace(LOSSY, program=replace(LOSSY.program, sentinel="^the end$"))


@pytest.mark.parametrize(
    ("script", "spec", "verdict", "reason"),
    [
        ("echo all is well", LOSSY, Verdict.INVALID, "what it must not print may have been lost; sentinel: names"),
        ("echo all is well", replace(LOSSY, must_not=()), Verdict.PASS, "what it must print"),
        ("echo hm", LOSSY, Verdict.INVALID, "it does not print 'all is well', or that was lost"),
        ("echo NaN", LOSSY, Verdict.FAIL, "it prints what it must not"),
        ("exit 1", LOSSY, Verdict.INVALID, "it exited with 1 without an error message"),
        ("echo all is well; echo the end >&2", SURE, Verdict.PASS, "what it must print"),
        ("echo hm; echo the end >&2", SURE, Verdict.FAIL, "it does not print"),
        ("echo all is well", SURE, Verdict.INVALID, "its output was lost"),
    ],
)
def test_programs_that_lose_output_are_judged_by_their_sentinel(
    script: str, spec: CommandSettings, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    found = judged(script, tmp_path, spec)
    assert found.verdict is verdict, found
    assert reason in found.reason


def settings(text: str, tmp_path: Path) -> tuple[CommandSettings, list[str]]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    problems: list[str] = []
    models = {"tiny": Model(name="tiny", path="/models/tiny.gguf")}
    return KIND.read(Node(read_yaml(path), path, "", problems), models), problems


def test_an_entry_of_a_suite_is_read(tmp_path: Path) -> None:
    text = "program: tool\nargs: ['{model:tiny}']\nexit: 0\nmust: all is well\nmust_not: [NaN, '^E ']\nenv: {A: x}\n"
    spec, problems = settings(text, tmp_path)
    assert problems == []
    assert (spec.must, spec.must_not, spec.exit) == (("all is well",), ("NaN", "^E "), 0)
    assert (spec.program.env, spec.program.models[0].name) == ((("A", "x"),), "tiny")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("program: tool\n", "must is missing or empty: a program that did nothing has an exit code too"),
        ("program: tool\nmust: []\n", "must is missing"),
        ("program: tool\nmust: '('\n", "must: '(' is not a regular expression"),
        ("program: tool\nmust: ''\n", "must: '' matches every text"),
        ("program: tool\nmust: a\nmust_not: a\n", "must_not: 'a' is in both must and must_not"),
        ("program: tool\nmust: a\nexit: 256\n", "exit: must be from 0 to 255, not 256"),
        ("must: a\n", "program is missing"),
    ],
)
def test_an_entry_that_cannot_be_used_is_complained_about(text: str, problem: str, tmp_path: Path) -> None:
    _, problems = settings(text, tmp_path)
    assert len(problems) == 1, problems
    assert problem in problems[0]
