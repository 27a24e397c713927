"""Write a sync as a `patchstack.sync/1` document, for scripts and for the final record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from patchstack.checks.entries import CheckEntry as SourceCheckEntry
from patchstack.document import Document, Part
from patchstack.workflow.sync.build_changes import Setting, ToolchainChanges
from patchstack.workflow.sync.outcomes import Kind
from patchstack.workflow.sync.state import Fate, SyncState

T = TypeVar("T", bound=Part)


class SettingEntry(Part, frozen=True, kw_only=True):
    """A CMake option or a submodule, with its old and new value.

    A value is null if the option or submodule did not exist at that pin.
    """

    name: str
    old: str | None
    new: str | None
    file: str


class RequirementEntry(Part, frozen=True, kw_only=True):
    """A changed requirement of the build, such as a minimum version."""

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]


class ToolchainEntry(Part, frozen=True, kw_only=True):
    """The changes between two pins that matter for builds.

    `files` are changed build files. `unread` are changed build files whose contents are not available.
    """

    options: tuple[SettingEntry, ...]
    requirements: tuple[RequirementEntry, ...]
    submodules: tuple[SettingEntry, ...]
    files: tuple[str, ...]
    unread: tuple[str, ...]


class RegionEntry(Part, frozen=True, kw_only=True):
    """A place that both sides changed, with the lines of each side.

    `line` is the line number of the first conflict marker, counted from 1. `ours` are upstream's lines. `theirs` are
    the patch's lines.
    """

    line: int
    ours: tuple[str, ...]
    base: tuple[str, ...]
    theirs: tuple[str, ...]


class MoverEntry(Part, frozen=True, kw_only=True):
    """An upstream commit that changed the same lines or files as a patch.

    `lines` is the number of conflicting lines that the commit changed, or 0 if none are known.
    """

    commit: str
    author: str
    date: str
    subject: str
    pull_request: int | None
    lines: int


class CollisionEntry(Part, frozen=True, kw_only=True):
    """A file in conflict.

    `how` describes what each side did to the file. `regions` are the places that both sides changed. `upstream` are the
    upstream commits that probably caused the conflict, the likeliest first. `left_out` are skipped, dropped or parked
    patches that changed the conflicting lines, so the current patch may depend on them.
    """

    path: str
    how: str
    regions: tuple[RegionEntry, ...]
    upstream: tuple[MoverEntry, ...]
    left_out: tuple[str, ...]


class StopEntry(Part, frozen=True, kw_only=True):
    """The patch at which the sync waits for a person.

    The sync waits at a conflict (`collisions`), or after the patch with the index `place`. In the second case, the user
    requested to edit the patch, or `command` failed after it.
    """

    number: int | None
    subject: str
    commit: str
    collisions: tuple[CollisionEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    remembered: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    landed: str | msgspec.UnsetType | None = msgspec.UNSET
    place: int | msgspec.UnsetType = msgspec.UNSET
    command: str | msgspec.UnsetType = msgspec.UNSET
    how: str | msgspec.UnsetType = msgspec.UNSET
    last: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    log: str | msgspec.UnsetType = msgspec.UNSET


class ItemEntry(Part, frozen=True, kw_only=True):
    """A patch and its result.

    `change` is null until the report exists. `stored` is the directory with all sides of an unresolved conflict.
    `remembered` are the files that a remembered resolution settled.
    """

    number: int | None
    file: str | None
    subject: str
    commit: str
    result: str | None
    fate: str
    change: str | None
    reason: str | None
    stored: str | None
    by_hand: bool
    remembered: tuple[str, ...]


class CheckEntry(Part, frozen=True, kw_only=True):
    """A step of the checks before the pin moves."""

    name: str
    verdict: str
    detail: str
    evidence: dict[str, Any]
    source: Any = None


class ChecksEntry(Part, frozen=True, kw_only=True):
    """The checks before the pin moves.

    `verdict` is null until they are finished.
    """

    verdict: str | None
    steps: tuple[CheckEntry, ...]


class ReportEntry(Part, frozen=True, kw_only=True):
    """The report of a finished sync.

    `tree` is the tree of the new series, and `patch_count` its number of patches. `retired` are the retired patch
    numbers. `holds` and `tree` are null if no patch remains. `checks` are the checks before the pin moves. `promises`
    are the checks of the source.
    """

    tree: str | None
    patch_count: int
    retired: tuple[int, ...]
    holds: bool | None
    toolchain: ToolchainEntry
    checks: ChecksEntry | msgspec.UnsetType | None = msgspec.UNSET
    promises: tuple[SourceCheckEntry, ...] = ()


class SyncDocument(Document, frozen=True, kw_only=True, tag="patchstack.sync/1"):
    """The state of a sync, or the record of an accepted sync.

    `stop` is null unless the sync waits for a person. `report` is null until every patch was tried. `worktree` is null
    in a record.
    """

    series: str
    phase: str
    pin: str = msgspec.field(name="from")
    to: str
    branch: str
    worktree: str | None
    head: str
    patches: tuple[ItemEntry, ...]
    notes: tuple[str, ...]
    stop: StopEntry | None
    report: ReportEntry | None


def sync_document(state: SyncState) -> SyncDocument:
    """Return a sync as a document.

    The document contains the phase, every patch, the conflict at which the sync waits, and the final report.
    """
    changes = changes_of(state)
    return SyncDocument(
        series=state.series,
        phase=state.phase.value,
        pin=state.pin,
        to=state.to,
        branch=state.branch,
        worktree=state.worktree,
        head=state.head,
        patches=tuple(
            ItemEntry(
                number=item.number,
                file=item.file,
                subject=item.subject,
                commit=item.commit,
                result=item.result,
                fate=item.fate.value,
                change=changes.get(item.commit),
                reason=item.reason or None,
                stored=item.stored or None,
                by_hand=item.by_hand,
                remembered=item.remembered,
            )
            for item in state.items
        ),
        notes=state.notes,
        stop=stop_entry(state),
        report=report_entry(state),
    )


def stop_entry(state: SyncState) -> StopEntry | None:
    """Return the patch at which a sync waits for a person. Return None if it does not wait."""
    if (item := state.at_hand) is None or state.stop is None:
        return None
    return _typed({"number": item.number, "subject": item.subject, "commit": item.commit, **state.stop}, StopEntry)


def report_entry(state: SyncState) -> ReportEntry | None:
    """Return the report of a finished sync. Return None if the sync is not finished."""
    if state.report is None:
        return None
    return _typed({name: value for name, value in state.report.items() if name != "changes"}, ReportEntry)


def changes_of(state: SyncState) -> Mapping[str, str]:
    """Return how the change of each commit compares with the old change.

    The result maps the old commits to values of `Kind`. It is empty until the report exists.
    """
    return state.report["changes"] if state.report is not None else {}


def _typed(values: Mapping[str, Any], kind: type[T]) -> T:
    """Convert JSON values from the state to a type of the document."""
    return msgspec.json.decode(msgspec.json.encode(values), type=kind)


def counts(state: SyncState) -> dict[str, int]:
    """Return the number of patches for each fate.

    Patches on the branch are also counted by how their change compares with the old change.
    """
    found = {fate.value: sum(item.fate is fate for item in state.items) for fate in Fate}
    changes = changes_of(state)
    for kind in (Kind.UNCHANGED, Kind.CONTEXT, Kind.CHANGED):
        found[kind.value] = sum(change == kind.value for change in changes.values())
    return found


def toolchain_entry(found: ToolchainChanges) -> ToolchainEntry:
    """Return the changes that matter for builds, in the form of the document."""

    def settings(given: Iterable[Setting]) -> tuple[SettingEntry, ...]:
        return tuple(SettingEntry(name=one.name, old=one.old, new=one.new, file=one.file) for one in given)

    return ToolchainEntry(
        options=settings(found.options),
        requirements=tuple(
            RequirementEntry(what=one.what, old=tuple(one.old), new=tuple(one.new)) for one in found.requirements
        ),
        submodules=settings(found.submodules),
        files=tuple(found.files),
        unread=tuple(found.unread),
    )
