"""`patchstack doctor` as a table with what to do below it, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchstack.machine.local.doctor import Checkup, State
from patchstack.report.table import Give, Table

SCHEMA = "patchstack.doctor/1"


def doctor_table(checkup: Checkup) -> Table:
    """A row for each thing that was looked for."""
    return Table(
        titles=("for", "what", "state", "found"),
        rows=[(check.group, check.name, check.state.value, check.found) for check in checkup.checks],
        styles={State.OK.value: "green", State.MISSING.value: "bold red", State.OPTIONAL.value: "yellow"},
        gives={"what": Give.WORDS, "found": Give.FOLD},
    )


def advice_lines(checkup: Checkup) -> Iterator[str]:
    """How to get what is not here, what is needed first; then, in one line, what can be done as it is."""
    for state in (State.MISSING, State.OPTIONAL):
        for check in checkup.checks:
            if check.state is state and check.get is not None:
                yield f"{state.value}: {check.name}, for {check.use}: {check.get}"
    verify = "verify can run" if checkup.verify else "verify cannot run"
    builds = f"builds can run on: {', '.join(checkup.builds)}" if checkup.builds else "builds can run nowhere"
    yield f"{verify}; {builds}"


def doctor_document(checkup: Checkup) -> dict[str, Any]:
    """The document `patchstack.doctor/1`."""
    return {
        "schema": SCHEMA,
        "verify": checkup.verify,
        "builds": list(checkup.builds),
        "checks": [
            {
                "group": check.group,
                "name": check.name,
                "state": check.state.value,
                "found": check.found,
                "use": check.use,
                "get": check.get,
                "details": dict(check.details),
            }
            for check in checkup.checks
        ],
        "exit_code": int(checkup.exit_code),
    }
