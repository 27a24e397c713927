"""Show the result of `patchstack doctor` as a table and as lines of advice."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.machine.local.doctor import Checkup, State
from patchstack.report.table import Give, Table


def doctor_table(checkup: Checkup) -> Table:
    """Return a table with a row for each check."""
    return Table(
        titles=("for", "what", "state", "found"),
        rows=[(check.group, check.name, check.state.value, check.found) for check in checkup.checks],
        styles={State.OK.value: "green", State.MISSING.value: "bold red", State.OPTIONAL.value: "yellow"},
        gives={"what": Give.WORDS, "found": Give.FOLD},
    )


def advice_lines(checkup: Checkup) -> Iterator[str]:
    """Yield how to install each missing tool, required tools first.

    The last line states whether `verify` can run, and where builds can run.
    """
    for state in (State.MISSING, State.OPTIONAL):
        for check in checkup.checks:
            if check.state is state and check.get is not None:
                yield f"{state.value}: {check.name}, for {check.use}: {check.get}"
    verify = "verify can run" if checkup.verify else "verify cannot run"
    builds = f"builds can run on: {', '.join(checkup.builds)}" if checkup.builds else "builds can run nowhere"
    yield f"{verify}; {builds}"
