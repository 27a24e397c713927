"""Gate kind routes: a switch changes the route that it claims to change, by counts instead of a single line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.routes import KIND, RoutesSettings, run, settings_problems
from patchstack.llama.program import GRAPHS_REUSED, Program
from patchstack.llama.traces.expectations import read_expectation
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.programs import a_bench, program

RECORD = (
    "trace_moe_mmid_route route=$1 type=nvfp4 ne2=16 ne1=8 ne0=768 ne00=2048 n_expert=128"
    " src0=blk.0.ffn_gate_exps.weight src1=ffn_norm-0 dst=ffn_moe_gate-0"
)
TRACES = f"""
trace() {{ echo "{RECORD}" >&2; }}
summary() {{
    echo "trace_moe_mmid_route_summary lines=$1 dropped=$2 mmvq=0 mmvf=0 mmq=$3 mmf=0 host_sync=$4" \\
        "mmvq_fused=0 mmvf_fused=0 $5" >&2
    echo done >&2
}}
"""
GROUPED = "trace mmq; trace mmq; summary 2 0 2 0 mmq.ne2_hist=16-31:2"
SYNCED = "trace host_sync; trace host_sync; summary 2 0 0 2 host_sync.ne2_hist=16-31:2"
SPEC = RoutesSettings(
    program=Program(name="tool", sentinel="^done$", tries=1, seconds=20),
    on=(("GROUPED", "1"),),
    expect=(read_expectation("route=mmq type=40 >= 2"), read_expectation("route=host_sync == 0")),
)


def judged(on: str, off: str, tmp_path: Path, spec: RoutesSettings = SPEC) -> Judgement:
    program(tmp_path / "bin", "tool", f"{TRACES}\nif [ $GROUPED ]; then {on}; else {off}; fi")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        return run(spec, bench)


def test_a_switch_that_changes_the_route_passes(tmp_path: Path) -> None:
    found = judged(GROUPED, SYNCED, tmp_path)
    assert found.verdict is Verdict.PASS, found
    assert found.reason == "on: 2 of 2 records of moe_mmid_route; off: 0 of 2 records of moe_mmid_route"
    assert found.expected == "on: route=mmq type=40 >= 2; on: route=host_sync == 0; off: otherwise"
    assert found.details["on"] == [
        {"expect": "route=mmq type=40 >= 2", "holds": True, "count": 2, "why": "2 of 2 records of moe_mmid_route"},
        {"expect": "route=host_sync == 0", "holds": True, "count": 0, "why": "0 of 2 records of moe_mmid_route"},
    ]


@pytest.mark.parametrize(
    ("on", "off", "verdict", "reason"),
    [
        (SYNCED, SYNCED, Verdict.FAIL, "on: not route=mmq type=40 >= 2: 0 of 2 records of moe_mmid_route"),
        (GROUPED, GROUPED, Verdict.FAIL, "off shows the same as on: the switch changes no such route"),
        (
            "echo done >&2",
            SYNCED,
            Verdict.INVALID,
            "on: route=mmq type=40 >= 2 cannot be judged: the log has no records",
        ),
        (
            GROUPED,
            "echo done >&2",
            Verdict.INVALID,
            "off: route=mmq type=40 >= 2 cannot be judged: the log has no records",
        ),
        (
            "trace mmq; trace mmq; summary 3 0 3 0 mmq.ne2_hist=16-31:3",
            SYNCED,
            Verdict.INVALID,
            "the records of moe_mmid_route contradict: lines 3, records 2",
        ),
        (
            "trace mmq; summary 1 5 6 0 mmq.ne2_hist=16-31:6",
            SYNCED,
            Verdict.INVALID,
            "1 of the first 1 records of moe_mmid_route; 5 more were not written",
        ),
        (f"{GROUPED}; kill -SEGV $$", SYNCED, Verdict.FAIL, "on: it crashed with SIGSEGV"),
        (f"({GROUPED}) 2>/dev/null", SYNCED, Verdict.INVALID, "on: its output was lost"),
    ],
)
def test_what_is_not_shown_is_not_passed(on: str, off: str, verdict: Verdict, reason: str, tmp_path: Path) -> None:
    found = judged(on, off, tmp_path)
    assert found.verdict is verdict, found
    assert reason in found.reason


def test_what_off_must_show_may_be_said(tmp_path: Path) -> None:
    spec = replace(SPEC, expect_off=(read_expectation("route=host_sync >= 2"),))
    assert judged(GROUPED, SYNCED, tmp_path / "a", spec).verdict is Verdict.PASS
    found = judged(GROUPED, GROUPED, tmp_path / "b", spec)
    assert (found.verdict, found.reason) == (
        Verdict.FAIL,
        "off: not route=host_sync >= 2: 0 of 2 records of moe_mmid_route",
    )


def test_an_expectation_that_two_traces_could_answer_is_not_judged(tmp_path: Path) -> None:
    other = (
        "trace_cublas_route route=mmq type=nvfp4 type1=f32 row_diff=1 src1_ncols=1 batch=1 ne00=1 ne10=1"
        " src0=a src1=b dst=c"
    )
    found = judged(f"echo '{other}' >&2; {GROUPED}", SYNCED, tmp_path)
    assert found.verdict is Verdict.INVALID
    assert "could mean" in found.reason


def settings(text: str, tmp_path: Path) -> tuple[RoutesSettings, list[str]]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    problems: list[str] = []
    models = {"tiny": Model(name="tiny", path="/models/tiny.gguf")}
    return KIND.read(Node(read_yaml(path), path, "", problems), models), problems


def test_an_entry_is_read_as_it_is_documented(tmp_path: Path) -> None:
    entry = (
        "model: tiny\nprompt: x\nenv: {LLAMA_MOE_MMID_ROUTE_TRACE: 1000000}\non: {S: 1}\n"
        "expect: ['route=mmq type=nvfp4 >= 1000', 'route=host_sync == 0']\nexpect_off: ['route=mmq == 0']\n"
    )
    spec, problems = settings(entry, tmp_path)
    assert problems == []
    assert (spec.program.name, spec.program.sentinel) == ("llama-completion", GRAPHS_REUSED)
    assert [one.text for one in spec.expect_off] == ["route=mmq == 0"]
    served, problems = settings(f"{entry}server: true\n", tmp_path)
    assert (problems, served.program.name, len(served.questions)) == ([], "llama-server", 2)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("on: {S: 1}\n", "expect is missing; it defines what the traces must show with the switch on"),
        ("on: {S: 1}\nexpect: []\n", "expect is missing"),
        ("on: {S: 1}\nexpect: [mmq]\n", "expect: 'mmq' is not an expectation: 'mmq' is not key=value"),
        ("on: {S: 1}\noff: {S: 1}\nexpect: [route=mmq]\n", "nothing is switched"),
        ("on: {S: 1}\nexpect: [route=mmq]\nexpected: 1\n", "expected: unknown key"),
    ],
)
def test_settings_that_prove_nothing_are_refused(entry: str, problem: str, tmp_path: Path) -> None:
    _, problems = settings(f"model: tiny\nprompt: x\n{entry}", tmp_path)
    assert len(problems) == 1, problems
    assert problem in problems[0]


def test_a_program_without_a_last_line_is_refused() -> None:
    (found,) = settings_problems(replace(SPEC, program=replace(SPEC.program, sentinel=None)))
    assert "sentinel is missing, and tool has no default" in found[1]
