"""Gate kind `red-green`: a test fails without the code that it covers, and passes with it.

A test that never failed proves nothing. The test program is run from two builds. One is the judged build. The other is
a build of the same series that has the test, but not the code. `without` is the key of the other build, or the
directory of its programs. The result without the code must be red: a failure of the test itself, with the exit code and
the message of a failed test. A program that is missing, cannot start, or crashes without a failed assertion is not a
failed test. A run without tests is not a passed test.

    - name: shape-trace
      kind: red-green
      program: test-cuda-mmq-shape-trace
      without: ../no-trace/bin
      red: 'FAILED|GGML_ASSERT'
      green: '(\\d+) tests passed'      # an optional group is the number of tests, which must not be 0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchstack.errors import MissingError, NotHeldError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.llama.program import Program
from patchstack.llama.settings import ARGS, ENV, ITS_MODEL, PROGRAM, SECONDS, SENTINEL, TRIES, program_of
from patchstack.observe.declared import BuildName, Pattern, Setting, Values, Whole
from patchstack.observe.exit_status import cause_of_crash, complaint_of, crashed, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Observation, Observed
from patchstack.observe.sentinel import all_lines_of
from patchstack.verdict import Verdict

_ABORTED = 134  # 128 + SIGABRT, the signal of a failed assertion


@dataclass(frozen=True, slots=True, kw_only=True)
class RedGreenSettings:
    """The settings of the gate.

    `without` is the build without the code under test (see `observe.from_build`). `red` matches the output of a failed
    test, and `green` matches the output of a passed test. If `green` has a group, the first group is the number of
    tests that ran. `red_exit` is the exit code of a failed test. If it is None, the exit codes 1 to 125 and 134 (a
    failed assertion) count as a failure.
    """

    program: Program
    without: str
    red: str
    green: str
    red_exit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestColour:
    """The result of a test run.

    `green` is true if the test passed, and `red` is true if it failed as a test. If neither is true, the run proves
    nothing. `told` is the reason for the result.
    """

    green: bool = False
    red: bool = False
    told: str = ""


WITHOUT = Setting[str](
    name="without",
    form=BuildName(),
    default=".",
    required=True,
    metavar="BUILD",
    help="The build without the code: its key, or the directory of its programs.",
)
RED = Setting[str](
    name="red",
    form=Pattern(),
    default=".",
    required=True,
    metavar="REGEX",
    help="A pattern of a line that a failed test prints.",
)
GREEN = Setting[str](
    name="green",
    form=Pattern(),
    default=".",
    required=True,
    metavar="REGEX",
    help="A pattern of a line that a passed test prints. An optional group is the number of tests.",
)
RED_EXIT = Setting[int | None](
    name="red_exit",
    form=Whole(1, 255),
    default=None,
    metavar="N",
    help="The exit code of a failed test [default: 1 to 125, or 134].",
)


def settings_of(values: Values) -> RedGreenSettings:
    """Return the settings from values."""
    return RedGreenSettings(
        program=program_of(values),
        without=values[WITHOUT],
        red=values[RED],
        green=values[GREEN],
        red_exit=values[RED_EXIT],
    )


def run(settings: RedGreenSettings, runner: Observer, *, without: Observer | None = None) -> Judgement:
    """Run the test with and without the code, and judge both runs.

    `without` is a runner for the build without the code. If it is None, the runner is created from the settings.
    """
    if without is not None:
        return _run(settings, runner, without)
    try:
        other = runner.beside(settings.without)
    except (MissingError, NotHeldError) as error:
        return _judgement(settings, Verdict.INVALID, f"the build without the code: {error.message}", {}, ())
    with other:
        return _run(settings, runner, other)


def _run(settings: RedGreenSettings, runner: Observer, other: Observer) -> Judgement:
    for name, one in (("with", runner), ("without", other)):
        if settings.program.name not in one.programs():
            reason = f"the build {name} the code has no {settings.program.name}: a missing test cannot fail"
            return _judgement(settings, Verdict.INVALID, reason, {}, ())
    call = settings.program.invocation
    green = runner.observe(call("with the code"), complete=complete(settings), tries=settings.program.tries)
    red = other.observe(call("without the code"), complete=complete(settings), tries=settings.program.tries)
    return judgement_of_colours(settings, green, red)


def complete(settings: RedGreenSettings) -> Complete:
    """Return a function that checks whether a run can be judged.

    The run must be red or green, or must have crashed.
    """

    def complaint(seen: Observation) -> str | None:
        found = colour(settings, seen)
        return None if found.green or found.red or crashed(seen.code) else found.told

    return complaint


def judgement_of_colours(settings: RedGreenSettings, green: Observed, red: Observed) -> Judgement:
    """Return the verdict of both runs."""
    attempts = (*green.attempts, *red.attempts)
    with_code = (
        colour(settings, green.observation) if green.observation is not None else TestColour(told=complaint_of(green))
    )
    without = colour(settings, red.observation) if red.observation is not None else TestColour(told=complaint_of(red))
    colours = {"with": with_code, "without": without}
    verdict, reason = _decided(with_code, without, green, red)
    return _judgement(settings, verdict, reason, colours, attempts)


def colour(settings: RedGreenSettings, seen: Observation) -> TestColour:
    """Return the result of a test run."""
    lines = all_lines_of(seen.stdout, seen.stderr)
    failing = next((line.strip() for line in lines if re.search(settings.red, line)), None)
    if seen.code == 0:
        return _passed(settings, lines, failing)
    failed = (
        seen.code == settings.red_exit
        if settings.red_exit is not None
        else 0 < seen.code < 126 or seen.code == _ABORTED
    )
    # Search stdout for a fault only if there is no line of a failed test, because such a line may contain any text.
    fault = fault_of(seen, pinned=settings.program.pinned, stdout=failing is None)
    if fault is not None and not fault.by_build and not fault.unexplained:
        return TestColour(told=fault.reason)
    if failed and failing is not None:
        return TestColour(red=True, told=f"exit code {seen.code}: {failing[:300]}")
    if failed:
        why = f": {fault.reason}" if fault is not None and not fault.unexplained else ""
        return TestColour(told=f"exit code {seen.code}, but no line of a failed test ({settings.red!r}){why}")
    told = cause_of_crash(seen) if crashed(seen.code) else f"not the exit code of a failed test{_wanted(settings)}"
    return TestColour(told=f"exit code {seen.code}: {told}")


def _passed(settings: RedGreenSettings, lines: list[str], failing: str | None) -> TestColour:
    found = [match for line in lines if (match := re.search(settings.green, line)) is not None]
    if not found:
        return TestColour(told=f"exit code 0, but no line of a passed test ({settings.green!r})")
    if failing is not None:
        return TestColour(told=f"exit code 0, and a line of a failed test: {failing[:300]}")
    counts = [match.group(1) for match in found if match.re.groups]
    if counts and not any(text and text.isdecimal() and int(text) > 0 for text in counts):
        return TestColour(told=f"exit code 0, and no test was run: {found[-1].string.strip()[:300]}")
    return TestColour(green=True, told=found[-1].string.strip()[:300])


def _decided(with_code: TestColour, without: TestColour, green: Observed, red: Observed) -> tuple[Verdict, str]:
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


def _wanted(settings: RedGreenSettings) -> str:
    return f" ({settings.red_exit})" if settings.red_exit is not None else ""


def _named(one: TestColour) -> str:
    return "green" if one.green else "red" if one.red else "neither"


def _judgement(
    settings: RedGreenSettings,
    verdict: Verdict,
    reason: str,
    colours: Mapping[str, TestColour],
    attempts: tuple[Attempt, ...],
) -> Judgement:
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual=", ".join(f"{_named(one)} {name}" for name, one in colours.items()),
        expected="green with, red without",
        details={
            "program": settings.program.name,
            "without": settings.without,
            **{name: {"colour": _named(one), "told": one.told} for name, one in colours.items()},
        },
        attempts=attempts,
    )


KIND = Kind(
    name="red-green",
    version=1,
    about="Run a test from a build without the code that it covers, and from a build with the code.",
    settings=(
        WITHOUT,
        PROGRAM,
        RED,
        GREEN,
        RED_EXIT,
        ARGS,
        ITS_MODEL,
        ENV,
        replace(SENTINEL, on_command_line=False),
        SECONDS,
        TRIES,
    ),
    make=settings_of,
    run=run,
    programs=lambda settings: (settings.program.name,),
)
