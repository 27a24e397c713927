"""The gate backend-ops: the output of test-backend-ops counts only if all its parts agree."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchstack.errors import ConfigError, MissingError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import backend_ops
from patchstack.gates.kinds.backend_ops import (
    PROGRAM,
    CaseList,
    OperatorSettings,
    case_list,
    compared,
    digest_of,
    read_case_list,
    run,
)
from patchstack.llama.backend_ops_output import ConsoleOutput, contradiction, read_supported, read_tested
from patchstack.observe.layout import Programs
from patchstack.verdict import Verdict
from patchstack.workspace import read_yaml
from patchstack.workspace.node import Node
from tests.support.checkout import DATA
from tests.support.programs import a_bench, program

CAPTURED = DATA / "llama" / "captured"
ADD, MUL = "ADD(type=f32,ne=[1,1,8,1],nf=1)", "ADD(type=f16,ne=[1,1,8,1],nf=1)"
GLUE = "GLUE(type=f32,n=3)"


def captured(name: str, backend: str = "CPU") -> ConsoleOutput:
    return read_tested((CAPTURED / f"{name}.out").read_bytes(), backend)


def printed(cases: Mapping[str, str], device: str = "CPU") -> str:
    """Return the tool's output for cases that are OK, FAIL or `not supported [CPU] `."""
    ran = {name: status for name, status in cases.items() if status in ("OK", "FAIL")}
    failing = [name for name, status in ran.items() if status == "FAIL"]
    passed, verdict = len(ran) - len(failing), "FAIL" if failing else "OK"
    lines = ["Testing 1 devices", "", f"Backend 1/1: {device}", "  Device description: x", ""]
    lines += [f"  {name}: {_coloured(status)}" for name, status in cases.items()]
    lines += [f"  {passed}/{len(ran)} tests passed"]
    lines += ["", "Failing tests:", *(f"  {name}" for name in failing)] if failing else []
    lines += [f"  Backend {device}: {_coloured(verdict)}", f"{int(not failing)}/1 backends passed", _coloured(verdict)]
    return "\n".join(lines) + "\n"


def _coloured(status: str) -> str:
    return {"OK": "\033[1;32mOK\033[0m", "FAIL": "\033[1;31mFAIL\033[0m"}.get(status, status)


