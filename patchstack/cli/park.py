"""`patchstack park` and `unpark`: remove a patch from the series temporarily, and restore it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import ReasonMissing
from patchstack.cli.complete import complete_number
from patchstack.cli.failures import talk
from patchstack.cli.ledger import SeriesOption
from patchstack.cli.options import OfflineOption, WorkspaceOption
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.workflow.sync.parking import Parking

NumberArgument = Annotated[
    int, typer.Argument(metavar="N", autocompletion=complete_number, help="The number of the patch.")
]


def park_command(
    number: NumberArgument,
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="Why the patch is removed. The reason is stored in the lock.")
    ],
    series: SeriesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.sync/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Remove a patch from the series temporarily.

    Creates a new branch of the fork without the patch, and stores the patch in the lock. Nothing is pushed, and the old
    branch does not change. Stops at a conflict, like sync.
    """
    from patchstack.workflow.sync.parking import Parking

    if not why.strip():
        raise ReasonMissing("--why is empty", hint="give a reason, which is stored in the lock: --why TEXT")
    _carried_out(Parking(number=number, why=why.strip()), series, workspace, offline=offline, json=json)


def unpark_command(
    number: NumberArgument,
    series: SeriesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.sync/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Restore a parked patch at its old position.

    Creates a new branch of the fork that includes the patch. Stops at a conflict, like sync.
    """
    from patchstack.workflow.sync.parking import Parking

    _carried_out(Parking(number=number, back=True), series, workspace, offline=offline, json=json)


def _carried_out(parking: Parking, series: str | None, workspace: Path | None, *, offline: bool, json: bool) -> None:
    from patchstack.cli.sync import open_bench, show
    from patchstack.report.text import patch_count
    from patchstack.workflow.sync.document import sync_document
    from patchstack.workflow.sync.park import park
    from patchstack.workflow.sync.state import SyncState

    bench = open_bench(series, workspace, offline=offline)
    done = park(bench, parking)
    if isinstance(done, SyncState):
        show(done, json=json)
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))
    state = done.state
    if json:
        print(sync_document(state).line)
        return
    what = "is restored" if parking.back else "is parked"
    count = patch_count(state.report["patch_count"]) if state.report else "the series"
    where = f"; branch {state.branch} at {state.head[:12]} in {bench.config.fork}" if bench.config.fork else ""
    print(f"{state.series}: patch {parking.number:04d} {what}; {count} written to {bench.config.patches}{where}")
    talk(f"next: patchstack verify {state.series}, and commit {bench.config.patches} and {bench.workspace.path}")
