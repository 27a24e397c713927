"""A sync as a document, `patchstack.sync/1`: for scripts, and for the record that stays when it is done."""

from __future__ import annotations

from typing import Any

from patchstack.workflow.sync.build_changes import Setting, ToolchainChanges
from patchstack.workflow.sync.outcomes import Kind
from patchstack.workflow.sync.state import Fate, SyncState

SCHEMA = "patchstack.sync/1"


def sync_document(state: SyncState) -> dict[str, Any]:
    """The whole of it: where it stands, every patch, what is in the way, and the finished report (None before)."""
    report = dict(state.report) if state.report is not None else None
    changes = report.pop("changes") if report is not None else {}
    stop = None
    if (item := state.at_hand) is not None and state.stop is not None:
        stop = {"number": item.number, "subject": item.subject, "commit": item.commit, **state.stop}
    return {
        "schema": SCHEMA,
        "series": state.series,
        "phase": state.phase.value,
        "from": state.pin,
        "to": state.to,
        "branch": state.branch,
        "worktree": state.worktree,
        "head": state.head,
        "patches": [
            {
                "number": item.number,
                "file": item.file,
                "subject": item.subject,
                "commit": item.commit,
                "result": item.result,
                "fate": item.fate.value,
                "change": changes.get(item.commit),
                "reason": item.reason or None,
                "stored": item.stored or None,
                "by_hand": item.by_hand,
                "remembered": list(item.remembered),
            }
            for item in state.items
        ],
        "notes": list(state.notes),
        "stop": stop,
        "report": report,
    }


def counts(state: SyncState) -> dict[str, int]:
    """How many patches had which fate, and of those on the branch how many are changed."""
    found = {fate.value: sum(item.fate is fate for item in state.items) for fate in Fate}
    changes = state.report["changes"] if state.report is not None else {}
    for kind in (Kind.UNCHANGED, Kind.CONTEXT, Kind.CHANGED):
        found[kind.value] = sum(change == kind.value for change in changes.values())
    return found


def toolchain_document(found: ToolchainChanges) -> dict[str, Any]:
    """What changed for those who build, as JSON values."""

    def setting(one: Setting) -> dict[str, str | None]:
        return {"name": one.name, "old": one.old, "new": one.new, "file": one.file}

    return {
        "options": [setting(one) for one in found.options],
        "requirements": [{"what": one.what, "old": list(one.old), "new": list(one.new)} for one in found.requirements],
        "submodules": [setting(one) for one in found.submodules],
        "files": list(found.files),
        "unread": list(found.unread),
    }