class Tool:
    """A fake test-backend-ops with prepared output."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.supports("")
        script = (
            'case "$1" in support) cat support; exit 0;; esac\n'
            'echo "$5" >>asked\n'
            'case "$5" in *"("*) [ -f alone ] && { n=$(grep -c "(" asked); f=alone.$n; [ -f "$f" ] || f=alone; '
            'cat "$f"; exit "$(cat "$f.code")"; };; esac\n'
            'cat tests; cat error >&2; exit "$(cat code)"\n'
        )
        program(root / "bin", backend_ops.PROGRAM, f"cd {root}\n{script}")
        (root / "error").write_text("")

    def prints(self, text: str | bytes, code: int = 0) -> None:
        (self.root / "tests").write_bytes(text.encode() if isinstance(text, str) else text)
        (self.root / "code").write_text(str(code))

    def alone(self, *texts: str) -> None:
        """Set its output for a single case, run by run; the last one repeats."""
        for number, text in enumerate(texts, 1):
            name = "alone" if number == len(texts) else f"alone.{number}"
            (self.root / name).write_text(text)
            (self.root / f"{name}.code").write_text("1" if "FAIL" in text else "0")

    def supports(self, text: str) -> None:
        (self.root / "support").write_text(text)

    @property
    def asked(self) -> list[str]:
        return (self.root / "asked").read_text().splitlines()

    def judged(self, **settings: Any) -> Judgement:
        spec = OperatorSettings(**{"backend": "CPU", "ops": ("ADD",), **settings})
        with a_bench(self.root / "bin", self.root, kind="backend-ops/1") as bench:
            return backend_ops.run(spec, bench)


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def listed(cases: Mapping[str, bool]) -> str:
    """Return the output of `support --output csv`."""
    rows = ['"backend_name","op_name","op_params","test_mode","supported","error_message","backend_reg_name"']
    for name, yes in cases.items():
        op, _, rest = name.partition("(")
        rows.append(f'"CPU","{op}","{rest[:-1]}","support","{int(yes)}","{"yes" if yes else "no"}","CPU"')
    return "\n".join(rows) + "\n"


def test_what_these_tests_print_is_what_the_tool_prints() -> None:
    real = re.sub(r"  Device .*\n", "", (CAPTURED / "backend-ops-fail.out").read_text())
    tested = captured("backend-ops-fail")
    cases = {case.name: "OK" if case.passed else "FAIL" for case in tested.cases}
    without_notes = re.sub(r"^\[.*? > [\d.]+ ", "", real, flags=re.MULTILINE)
    assert printed(cases).replace("  Device description: x\n", "") == without_notes
    support = (CAPTURED / "backend-ops-support.out").read_text()
    read = read_supported(support.encode(), "CPU")
    assert read is not None
    assert sorted(listed(dict.fromkeys(read.yes, True)).splitlines()) == sorted(support.splitlines())


def test_a_run_of_the_real_tool_is_read() -> None:
    tested = captured("backend-ops")
    assert (tested.devices, tested.passed, tested.total, tested.holds) == (("CPU",), 37, 37, True)
    assert len(tested.ran) == 37
    assert contradiction(tested, 0) is None


def test_a_failing_run_of_the_real_tool_is_read_with_its_cases_and_errors() -> None:
    tested = captured("backend-ops-fail")
    assert (tested.passed, tested.total, tested.holds) == (30, 37, False)
    assert [case.name for case in tested.failed] == list(tested.failing)
    assert tested.failed[0].note == "[ARGMAX] ERR = 3075031279326.853515625 > 0.000000000"
    assert contradiction(tested, 1) is None


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("", "", 1, "contradicted by exit code 1"),
        ("  2/2 tests passed\n", "", 0, "the number of passed tests is missing"),
        ("1/1 backends passed\n\033[1;32mOK\033[0m\n", "", 0, "ends too early"),
        ("2/2 tests", "1/2 tests", 0, "contradicted by"),
        ("2/2 tests", "3/3 tests", 0, "counts 3 tests and names 2"),
        ("1/1 backends", "0/1 backends", 0, "contradicted by all backends"),
        ("Backend CPU: \033[1;32mOK", "Backend CPU: \033[1;31mFAIL", 0, "contradicted by its backend"),
        (f"{MUL}: \033[1;32mOK", f"{MUL}: \033[1;31mFAIL", 0, "but it names 1"),
        ("\033[0m\n  2/2 tests", "\033[0m\ngarbage\n\x00\n  2/2 tests", 0, None),
    ],
)
def test_output_that_contradicts_itself_is_not_believed(old: str, new: str, code: int, told: str | None) -> None:
    text = printed({ADD: "OK", MUL: "OK"})
    assert old in text
    said = contradiction(read_tested(text.replace(old, new).encode(), "CPU"), code)
    assert said is None if told is None else said is not None and told in said


def test_every_prefix_of_a_good_run_is_incomplete() -> None:
    text = (CAPTURED / "backend-ops.out").read_bytes()
    for end in range(0, len(text) - 1, 7):
        assert contradiction(read_tested(text[:end], "CPU"), 0) is not None, end


def test_damaged_lists_of_supported_cases_are_none() -> None:
    text = listed({ADD: True, MUL: False}).encode()
    read = read_supported(text, "CPU")
    assert read is not None
    assert (read.yes, read.no) == ((ADD,), (MUL,))
    other = read_supported(text, "CUDA0")
    assert other is not None
    assert (other.yes, other.no) == ((), ())
    for damaged in (b"", b"garbage\n", text[:-20] + b"\n", text.replace(b'"1"', b'"2"'), b'x "' + text):
        assert read_supported(damaged, "CPU") is None, damaged


def test_all_cases_passed_is_a_pass_and_is_not_run_again(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK", MUL: "OK"}))
    tool.supports(listed({ADD: True, MUL: True}))
    judgement = tool.judged(expected=2)
    assert (judgement.verdict, judgement.actual, judgement.expected) == (Verdict.PASS, "2/2", "2/2")
    assert tool.judged(expected=2).reason == judgement.reason
    assert len(tool.asked) == 1
    assert judgement.details["reference"] == {"count": 2, "sha256": digest_of([ADD, MUL])}
    assert judgement.details["cases"] == sorted([ADD, MUL])


def test_a_pass_without_a_count_says_that_nothing_says_how_many_there_should_be(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK"}))
    judgement = tool.judged()
    assert judgement.verdict is Verdict.PASS
    assert "the expected number of cases is not set" in judgement.reason


@pytest.mark.parametrize(
    ("name", "backend", "told"),
    [
        ("backend-ops-skipped", "CUDA0", "backend CUDA0 was not tested: this build has CPU"),
        ("backend-ops-no-case", "CPU", "0/0 cases of ADD ran on CPU: no case matched"),
        ("backend-ops-unsupported", "CPU", "none of 1 cases is supported"),
        ("backend-ops-csv", "CPU", "printed nothing of what it tests"),
    ],
)
def test_a_skipped_backend_and_a_filter_that_matches_nothing_are_invalid_though_the_tool_says_ok(
    tool: Tool, name: str, backend: str, told: str
) -> None:
    tool.prints((CAPTURED / f"{name}.out").read_bytes())
    judgement = tool.judged(backend=backend)
    assert judgement.verdict is Verdict.INVALID
    assert told in judgement.reason
    again = tool.judged(backend=backend)
    assert again.verdict is Verdict.INVALID
    assert len(tool.asked) >= 2, "what is INVALID is not kept"


def test_a_backend_of_two_that_is_skipped_is_invalid(tool: Tool) -> None:
    text = printed({ADD: "OK"}).replace("Backend 1/1: CPU", "Backend 1/2: CUDA0\n  Skipping\nBackend 2/2: CPU")
    tool.prints(text.replace("1/1 backends", "2/2 backends"))
    assert tool.judged(backend="CUDA0").verdict is Verdict.INVALID
    assert tool.judged(backend="CPU").verdict is Verdict.PASS


def test_fewer_cases_than_expected_fail(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK", MUL: "not supported [CPU] "}))
    judgement = tool.judged(expected=2)
    assert judgement.verdict is Verdict.FAIL
    assert "1 cases ran, and at least 2 are expected" in judgement.reason


def test_lost_cases_are_named_with_what_became_of_them_and_new_ones_are_told(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK", MUL: "not supported [CPU] ", "ADD(new)": "OK"}))
    tool.supports(listed({ADD: True, MUL: False, "ADD(new)": True}))
    judgement = tool.judged(cases=case_list([ADD, MUL, "ADD(gone)"]), expected=2)
    assert judgement.verdict is Verdict.FAIL
    assert f"{MUL} (no longer supported)" in judgement.reason
    assert "ADD(gone) (the case no longer exists)" in judgement.reason
    assert judgement.details["new"] == ["ADD(new)"]
    more = tool.judged(cases=case_list([ADD]))
    assert more.verdict is Verdict.PASS
    assert "1 of them are not in the reference: ADD(new)" in more.reason


def test_a_case_that_replaces_another_is_lost_coverage_though_the_count_is_the_same(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK", MUL: "OK"}))
    judgement = tool.judged(cases=case_list([ADD, "ADD(other)"]), expected=2)
    assert judgement.verdict is Verdict.FAIL
    assert "ADD(other)" in judgement.reason


def test_a_reference_without_names_fails_for_fewer_cases_and_is_invalid_for_others(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK", MUL: "OK"}))
    assert tool.judged(cases=CaseList(count=2, sha256=digest_of([MUL, ADD]))).verdict is Verdict.PASS
    assert tool.judged(cases=CaseList(count=3, sha256="0" * 64)).verdict is Verdict.FAIL
    assert tool.judged(cases=CaseList(count=2, sha256="0" * 64)).verdict is Verdict.INVALID


def test_an_operator_without_cases_beside_one_with_them_is_invalid(tool: Tool) -> None:
    tool.prints(printed({ADD: "OK"}))
    judgement = tool.judged(ops=("ADD", "GLUE"))
    assert judgement.verdict is Verdict.INVALID
    assert "no case of GLUE was run" in judgement.reason
    tool.prints(printed({ADD: "OK", GLUE: "OK"}))
    assert tool.judged(ops=("ADD", "GLUE"), seconds=9).verdict is Verdict.INVALID, (
        "the run is kept, and so is what it says"
    )


def test_every_case_of_a_reference_lost_is_a_fail(tool: Tool) -> None:
    tool.prints(printed({ADD: "not supported [CPU] "}))
    judgement = tool.judged(cases=case_list([ADD]))
    assert judgement.verdict is Verdict.FAIL
    assert ADD in judgement.reason


def test_a_failing_case_is_run_alone_and_its_rate_told_and_a_flaky_one_stays_a_fail(tool: Tool) -> None:
    tool.prints((CAPTURED / "backend-ops-fail.out").read_bytes(), 1)
    name = "ARGMAX(type=f32,ne=[1024,12,1,1])"
    bad, good = printed({name: "FAIL"}), printed({name: "OK"})
    tool.alone(bad, good, bad, good, good)
    judgement = tool.judged(ops=("ARGMAX", "L2_NORM"), expected=37, alone=5)
    assert judgement.verdict is Verdict.FAIL
    assert "7 of 37 cases fail" in judgement.reason
    assert f"{name} (ERR = 3075031279326.853515625 > 0.000000000, fails 2 of 5 alone)" in judgement.reason
    assert judgement.reason.endswith("and 4 more")
    assert tool.asked[1:6] == [name] * 5
    asked = len(tool.asked)
    assert tool.judged(ops=("ARGMAX", "L2_NORM"), expected=37, alone=5).reason == judgement.reason
    assert len(tool.asked) == asked, "the rate is kept too"


@pytest.mark.parametrize(
    ("code", "error", "verdict"),
    [
        (134, "ggml-cuda.cu:12: GGML_ASSERT(x) failed", Verdict.FAIL),
        (139, "", Verdict.FAIL),
        (137, "", Verdict.INVALID),
        (143, "", Verdict.INVALID),
        (134, "CUDA error: out of memory", Verdict.INVALID),
        (127, "error while loading shared libraries: libcudart.so.13", Verdict.INVALID),
        (1, "", Verdict.INVALID),
    ],
)
def test_a_crash_is_a_fail_with_the_case_before_it_and_an_end_from_outside_is_invalid(
    tool: Tool, code: int, error: str, verdict: Verdict
) -> None:
    tool.prints(printed({ADD: "OK", MUL: "OK"}).partition("  2/2")[0], code)
    (tool.root / "error").write_text(error + "\n")
    judgement = tool.judged(expected=2)
    assert judgement.verdict is verdict
    if verdict is Verdict.FAIL:
        assert judgement.reason.endswith(f"after {MUL}")


def test_memory_that_cannot_be_had_is_invalid_and_tried_again(tool: Tool) -> None:
    tool.prints(printed({ADD: "FAIL"}).replace(f"  {ADD}: \033", "failed to allocate tensors [CPU] \033"), 1)
    judgement = tool.judged(tries=2)
    assert judgement.verdict is Verdict.INVALID
    assert "could not allocate memory" in judgement.reason
    assert len(judgement.attempts) == 2


def test_usage_of_another_version_of_the_tool_is_invalid(tool: Tool) -> None:
    tool.prints((CAPTURED / "backend-ops-usage.out").read_bytes(), 1)
    assert tool.judged().verdict is Verdict.INVALID


def test_the_same_case_twice_counts_twice() -> None:
    assert compared([ADD], case_list([ADD, ADD])).lost == (ADD,)
    assert compared([ADD, ADD], case_list([ADD])).new == (ADD,)
    assert compared([MUL, ADD], case_list([ADD, MUL])) == compared([], CaseList(count=0, sha256=digest_of([])))


def test_lists_of_cases_are_read_and_empty_or_strange_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases"
    path.write_text(f"# of the pin\n{MUL}\n\n{ADD}\n")
    assert read_case_list(path) == case_list([ADD, MUL])
    for text in ("", "# nothing\n", "no case\n"):
        path.write_text(text)
        with pytest.raises(ConfigError):
            read_case_list(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not text"):
        read_case_list(path)
    with pytest.raises(MissingError, match="cannot be read"):
        read_case_list(tmp_path / "none")


def read(tmp_path: Path, text: str) -> tuple[OperatorSettings, list[str]]:
    path = tmp_path / "patchstack.yaml"
    path.write_text(text)
    problems: list[str] = []
    return backend_ops.KIND.read(Node(read_yaml(path), path, "", problems), {}), problems


def test_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text(f"{ADD}\n")
    spec, problems = read(
        tmp_path, "backend: CUDA0\nops: [ADD, GLUE]\nexpect: 9\ncases: {file: cases, count: 1}\nenv: {A: b}\nalone: 2\n"
    )
    assert problems == []
    assert (spec.backend, spec.ops, spec.expected, spec.cases) == ("CUDA0", ("ADD", "GLUE"), 9, case_list([ADD]))
    assert (spec.env, spec.alone) == ((("A", "b"),), 2)
    assert spec.test(spec.ops, "t").args == ("test", "-b", "CUDA0", "-o", "ADD,GLUE", "-j", "1")
    spec, problems = read(tmp_path, f"backend: CPU\nop: ADD\ncases: {{count: 3, sha256: {'a' * 64}}}\n")
    assert problems == []
    assert (spec.expected, spec.cases) == (None, CaseList(count=3, sha256="a" * 64))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("op: ADD", "backend is missing"),
        ("backend: CPU", "give either op (one operator) or ops"),
        ("backend: CPU\nop: ADD\nops: [ADD]", "give either op (one operator) or ops"),
        ("backend: CPU\nops: []", "give either op (one operator) or ops"),
        ("backend: CPU\nop: ADD,MUL", "is several operators"),
        ("backend: CPU\nop: ADD\nexpect: 0", "must be from 1 to "),
        ("backend: CPU\nop: ADD\ncases: {file: none}", "cannot be read"),
        ("backend: CPU\nop: ADD\ncases: {count: 3}", "count and sha256"),
        ("backend: CPU\nop: ADD\ncases: {count: 3, sha256: abc}", "count and sha256"),
        ("backend: CPU\nop: ADD\nexpected: 3", "perhaps you meant expect"),
        ("backend: CPU\nop: ADD\nenv: {LD_PRELOAD: x}", "LD_PRELOAD"),
    ],
)
def test_wrong_settings_are_complained_about(tmp_path: Path, text: str, told: str) -> None:
    _, problems = read(tmp_path, text + "\n")
    assert any(told in problem for problem in problems), problems


def test_a_list_that_is_not_the_one_of_its_digest_is_complained_about(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text(f"{ADD}\n")
    _, problems = read(tmp_path, "backend: CPU\nop: ADD\ncases: {file: cases, count: 2}\n")
    assert any("which differs from this entry" in problem for problem in problems)


@pytest.mark.parametrize(
    ("given", "told"),
    [("linked", "judged by the test program of the base"), ("static", "judged by its own test program")],
)
def test_a_candidate_is_judged_by_the_test_program_of_the_base(tmp_path: Path, given: str, told: str) -> None:
    """The candidate's own test program says OK whatever its library computes; the base's does not."""
    captured = (DATA / "llama" / "captured" / "backend-ops.out").read_text()
    fails = (DATA / "llama" / "captured" / "backend-ops-fail.out").read_text()
    support = (DATA / "llama" / "captured" / "backend-ops-support.out").read_text()

    def build(name: str, right: int, *, honest: bool) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        for file, text in (("ok", captured), ("fail", fails), ("support", support)):
            (tmp_path / f"{file}.txt").write_text(text)
        (tmp_path / "lib.c").write_text(f"int right(void) {{ return {right}; }}\n")
        ask = "right()" if honest else "1"
        (tmp_path / "main.c").write_text(
            "#include <stdio.h>\n#include <string.h>\nint right(void);\n"
            'static int show(const char * path) { FILE * f = fopen(path, "r"); int c;'
            " while ((c = fgetc(f)) != EOF) putchar(c); return 0; }\n"
            "int main(int argc, char ** argv) { (void) argc; right();"
            f' if (!strcmp(argv[1], "support")) return show("{tmp_path}/support.txt");'
            f' if ({ask}) return show("{tmp_path}/ok.txt"); show("{tmp_path}/fail.txt"); return 1; }}\n'
        )
        shared = ["-shared", "-fPIC", "-Wl,-soname,libggml.so", "-o", "libggml.so", str(tmp_path / "lib.c")]
        run_cc(directory, *shared)
        parts = ["-L.", "-lggml", "-Wl,-rpath,$ORIGIN"] if given == "linked" else [str(tmp_path / "lib.c")]
        run_cc(directory, "-o", PROGRAM, str(tmp_path / "main.c"), *parts)
        return directory

    def run_cc(directory: Path, *arguments: str) -> None:
        subprocess.run(["cc", *arguments], cwd=directory, check=True)

    base, candidate = build("base", 1, honest=True), build("candidate", 0, honest=False)
    settings = OperatorSettings(backend="CPU", ops=("ARGMAX", "L2_NORM"), alone=0)
    with a_bench(candidate, tmp_path) as bench:
        assert run(settings, bench).verdict is Verdict.PASS, "its own judge lies"
        judge = Programs(directory=base, platform=bench.about.platform)
        judgement = run(settings, bench.within(dataclasses.replace(bench.context, judge=judge)))
    assert judgement.reason.endswith(told)
    assert judgement.verdict is (Verdict.FAIL if given == "linked" else Verdict.PASS)
    assert judgement.details["judge"] == told
