"""Define what the commands that run checks share: options, the engine for the checks, and the table of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import OptionConflict
from patchstack.cli.failures import talk
from patchstack.cli.options import nearest_workspace, open_chosen_engine
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.checks.model import CheckRow
    from patchstack.checks.run import OpenEngine
    from patchstack.git.remote import Cache
    from patchstack.workspace import SeriesConfig

ChecksOption = Annotated[bool, typer.Option("--checks", help="Also run the checks of the series.")]
RecordOption = Annotated[
    str | None,
    typer.Option("--record", metavar="NAME", help="Write the sites of this check into patchstack.yaml; needs --why."),
]
RecordWhyOption = Annotated[
    str | None, typer.Option("--why", metavar="TEXT", help="The reason for --record, which is stored with the sites.")
]


def check_recording(configs: Sequence[SeriesConfig], name: str | None, why: str | None, policy: str | None) -> None:
    """Raise `UsageError` if `--record` or `--why` is given, but cannot be used.

    Both must be given, for a single series and without `--policy-from`.
    """
    if why is not None and name is None:
        raise OptionConflict("--why needs --record", hint="add --record NAME")
    if name is not None and not (why or "").strip():
        raise OptionConflict("--record needs --why", hint="add --why TEXT, which is stored with the sites")
    if name is not None and policy is not None:
        raise OptionConflict(
            "--record cannot be combined with --policy-from, which ignores patchstack.yaml", hint="omit --policy-from"
        )
    if name is not None and len(configs) > 1:
        raise OptionConflict("--record is for one series", hint="name the series of the check")


def engine_of(spec: str | None, workspace: Path | None) -> OpenEngine:
    """Return a function that opens the engine on which checks run commands."""
    return lambda: open_chosen_engine(spec, nearest_workspace(workspace))


def checked(
    config: SeriesConfig, cache: Cache, engine: OpenEngine, *, name: str | None = None, why: str | None = None
) -> tuple[CheckRow, ...]:
    """Run the checks of a series. If `name` is given, then record the sites of that check, and run the checks again."""
    from patchstack.workflow.checks import check_series, record

    rows = check_series(config, cache, engine)
    if name is None:
        return rows
    check = record(rows, config, name, why or "")
    talk(f"recorded the sites of {name} in {check.file}")
    return check_series(_read_again(config, check.file), cache, engine)


def _read_again(config: SeriesConfig, path: Path) -> SeriesConfig:
    from patchstack.workspace import read_workspace

    return replace(config, checks=read_workspace(path).select([config.name])[0].checks)


def show_checks(series: str, rows: Sequence[CheckRow], lines: Sequence[str] | None = None) -> None:
    """Print the table of checks, and the failures of the checks that do not hold.

    If `lines` is given, these lines are printed instead of the failures.
    """
    from patchstack.report.checks import against, checks_line, checks_table
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    if rows:
        print_table(checks_table(rows))
        told = [*(against(rows) if lines is None else lines), checks_line(series, rows)]
        print(printable("\n".join(told)), flush=True)


def code_of(rows: Sequence[CheckRow] | None) -> Exit:
    """Return the exit code of checks. The code is 0 if there are no checks."""
    from patchstack.verdict import exit_code

    return exit_code(row.verdict for row in rows) if rows else Exit.HOLDS


def worst(one: Exit, other: Exit) -> Exit:
    """Return the worse of two exit codes. A failure is worse than a result that could not be judged."""
    codes = {one, other}
    return Exit.DOES_NOT_HOLD if Exit.DOES_NOT_HOLD in codes else max(one, other)
