"""`ops`: measure one operator with `test-backend-ops perf`. The figure is the total time for running each case once."""

from __future__ import annotations

import re

from patchstack.bench.workload import Figures, Workload, WorkloadKind
from patchstack.llama.settings import ENV, SECONDS, TRIES
from patchstack.observe.declared import Setting, Text, Values, Whole
from patchstack.observe.protocol import Observation
from patchstack.observe.sentinel import all_lines_of

PROGRAM = "test-backend-ops"
# Source: print_perf_console in tests/test-backend-ops.cpp
_CASE = re.compile(r"^\s*([A-Z0-9_]+\(.*\)):\s+\d+ runs -\s+([0-9.]+) us/run -")
OP = Setting[str](name="op", form=Text(), default="", required=True, metavar="OP", help="The operator.")
BACKEND = Setting[str](
    name="backend", form=Text(), default="", required=True, metavar="NAME", help="The backend, for example CUDA0."
)
CASES = Setting[int](
    name="cases",
    form=Whole(1, 100_000),
    default=0,
    required=True,
    metavar="N",
    help="Number of cases. A run with a different number is not used.",
)
PARAMETERS = Setting[str](
    name="parameters", form=Text(), default="", metavar="REGEX", help="Run only the cases whose parameters match (-p)."
)


def make(name: str, values: Values) -> Workload:
    """Return the workload that the settings describe."""
    env = values[ENV]
    only = ("-p", values[PARAMETERS]) if values[PARAMETERS] else ()
    return Workload(
        name=name,
        kind=KIND.name,
        program=PROGRAM,
        args=("perf", "-b", values[BACKEND], "-o", values[OP], *only),
        env=dict(env),
        models=(),
        sentinel=None,
        seconds=values[SECONDS],
        tries=values[TRIES],
        rows=(values[OP],),
        unit="us",
        better="lower",
        reading={"cases": values[CASES]},
    )


def read(workload: Workload, seen: Observation) -> Figures | str:
    """Return the total time of all cases in microseconds, or the reason why the output cannot be used.

    The number of cases is checked, because a skipped backend prints no cases.
    """
    times: dict[str, float] = {}
    for line in all_lines_of(seen.stdout):
        if case := _CASE.match(line):
            if case[1] in times:
                return f"the case {case[1]} was found twice"
            times[case[1]] = float(case[2])
    wanted = int(workload.reading["cases"])
    if len(times) != wanted:
        return f"{len(times)} cases ran instead of {wanted}"
    if zero := [name for name, time in times.items() if time <= 0]:
        return f"the case {zero[0]} took no time"
    return {workload.rows[0]: sum(times.values())}


KIND = WorkloadKind(
    name="ops",
    version=1,
    settings=(OP, BACKEND, CASES, PARAMETERS, ENV, SECONDS, TRIES),
    make=make,
    read=read,
)
