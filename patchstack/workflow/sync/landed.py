"""Find the patches that upstream already contains, according to canary.

A sync can then propose to drop these patches.
"""

from __future__ import annotations

from pathlib import Path

from patchstack.git.objects import Objects, Repository
from patchstack.series.files.directory import configured_series
from patchstack.upstream.canary.canary import Question, ask
from patchstack.upstream.canary.landed import drop_reason
from patchstack.upstream.canary.result import State
from patchstack.upstream.history import read_range
from patchstack.workflow.sync.state import SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace


def landed_patches(work: SyncWorkspace, state: SyncState, objects: Objects) -> dict[str, str]:
    """Map each fork commit whose patch landed between the pins to the reason to drop it."""
    repository = Repository.open(state.worktree, Path(state.worktree))
    pin, to = objects.commit(state.pin), objects.commit(state.to)
    range_ = read_range(repository, objects, pin, to, state.to_name, "--to")
    found = ask(objects, configured_series(work.config), range_, state.to_name, Question(search=False))
    reasons = {
        patch.file: drop_reason(patch.like)
        for patch in found.patches
        if patch.state is State.LANDED and patch.like is not None
    }
    return {item.commit: reasons[item.file] for item in state.items if item.file in reasons}
