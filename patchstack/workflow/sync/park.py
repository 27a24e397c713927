"""Park or unpark a patch from end to end, or up to a conflict."""

from __future__ import annotations

from patchstack.causes import SyncNotReady
from patchstack.workflow.sync.accept import Accepted, accept
from patchstack.workflow.sync.parking import Parking
from patchstack.workflow.sync.state import Phase, SyncState
from patchstack.workflow.sync.sync import begin_parking, go_on
from patchstack.workflow.sync.workspace import SyncWorkspace


def park(work: SyncWorkspace, parking: Parking) -> Accepted | SyncState:
    """Park or unpark a patch.

    The branch is written to the fork under a new name. The series and its lock are written to the workspace, which then
    names the new branch. An interrupted run can be continued. If there is a conflict, return the state of the sync. A
    person then resolves the conflict and runs `sync --continue`. `sync --accept`, or the same command again, finishes
    the sync.

    Raises the errors of `begin_parking`, `go_on` and `accept`.
    """
    state = work.state()
    if state is None:
        state = begin_parking(work, parking)
    elif parking.number != (state.unpark if parking.back else state.park):
        raise SyncNotReady(
            f"a sync of {work.config.name} to {state.to_name} is under way ({state.phase})",
            hint=f"run 'patchstack sync {work.config.name}' with --continue or --abort",
        )
    elif state.phase not in (Phase.READY, Phase.ACCEPTING, Phase.CLOSING):
        state = go_on(work)
    if state.phase in (Phase.READY, Phase.ACCEPTING, Phase.CLOSING):
        return accept(work)
    return state
