"""Parse the output of `test-backend-ops`: the console output of `test`, and the CSV of `support`.

Source: `console_printer` and `csv_printer` in llama.cpp's `tests/test-backend-ops.cpp`, June 2026. The output
contains colours even if it does not go to a terminal. The message of a comparison precedes its case on the same line:

    [ADD] ERR = 0.5 > 0.0000001   ADD(type=f32,ne=[1,1,8,1],nr=[1,1,1,1],nf=1): FAIL
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass

from patchstack.observe.sentinel import lines_of

_DEVICE = re.compile(r"Backend (\d+)/(\d+): (.*)\Z")
_STATUS = re.compile(r"  Backend (.*): (OK|FAIL)\Z")
_CASE = re.compile(r"(?:^|.*?  )(?P<name>[^\s(]+\(.*\)): (?P<status>OK|FAIL|not supported \[.*\] ?)\Z")
_TESTS = re.compile(r"  (\d+)/(\d+) tests passed\Z")
_BACKENDS = re.compile(r"(\d+)/(\d+) backends passed\Z")
_LONGEST = 8192  # the maximum length of a line that reports a case
_COLUMNS = ("backend_name", "op_name", "op_params", "test_mode", "supported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case that was run. `name` is its full name, which `-o` accepts. `note` is the message before the name."""

    name: str
    passed: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOutput:
    """The output of `test` for one backend.

    `devices` are all devices that the output lists. `skipped` is true if the backend is one of these devices but was
    not tested. `passed` and `total` are the numbers of cases in the summary. They are None if the summary is missing.
    `failing` contains the names that the summary lists as failing. `holds` is the backend's result as printed.
    `backends` contains the number of passed devices and the number of all devices, as printed. `ended` is the last line
    of the output that is not blank.
    """

    devices: tuple[str, ...]
    skipped: bool
    cases: tuple[Case, ...]
    unsupported: tuple[str, ...]
    passed: int | None
    total: int | None
    failing: tuple[str, ...]
    holds: bool | None
    backends: tuple[int, int] | None
    ended: str

    @property
    def ran(self) -> tuple[str, ...]:
        """The names of the cases that were run, sorted. A name can occur more than once.

        The names in `failing` are included, because a case that fails before its comparison is listed only there.
        """
        names = Counter(case.name for case in self.cases)
        names |= Counter(self.failing)
        return tuple(sorted(names.elements()))

    @property
    def failed(self) -> tuple[Case, ...]:
        """The cases that failed, in the order of the run. Each name occurs once."""
        known = {case.name: case for case in self.cases if not case.passed}
        for name in self.failing:
            known.setdefault(name, Case(name=name, passed=False))
        return tuple(known.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """The full names of the cases that `support` lists, sorted. `yes` are supported, and `no` are not."""

    yes: tuple[str, ...]
    no: tuple[str, ...]


def read_tested(stdout: bytes, backend: str) -> ConsoleOutput:
    """Parse the console output of `test -b BACKEND`. Does not raise: missing parts are None or empty."""
    devices: list[str] = []
    skipped = listing = False
    cases: list[Case] = []
    unsupported: list[str] = []
    failing: list[str] = []
    tests = backends = None
    holds: bool | None = None
    ended = ""
    at_device = False
    for line in lines_of(stdout):
        ended = line.strip() or ended
        if at_device and line.startswith("  Skipping"):
            skipped = skipped or devices[-1] == backend
        at_device = False
        if found := _DEVICE.match(line):
            devices.append(found[3])
            at_device = True
        elif found := _STATUS.match(line):
            listing = False
            holds = found[2] == "OK" if devices[-1:] == [backend] else holds
        elif found := _TESTS.match(line):
            tests = int(found[1]), int(found[2])
        elif found := _BACKENDS.match(line):
            backends = int(found[1]), int(found[2])
        elif line == "Failing tests:":
            listing = True
        elif listing:
            failing += [line.strip()] if line.strip() else []
        elif len(line) <= _LONGEST and (found := _CASE.match(line)):
            if found["status"].startswith("not"):
                unsupported.append(found["name"])
            else:
                note = line[: found.start("name")].strip()
                cases.append(Case(name=found["name"], passed=found["status"] == "OK", note=note))
    return ConsoleOutput(
        devices=tuple(devices),
        skipped=skipped,
        cases=tuple(cases),
        unsupported=tuple(unsupported),
        passed=tests[0] if tests else None,
        total=tests[1] if tests else None,
        failing=tuple(failing),
        holds=holds,
        backends=backends,
        ended=ended,
    )


def contradiction(tested: ConsoleOutput, code: int) -> str | None:
    """Return the reason why the output of a tested backend cannot be trusted.

    Return None if all parts of the output agree.
    """
    if tested.passed is None or tested.total is None:
        return "the number of passed tests is missing"
    if tested.holds is None or tested.backends is None or tested.ended not in ("OK", "FAIL"):
        return "its output ends too early"
    good = tested.passed == tested.total
    said = {"its backend": tested.holds, "all backends": tested.backends[0] == tested.backends[1]}
    said |= {"its last line": tested.ended == "OK", f"exit code {code}": code == 0}
    if other := [what for what, holds in said.items() if holds != good]:
        return f"{tested.passed}/{tested.total} tests passed, contradicted by {' and '.join(other)}"
    if len(tested.ran) != tested.total:
        return f"it counts {tested.total} tests and names {len(tested.ran)}"
    bad = sum(not case.passed for case in tested.cases)
    if len(tested.failing) != tested.total - tested.passed or bad > len(tested.failing):
        return f"{tested.total - tested.passed} tests did not pass, but it names {max(len(tested.failing), bad)}"
    return None


def read_supported(stdout: bytes, backend: str) -> Supported | None:
    """Parse the CSV of `support -b BACKEND --output csv`.

    Return None if the text has a different format or a damaged line.
    """
    text = "\n".join(lines_of(stdout)) + "\n"
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None
    if not text.startswith(f'"{_COLUMNS[0]}"') or any(row.get(name) is None for row in rows for name in _COLUMNS):
        return None
    if any(row["test_mode"] != "support" or row["supported"] not in ("0", "1") for row in rows):
        return None
    own = [row for row in rows if row["backend_name"] == backend]
    named = [(f"{row['op_name']}({row['op_params']})", row["supported"] == "1") for row in own]
    return Supported(
        yes=tuple(sorted(name for name, supported in named if supported)),
        no=tuple(sorted(name for name, supported in named if not supported)),
    )
