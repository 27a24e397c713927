"""Gate kind `red-green`: a test fails without the code that it covers, and passes with it.

A test that never failed proves nothing. The test program is run from two builds: the one at hand, and one of the same
series with the test and without the code (`without`: its key, or the directory of its programs). Red must be the
test's own failure: the exit code of one, and the words of one. A program that is missing, cannot start, or crashes
otherwise is no failed test; nor is a run of no tests a passed one.

    - name: shape-trace
      kind: red-green
      program: test-cuda-mmq-shape-trace
      without: ../no-trace/bin
      red: 'FAILED|GGML_ASSERT'
      green: '(\\d+) tests passed'      # a group, where there is one, is the number of tests, and must not be 0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.errors import MissingError, NotHeldError
from patchstack.gates.judgement import Judgement
from patchstack.llama.program import Program, read_program
from patchstack.observe.exit_status import cause_of_crash, complaint_of, crashed, fault_of
from patchstack.observe.from_build import read_build
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Model, Observation, Observed
from patchstack.observe.sentinel import all_lines_of
from patchstack.observe.settings import bounded, pattern
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "red-green"
VERSION = 1

_ABORTED = 134  # SIGABRT: how a failed assertion ends a test


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings. `without` is the build without the code (see `observe.other_build`). `red` is found in what a
    failed test prints, `green` in what a passed one does; the first group of `green`, if it has one, is how many tests
    ran.
    `red_exit` is the exit code of a failed test; None: 1 to 125, or the one of a failed assertion."""

    program: Program
    without: str
    red: str
    green: str
    red_exit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """What a run of the test came to: it passed (`green`), failed as a test fails (`red`), or neither, and why."""

    green: bool = False
    red: bool = False
    told: str = ""


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry."""
    code = bounded(node, "red_exit", default=0, least=1, most=255) if node.node.get("red_exit") is not None else 0
    if not code:
        node.used.append("red_exit")
    spec = Spec(
        program=read_program(node, models),
        without=read_build(node, "without", required=True) or ".",
        red=pattern(node, "red", required=True) or ".",
        green=pattern(node, "green", required=True) or ".",
        red_exit=code or None,
    )
    node.finish()
    return spec


def run(spec: Spec, runner: Observer, *, without: Observer | None = None) -> Judgement:
    """Run the test with the code and without, and judge. `without` is a runner of the programs without the code; it is
    made beside the one at hand where none is given."""
    if without is not None:
        return _run(spec, runner, without)
    try:
        other = runner.beside(spec.without)
    except (MissingError, NotHeldError) as error:
        return _judgement(spec, Verdict.INVALID, f"the build without the code: {error.message}", {}, ())
    with other:
        return _run(spec, runner, other)


def _run(spec: Spec, runner: Observer, other: Observer) -> Judgement:
    for name, one in (("with", runner), ("without", other)):
        if spec.program.name not in one.programs():
            reason = f"the build {name} the code has no {spec.program.name}: a test that is not there cannot fail"
            return _judgement(spec, Verdict.INVALID, reason, {}, ())
    call = spec.program.invocation
    green = runner.observe(call("with the code"), complete=complete(spec), tries=spec.program.tries)
    red = other.observe(call("without the code"), complete=complete(spec), tries=spec.program.tries)
    return judge(spec, green, red)


def complete(spec: Spec) -> Complete:
    """Judges whether a run can be judged: it came to red or to green, or crashed."""

    def complaint(seen: Observation) -> str | None:
        found = colour(spec, seen)
        return None if found.green or found.red or crashed(seen.code) else found.told

    return complaint


def judge(spec: Spec, green: Observed, red: Observed) -> Judgement:
    """The verdict of both runs."""
    attempts = (*green.attempts, *red.attempts)
    with_code = colour(spec, green.observation) if green.observation is not None else Colour(told=complaint_of(green))
    without = colour(spec, red.observation) if red.observation is not None else Colour(told=complaint_of(red))
    colours = {"with": with_code, "without": without}
    verdict, reason = _decided(with_code, without, green, red)
    return _judgement(spec, verdict, reason, colours, attempts)


def colour(spec: Spec, seen: Observation) -> Colour:
    """What a run of the test came to."""
    lines = all_lines_of(seen.stdout, seen.stderr)
    failing = next((line.strip() for line in lines if re.search(spec.red, line)), None)
    if seen.code == 0:
        return _passed(spec, lines, failing)
    failed = seen.code == spec.red_exit if spec.red_exit is not None else 0 < seen.code < 126 or seen.code == _ABORTED
    # A line of a failed test may hold any words. Without one, what is on stdout may say why there is none.
    fault = fault_of(seen, pinned=spec.program.pinned, stdout=failing is None)
    if fault is not None and not fault.by_build and not fault.unexplained:
        return Colour(told=fault.reason)
    if failed and failing is not None:
        return Colour(red=True, told=f"exit code {seen.code}: {failing[:300]}")
    if failed:
        why = f": {fault.reason}" if fault is not None and not fault.unexplained else ""
        return Colour(told=f"exit code {seen.code}, but no line of a failed test ({spec.red!r}){why}")
    told = cause_of_crash(seen) if crashed(seen.code) else f"not the exit code of a failed test{_wanted(spec)}"
    return Colour(told=f"exit code {seen.code}: {told}")


def _passed(spec: Spec, lines: list[str], failing: str | None) -> Colour:
    found = [match for line in lines if (match := re.search(spec.green, line)) is not None]
    if not found:
        return Colour(told=f"exit code 0, but no line of a passed test ({spec.green!r})")
    if failing is not None:
        return Colour(told=f"exit code 0, and a line of a failed test: {failing[:300]}")
    counts = [match.group(1) for match in found if match.re.groups]
    if counts and not any(text and text.isdecimal() and int(text) > 0 for text in counts):
        return Colour(told=f"exit code 0, and no test was run: {found[-1].string.strip()[:300]}")
    return Colour(green=True, told=found[-1].string.strip()[:300])


def _decided(with_code: Colour, without: Colour, green: Observed, red: Observed) -> tuple[Verdict, str]:
    if green.observation is not None and red.observation is not None and green.observation.key == red.observation.key:
        return Verdict.INVALID, "the builds with and without the code are the same"
    if with_code.red:
        return Verdict.FAIL, f"the test fails with the code: {with_code.told}"
    if green.observation is not None and not with_code.green:
        return Verdict.FAIL, f"the test crashes with the code: {with_code.told}"
    if without.green:
        return Verdict.FAIL, f"the test passes without the code, and so does not cover it: {without.told}"
    if not with_code.green:
        return Verdict.INVALID, f"with the code: {with_code.told}"
    if not without.red:
        return Verdict.INVALID, f"without the code: {without.told}"
    return Verdict.PASS, f"red without the code ({without.told}), green with it ({with_code.told})"


def _wanted(spec: Spec) -> str:
    return f" ({spec.red_exit})" if spec.red_exit is not None else ""


def _named(one: Colour) -> str:
    return "green" if one.green else "red" if one.red else "neither"


def _judgement(
    spec: Spec, verdict: Verdict, reason: str, colours: Mapping[str, Colour], attempts: tuple[Attempt, ...]
) -> Judgement:
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual=", ".join(f"{_named(one)} {name}" for name, one in colours.items()),
        expected="green with, red without",
        details={
            "program": spec.program.name,
            "without": spec.without,
            **{name: {"colour": _named(one), "told": one.told} for name, one in colours.items()},
        },
        attempts=attempts,
    )
