"""Gate kind `backend-ops`: a backend computes the same results as the CPU, and runs every case of a reference.

`test-backend-ops` prints OK and exits with 0 even if it skipped the named backend, or if no case matched. Its total
shrinks if a backend no longer supports a case. Therefore the gate requires that the named backend was tested, that all
parts of the output agree, and that each operator has cases. If there is a reference, the gate also compares the cases
with it. The gate reads the list of cases from the test run, because `test-backend-ops support` omits the cases of fused
graphs. The output of `test-backend-ops support` shows why a case was lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchstack.causes import InputMissing, SettingsUnusable
from patchstack.errors import MissingError, PatchstackError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.llama.backend_ops_output import ConsoleOutput, Supported, contradiction, read_supported, read_tested
from patchstack.llama.settings import ENV, SECONDS, TRIES
from patchstack.observe.declared import Models, Setting, Text, Texts, Values, Whole
from patchstack.observe.exit_status import crashed, fault_of
from patchstack.observe.observer import Observer, Settled, retry
from patchstack.observe.protocol import Attempt, Complete, Invocation, Json, Observation
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node

PROGRAM = "test-backend-ops"
_ENVIRONMENT: Environment = (("GGML_NO_BACKTRACE", "1"),)
_SHOWN = 3
_LISTED = 50
_NOT_LINKED = 127  # the dynamic loader's exit code for a missing library or symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of the gate.

    `ops` are names for `-o`: operators (also those that patches add), or full names of cases. `expected` is the minimum
    number of cases. `cases` are the cases that must run. If cases fail, the gate runs each of the first `alone_cases`
    of them separately, `alone` times. Inputs are random, so a failure rate is more informative than one failure.
    """

    backend: str
    ops: tuple[str, ...]
    expected: int | None = None
    cases: CaseList | None = None
    env: Environment = ()
    alone: int = 5
    alone_cases: int = 3
    seconds: int = 3600
    tries: int = 3

    def test(self, ops: Sequence[str], what: str) -> Invocation:
        """Return the invocation that tests the given operators or cases."""
        return self._invocation(what, ("test", "-b", self.backend, "-o", ",".join(ops), "-j", "1"))

    def support(self) -> Invocation:
        """Return the invocation that lists the supported cases. It is fast, because it computes nothing."""
        args = ("support", "-b", self.backend, "-o", ",".join(self.ops), "--output", "csv")
        return self._invocation("supported cases", args)

    def _invocation(self, what: str, args: tuple[str, ...]) -> Invocation:
        env = merged(_ENVIRONMENT, self.env)
        return Invocation(what=what, program=PROGRAM, args=args, env=env, seconds=float(self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """The failure rate of a case that was run on its own.

    `runs` is the number of runs that could be judged. `failed` is the number of these runs that failed.
    """

    name: str
    failed: int
    runs: int


_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseList:
    """The cases of a reference.

    `names` is sorted, and a name may occur several times. `names` is None if only the count and the digest are known.
    """

    count: int
    sha256: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The difference between the cases that ran and a reference.

    `lost` and `new` are names of cases. `unknown` is true if the cases differ, but the reference has no names. Then at
    least `fewer` cases are missing.
    """

    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unknown: bool = False
    fewer: int = 0


def digest_of(names: Iterable[str]) -> str:
    """Return the SHA-256, in hex, of the sorted names. Each name is followed by a newline."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def case_list(names: Iterable[str]) -> CaseList:
    """Return the case list of these names."""
    ordered = tuple(sorted(names))
    return CaseList(count=len(ordered), sha256=digest_of(ordered), names=ordered)


def compared(names: Sequence[str], reference: CaseList) -> Coverage:
    """Return the difference between a reference and the cases that ran, which are given by name."""
    if reference.names is None:
        if digest_of(names) == reference.sha256:
            return Coverage()
        return Coverage(unknown=True, fewer=max(0, reference.count - len(names)))
    ran, must = Counter(names), Counter(reference.names)
    return Coverage(lost=tuple(sorted((must - ran).elements())), new=tuple(sorted((ran - must).elements())))


def read_case_list(path: Path) -> CaseList:
    """Read a file with one full name per line. Blank lines and lines that start with `#` are ignored.

    Raises `MissingError` if the file cannot be read, and `ConfigError` if it contains no cases or invalid ones.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputMissing(f"the list of cases {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsUnusable(f"the list of cases {path} is not text: {error}") from error
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise SettingsUnusable(
            f"the list of cases {path} is empty", hint="write one case per line, as test-backend-ops prints it"
        )
    if odd := next((name for name in names if not re.fullmatch(r"[^\s(]+\(.*\)", name)), None):
        raise SettingsUnusable(
            f"{path}: {odd[:80]!r} is not a case", hint="a case is OP(parameters), as test-backend-ops prints it"
        )
    return case_list(names)


def is_digest(text: str) -> bool:
    """Return whether a string can be the digest of a list of cases."""
    return _DIGEST.match(text) is not None


def op_problem(name: str) -> str | None:
    """Return why a name cannot be the name of an operator or a case. Return None if it can."""
    if not name.strip() or name != name.strip():
        return f"{name!r} is not an operator"
    if "(" not in name and "," in name:
        return f"{name!r} is several operators; write each as its own item"
    return None


@dataclass(frozen=True, slots=True)
class Cases:
    """The form of a setting that contains the cases that must run: a file, or a count and a digest."""

    written: str = "a mapping: `file`, or `count` and `sha256`"
    option: Any = Path

    def read(self, node: Node, name: str, models: Models) -> CaseList | None:
        child = node.mapping(name)
        if child is None:
            return None
        file, digest, counted = child.text("file"), child.text("sha256"), child.integer("count", default=0)
        count = counted if "count" in child.node else None
        child.finish()
        if file is not None:
            return _listed(child, file, digest, count)
        if digest is None or count is None or count < 1 or not is_digest(digest):
            child.complain(None, "give the list of cases as file, or its count and sha256 (64 hexadecimal digits)")
            return None
        return CaseList(count=count, sha256=digest)

    def convert(self, given: Path, name: str, models: Models) -> CaseList:
        return read_case_list(given)


def _listed(node: Node, file: str, digest: str | None, count: int | None) -> CaseList | None:
    try:
        found = read_case_list(node.path.parent / file)
    except PatchstackError as error:
        node.complain("file", error.message)
        return None
    if digest not in (None, found.sha256) or count not in (None, found.count):
        told = f"{file} has {found.count} cases and sha256 {found.sha256}, which differs from this entry"
        node.complain("file", told)
    return found


OP = Setting[str | None](
    name="op",
    form=Text(written="an operator, or the full name of a case", check=op_problem),
    default=None,
    on_command_line=False,
    help="The operator.",
)
OPS = Setting[tuple[str, ...]](
    name="ops",
    form=Texts(written="a list of operators", check=op_problem),
    default=(),
    option_required=True,
    flag="--op",
    metavar="OP",
    help="An operator, or the full name of a case.",
)
BACKEND = Setting[str](
    name="backend",
    form=Text(),
    default="",
    required=True,
    option_required=False,
    option_default="CPU",
    metavar="NAME",
    help="The backend, by the tool's name for it, such as CPU or CUDA0.",
)
EXPECT = Setting[int | None](
    name="expect",
    form=Whole(1, 10**7),
    default=None,
    metavar="N",
    help="The minimum number of cases that must run.",
)
CASES = Setting[CaseList | None](
    name="cases",
    form=Cases(),
    default=None,
    metavar="FILE",
    help="The cases that must run, one full name per line.",
)
TRIES_OF_TESTS = replace(TRIES, default=3, on_command_line=False)
ALONE = Setting[int](
    name="alone",
    form=Whole(0, 100),
    default=5,
    metavar="N",
    help="The number of times that a failing case is run on its own.",
)


def settings_of(values: Values) -> OperatorSettings:
    """Return the settings from values."""
    one, ops = values[OP], values[OPS]
    if values.chosen(OP) == values.chosen(OPS) or (values.chosen(OPS) and not ops):
        values.complain("", "give either op (one operator) or ops (a list of operators)")
    return OperatorSettings(
        backend=values[BACKEND],
        ops=ops or ((one,) if one is not None else ()),
        expected=values[EXPECT],
        cases=values[CASES],
        env=values[ENV],
        alone=values[ALONE],
        seconds=values[SECONDS],
        tries=values[TRIES_OF_TESTS],
    )


def run(settings: OperatorSettings, runner: Observer) -> Judgement:
    """Test the operators, and judge the results.

    The supported cases are listed, and failing cases are run again on their own.

    If the base build is known, its test program is run with the libraries of the judged build, so that a candidate
    cannot provide its own test. If the test program of the base build does not run, the program of the judged build is
    used, and the judgement says so.
    """
    if runner.context.judge is not None:
        with contextlib.suppress(MissingError), runner.judged_with(PROGRAM, runner.context.judge) as borrowed:
            judgement = _run(settings, borrowed)
            if not judgement.details.get("unlinked"):
                return _judged_by(judgement, OF_THE_BASE)
        return _judged_by(_run(settings, runner), OWN)
    return _run(settings, runner)


OF_THE_BASE, OWN = "judged by the test program of the base", "judged by its own test program"


def _judged_by(judgement: Judgement, judge: str) -> Judgement:
    return replace(judgement, reason=f"{judgement.reason}; {judge}", details={**judgement.details, "judge": judge})


def _run(settings: OperatorSettings, runner: Observer) -> Judgement:
    complete = _tested_well(settings)
    tested = retry(runner, settings.test(settings.ops, "tests"), complete, tries=settings.tries)
    if tested.observation is None:
        return Judgement(
            verdict=Verdict.INVALID,
            reason=tested.complaint,
            expected=_expected(settings),
            details={"unlinked": True} if any(one.code == _NOT_LINKED for one in tested.attempts) else {},
            attempts=tested.attempts,
        )
    listed = retry(runner, settings.support(), _listed_well(settings.backend), tries=settings.tries)
    supported = None
    if listed.observation is not None:
        supported = read_supported(listed.observation.stdout, settings.backend)
    seen = tested.observation
    output = read_tested(seen.stdout, settings.backend)
    attempts = [*tested.attempts, *listed.attempts]
    alone: list[FailureRate] = []
    if not crashed(seen.code):
        for case in output.failed[: settings.alone_cases]:
            rate, tries = _alone(settings, runner, case.name)
            alone.append(rate)
            attempts += tries
    return judgement_of_cases(settings, seen, output, supported, alone=alone, attempts=attempts)


def judgement_of_cases(
    settings: OperatorSettings,
    seen: Observation,
    tested: ConsoleOutput,
    supported: Supported | None,
    *,
    alone: Sequence[FailureRate] = (),
    attempts: Sequence[Attempt] = (),
) -> Judgement:
    """Return the verdict of a run that can be judged."""
    coverage = compared(tested.ran, settings.cases) if settings.cases is not None else Coverage()
    wrong, unclear = _complaints(settings, seen, tested, coverage, supported, alone)
    told = wrong + unclear if wrong or unclear else _praise(settings, tested, coverage)
    verdict = Verdict.FAIL if wrong else Verdict.INVALID if unclear else Verdict.PASS
    return Judgement(
        verdict=verdict,
        reason="; ".join(told),
        actual=f"{tested.passed}/{tested.total}" if tested.total is not None else f"exit code {seen.code}",
        expected=_expected(settings),
        details=_details(settings, tested, coverage, supported, alone),
        attempts=tuple(attempts),
    )


def _complaints(
    settings: OperatorSettings,
    seen: Observation,
    tested: ConsoleOutput,
    coverage: Coverage,
    supported: Supported | None,
    alone: Sequence[FailureRate],
) -> tuple[list[str], list[str]]:
    """Return the reasons for FAIL, and the reasons for INVALID."""
    wrong: list[str] = []
    unclear: list[str] = []
    if crashed(seen.code):
        fault = fault_of(seen, pinned=True)
        after = f", after {tested.cases[-1].name}" if tested.cases else ", before the first case was done"
        return [(fault.reason if fault else f"exit code {seen.code}") + after], []
    total, passed = tested.total or 0, tested.passed or 0
    if passed < total:
        wrong.append(f"{total - passed} of {total} cases fail: {_failures(tested, alone)}")
    if coverage.lost:
        gone = _some([_lost(name, supported) for name in coverage.lost])
        wrong.append(f"{len(coverage.lost)} cases of the reference were not run: {gone}")
    if coverage.fewer:
        wrong.append(f"at least {coverage.fewer} cases of the reference were not run; it has no list to name them")
    elif coverage.unknown:
        unclear.append("the cases are not those of the reference, which has no list to say whether some were lost")
    if settings.expected is not None and total < settings.expected:
        wrong.append(f"{total} cases ran, and at least {settings.expected} are expected")
    if missing := [op for op in settings.ops if not _matches(op, tested.ran)]:
        unclear.append(f"no case of {', '.join(missing)} was run")
    return wrong, unclear


def _praise(settings: OperatorSettings, tested: ConsoleOutput, coverage: Coverage) -> list[str]:
    told = [f"{tested.passed}/{tested.total} cases pass on {settings.backend}"]
    if coverage.new:
        told.append(f"{len(coverage.new)} of them are not in the reference: {_some(coverage.new)}")
    if settings.cases is None and settings.expected is None:
        told.append("the expected number of cases is not set")
    return told


def _details(
    settings: OperatorSettings,
    tested: ConsoleOutput,
    coverage: Coverage,
    supported: Supported | None,
    alone: Sequence[FailureRate],
) -> dict[str, Json]:
    ran = case_list(tested.ran)
    details: dict[str, Json] = {
        "backend": settings.backend,
        "devices": list(tested.devices),
        "ops": list(settings.ops),
        "passed": tested.passed,
        "total": tested.total,
        "reference": {"count": ran.count, "sha256": ran.sha256},
        "unsupported": len(tested.unsupported),
        "failed": [{"case": case.name, "note": case.note} for case in tested.failed[:_LISTED]],
        "alone": [{"case": one.name, "failed": one.failed, "runs": one.runs} for one in alone],
        "lost": list(coverage.lost),
        "new": list(coverage.new),
    }
    if supported is not None:
        idle = sorted(set(supported.yes) - set(ran.names or ()))
        details["supported"] = len(supported.yes)
        details["supported_not_run"] = list(idle[:_LISTED])
    if settings.cases is None or settings.cases.sha256 != ran.sha256:
        details["cases"] = list(ran.names or ())
    return details


def _tested_well(settings: OperatorSettings) -> Complete:
    """Return a function that checks whether a test run can be judged.

    The run must have tested the backend, and its output must be consistent. Without a list of cases in the settings, at
    least one case must have run. A crash that the build caused can be judged too.
    """

    def complaint(seen: Observation) -> str | None:
        if b"failed to allocate tensors" in seen.stdout:
            return f"{settings.backend} could not allocate memory for a case"
        tested = read_tested(seen.stdout, settings.backend)
        if seen.code not in (0, 1) or not tested.devices:
            fault = fault_of(seen, pinned=True)
            if fault is None:
                return "it printed nothing of what it tests"
            return None if fault.by_build and crashed(seen.code) else fault.reason
        if settings.backend not in tested.devices or tested.skipped:
            return Settled(f"backend {settings.backend} was not tested: this build has {', '.join(tested.devices)}")
        if said := contradiction(tested, seen.code):
            return said
        if tested.total == 0 and settings.cases is None:
            there = f"none of {len(tested.unsupported)} cases is supported" if tested.unsupported else "no case matched"
            return Settled(f"0/0 cases of {', '.join(settings.ops)} ran on {settings.backend}: {there}")
        return None

    return complaint


def _listed_well(backend: str) -> Complete:
    def complaint(seen: Observation) -> str | None:
        if seen.code != 0:
            return f"the supported cases could not be listed (exit code {seen.code})"
        return None if read_supported(seen.stdout, backend) is not None else "the list of supported cases is damaged"

    return complaint


def _alone(settings: OperatorSettings, runner: Observer, name: str) -> tuple[FailureRate, tuple[Attempt, ...]]:
    """Run a failing case several times on its own, and return its failure rate and the attempts.

    Stop at the first run that cannot be judged.
    """
    attempts: list[Attempt] = []
    runs = failed = 0
    complete = _tested_well(settings)
    for number in range(1, settings.alone + 1):
        invocation = settings.test((name,), f"alone {number}: {name}")
        observed = retry(runner, invocation, complete, tries=settings.tries, salt=f"alone {number}")
        attempts += observed.attempts
        if observed.observation is None:
            break
        seen = observed.observation
        tested = read_tested(seen.stdout, settings.backend)
        if not tested.total and not crashed(seen.code):
            break
        runs += 1
        failed += crashed(seen.code) or tested.passed != tested.total
    return FailureRate(name=name, failed=failed, runs=runs), tuple(attempts)


def _failures(tested: ConsoleOutput, alone: Sequence[FailureRate]) -> str:
    rates = {one.name: f"fails {one.failed} of {one.runs} alone" for one in alone if one.runs}
    told = []
    for case in tested.failed:
        more = [part for part in (case.note.removeprefix(f"[{_op(case.name)}] "), rates.get(case.name)) if part]
        told.append(f"{case.name} ({', '.join(more)})" if more else case.name)
    return _some(told)


def _lost(name: str, supported: Supported | None) -> str:
    if supported is None:
        return name
    if name in supported.no:
        return f"{name} (no longer supported)"
    return name if name in supported.yes else f"{name} (the case no longer exists)"


def _matches(op: str, ran: Sequence[str]) -> bool:
    return op in ran if "(" in op else any(_op(name) == op for name in ran)


def _op(name: str) -> str:
    return name.partition("(")[0]


def _some(told: Sequence[str]) -> str:
    more = len(told) - _SHOWN
    return ", ".join(told[:_SHOWN]) + (f", and {more} more" if more > 0 else "")


def _expected(settings: OperatorSettings) -> str:
    least = max(settings.expected or 0, settings.cases.count if settings.cases is not None else 0)
    return f"{least}/{least}" if least else "all of them"


KIND = Kind(
    name="backend-ops",
    version=1,
    about="Run test-backend-ops for operators, and check that the backend ran, every case passed, and none is missing.",
    settings=(
        *(OP, OPS, BACKEND, EXPECT, CASES, ENV, ALONE),
        replace(SECONDS, default=3600, help="The time limit of one run."),
        TRIES_OF_TESTS,
    ),
    make=settings_of,
    run=run,
    programs=lambda settings: (PROGRAM,),
    needs_gpu=lambda settings: settings.backend != "CPU",
)
