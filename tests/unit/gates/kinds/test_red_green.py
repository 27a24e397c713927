"""Gate kind red-green: a test fails without the code that it covers, and passes with it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.red_green import KIND, RedGreenSettings, run
from patchstack.llama.program import Program
from patchstack.observe.protocol import Model
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.build_records import a_record
from tests.support.programs import a_bench, program

GREEN, RED = "echo '3 tests passed'", "echo 'shape FAILED'; exit 1"


def judged(with_code: str, without: str, tmp_path: Path, **more: int) -> Judgement:
    program(tmp_path / "bin", "test-shape", with_code)
    program(tmp_path / "without", "test-shape", without)
    spec = RedGreenSettings(
        program=Program(name="test-shape", tries=2, seconds=20),
        without=str(tmp_path / "without"),
        red="FAILED|GGML_ASSERT",
        green=r"(\d+) tests passed",
        red_exit=more.get("red_exit"),
    )
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        return run(spec, bench)


@pytest.mark.parametrize(
    ("with_code", "without", "verdict", "reason"),
    [
        (GREEN, RED, Verdict.PASS, "red without the code (exit code 1: shape FAILED), green with it (3 tests passed)"),
        (GREEN, "echo 't.cpp:3: GGML_ASSERT(x) failed' >&2; kill -ABRT $$", Verdict.PASS, "exit code 134: t.cpp:3"),
        (GREEN, f"{GREEN}  # and more", Verdict.FAIL, "the test passes without the code, and so does not cover it"),
        (RED, f"{RED}  # and more", Verdict.FAIL, "the test fails with the code: exit code 1: shape FAILED"),
        ("kill -SEGV $$", RED, Verdict.FAIL, "the test crashes with the code: exit code 139"),
        (GREEN, "echo 'x: error while loading shared libraries: y' >&2; exit 127", Verdict.INVALID, "not be started"),
        (GREEN, "kill -SEGV $$", Verdict.INVALID, "without the code: exit code 139: it printed nothing"),
        (GREEN, "kill -ABRT $$", Verdict.INVALID, "exit code 134, but no line of a failed test"),
        (GREEN, "echo hm; exit 1", Verdict.INVALID, "exit code 1, but no line of a failed test"),
        (
            GREEN,
            "echo 'cannot open x'; exit 1",
            Verdict.INVALID,
            "a failed test ('FAILED|GGML_ASSERT'): it exited with",
        ),
        (GREEN, "echo 'cudaMalloc failed: 2'; exit 1", Verdict.INVALID, "it ran out of memory: cudaMalloc failed: 2"),
        (GREEN, "echo 'out of memory FAILED'; exit 1", Verdict.PASS, "exit code 1: out of memory FAILED"),
        (GREEN, "echo 'shape FAILED'; kill -KILL $$", Verdict.INVALID, "without the code: it was killed"),
        (GREEN, "echo '0 tests passed'", Verdict.INVALID, "without the code: exit code 0, and no test was run"),
        (
            "echo '0 tests passed'",
            RED,
            Verdict.INVALID,
            "with the code: exit code 0, and no test was run: 0 tests passed",
        ),
        ("true", RED, Verdict.INVALID, "with the code: exit code 0, but no line of a passed test"),
        (f"{GREEN}; echo 'shape FAILED'", RED, Verdict.INVALID, "exit code 0, and a line of a failed test"),
        (GREEN, GREEN, Verdict.INVALID, "the builds with and without the code are the same"),
    ],
)
def test_both_colours_make_the_verdict(
    with_code: str, without: str, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    found = judged(with_code, without, tmp_path)
    assert found.verdict is verdict, found
    assert reason in found.reason


def test_the_exit_code_of_a_failed_test_may_be_one_alone(tmp_path: Path) -> None:
    assert judged(GREEN, RED, tmp_path, red_exit=1).verdict is Verdict.PASS
    other = judged(GREEN, RED, tmp_path, red_exit=9)
    assert (other.verdict, other.details["without"]) == (
        Verdict.INVALID,
        {"colour": "neither", "told": "exit code 1: not the exit code of a failed test (9)"},
    )


@pytest.mark.parametrize(("gone", "which"), [("bin", "with"), ("without", "without")])
def test_a_test_that_is_not_there_is_not_red(gone: str, which: str, tmp_path: Path) -> None:
    judged(GREEN, RED, tmp_path)
    (tmp_path / gone / "test-shape").rename(tmp_path / gone / "test-other")
    spec = RedGreenSettings(program=Program(name="test-shape"), without=str(tmp_path / "without"), red="F", green="p")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        found = run(spec, bench)
        shutil.rmtree(tmp_path / "without")
        none = run(spec, bench)
    assert found.verdict is Verdict.INVALID
    assert f"the build {which} the code has no test-shape" in found.reason
    assert none.verdict is Verdict.INVALID
    assert "the build without the code: there is no build in" in none.reason


def test_no_volume_is_left_of_the_second_build(tmp_path: Path) -> None:
    program(tmp_path / "bin", "test-shape", GREEN)
    program(tmp_path / "without", "test-shape", RED)
    spec = RedGreenSettings(
        program=Program(name="test-shape"), without=str(tmp_path / "without"), red="FAILED", green="passed", red_exit=1
    )
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        assert run(spec, bench).verdict is Verdict.PASS
        engine = bench.engine
    assert [name for name in engine.volumes() if "gate" in name] == []


def settings(text: str, tmp_path: Path) -> tuple[RedGreenSettings, list[str]]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    problems: list[str] = []
    models = {"tiny": Model(name="tiny", path="/models/tiny.gguf")}
    return KIND.read(Node(read_yaml(path), path, "", problems), models), problems


def test_an_entry_of_a_suite_is_read(tmp_path: Path) -> None:
    text = "program: test-shape\nwithout: old/bin\nred: FAILED\ngreen: '(\\d+) passed'\nred_exit: 1\n"
    spec, problems = settings(text, tmp_path)
    assert problems == []
    assert (spec.without, spec.red_exit, spec.program.name) == (str(tmp_path / "old/bin"), 1, "test-shape")
    assert settings(text.replace("red_exit: 1\n", ""), tmp_path)[0] == replace(spec, red_exit=None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("program: t\nred: F\ngreen: p\n", "without is missing"),
        ("program: t\nwithout: d\ngreen: p\n", "red is missing"),
        ("program: t\nwithout: d\nred: F\ngreen: '('\n", "green: '(' is not a regular expression"),
        ("program: t\nwithout: d\nred: F\ngreen: p\nred_exit: 0\n", "red_exit: must be from 1 to 255, not 0"),
        ("program: t\nwithout: d\nred: F\ngreen: p\nexit: 0\n", "exit: unknown key"),
    ],
)
def test_an_entry_that_cannot_be_used_is_complained_about(text: str, problem: str, tmp_path: Path) -> None:
    _, problems = settings(text, tmp_path)
    assert len(problems) == 1, problems
    assert problem in problems[0]


def test_the_build_without_the_code_may_be_a_stored_one(tmp_path: Path) -> None:
    key = "0123456789ab" * 5 + "cdef"
    program(tmp_path / "bin", "test-shape", GREEN)
    program(tmp_path / "builds" / key / "bin", "test-shape", RED)
    (tmp_path / "builds" / key / "build.json").write_bytes(a_record(key).indented)
    spec = RedGreenSettings(
        program=Program(name="test-shape"), without=key[:12], red="FAILED", green=r"(\d+) tests passed"
    )
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        assert "no builds are stored" in run(spec, bench).reason
        bench.builds = tmp_path / "builds"
        found = run(spec, bench)
        none = run(replace(spec, without="fedcba987654"), bench)
    assert found.verdict is Verdict.PASS, found
    assert (none.verdict, "there is no build fedcba987654" in none.reason) == (Verdict.INVALID, True)


@pytest.mark.parametrize(
    ("written", "read_as"), [("4b77161d29e1", "4b77161d29e1"), ("../old", "old"), ("./4b77161d29e1", "4b77161d29e1")]
)
def test_a_build_is_named_by_its_key_or_by_a_directory(written: str, read_as: str, tmp_path: Path) -> None:
    path = tmp_path / "w" / "patchstack.yaml"
    path.parent.mkdir()
    path.write_text(f"program: p\nwithout: {written}\nred: R\ngreen: G\n")
    problems: list[str] = []
    spec = KIND.read(Node(read_yaml(path), path, "", problems), {})
    assert not problems
    expected = {"../old": str(tmp_path / "old"), "./4b77161d29e1": str(path.parent / "4b77161d29e1")}
    assert spec.without == expected.get(written, read_as)
