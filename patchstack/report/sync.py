"""Show a sync on a screen: its progress, why it stopped, and the report after it finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.report.table import Give, Table
from patchstack.report.text import counted, patch_count
from patchstack.verdict import Verdict, verdict_line
from patchstack.workflow.sync.document import (
    CollisionEntry,
    StopEntry,
    ToolchainEntry,
    changes_of,
    counts,
    report_entry,
    stop_entry,
)
from patchstack.workflow.sync.state import Item, Phase, SyncState

_STYLES = {
    "unchanged": "green",
    "changed": "yellow",
    "dropped": "red",
    "skipped": "red",
    "landed": "cyan",
    "not carried": "red",
}
_REGIONS = 3  # maximum number of conflicting regions that are shown for a file
_LINES = 8  # maximum number of lines that are shown for a side of a conflict
_SETTINGS = 12  # maximum number of names that a line lists


def stop_lines(state: SyncState) -> Iterator[str]:
    """Yield why the sync stopped at the current patch, and the possible next steps."""
    stop = stop_entry(state)
    if stop is not None and state.phase is Phase.EDITING:
        yield from _editing_lines(state, stop)
        return
    place = state.current
    if stop is None or place is None:
        return
    item = state.items[place]
    yield f"{state.series}: stopped at {item.label} {item.subject} ({place + 1} of {len(state.items)})"
    for collision in stop.collisions or ():
        yield ""
        yield from _collision(collision)
    if stop.remembered:
        yield f"resolved as remembered: {', '.join(stop.remembered)}"
    yield ""
    if landed := stop.landed:
        yield f"upstream has all of it: --drop-landed leaves it out ({landed})"
    yield f"in {state.worktree}: edit, git add, then patchstack sync {state.series} --continue"
    name = item.number if item.number is not None else item.label
    yield (
        f"or: --skip leaves it out for now; --drop {name} --why TEXT leaves it out for good; --abort cancels the sync"
    )


def _editing_lines(state: SyncState, stop: StopEntry) -> Iterator[str]:
    """Yield why the sync stopped after a patch that it applied, and the next step."""
    place = stop.place or 0
    item = state.items[place]
    count = f"({place + 1} of {len(state.items)})"
    if stop.command:
        yield f"{state.series}: {stop.command} {stop.how} after {item.label} {item.subject} {count}"
        yield from (f"    {line}" for line in (stop.last or ())[-_LINES:])
        yield f"its full output is in {stop.log}"
    else:
        yield f"{state.series}: stopped after {item.label} {item.subject} {count}, to edit it"
    yield ""
    yield (
        f"in {state.worktree}: edit, git add (or git commit --amend), then patchstack sync {state.series} --continue"
    )


def _collision(collision: CollisionEntry) -> Iterator[str]:
    yield f"{collision.path}: {collision.how}"
    for mover in collision.upstream:
        # The number of the pull request is not shown separately, because on GitHub the subject ends with this number.
        count = mover.lines
        share = f"{count} of the colliding lines" if count > 1 else "one of the colliding lines" if count else "near it"
        who = f"{mover.author}, {mover.date}, {share}"
        yield f"  upstream {mover.commit[:12]} {mover.subject} ({who})"
    if collision.left_out:
        yield f"  it builds on {', '.join(collision.left_out)}, left out before"
    for region in collision.regions[:_REGIONS]:
        yield f"  line {region.line}:"
        for side, name in ((region.ours, "new pin"), (region.base, "old base"), (region.theirs, "patch")):
            lines = side or ("(nothing)",)
            if len(lines) > _LINES + 1:
                lines = (*lines[:_LINES], "…")
            yield f"    {name:<9}| {lines[0]}"
            yield from (f"    {'':<9}| {line}".rstrip() for line in lines[1:])
    more = len(collision.regions) - _REGIONS
    if more > 0:
        yield f"  and {more} more place{'s' if more > 1 else ''}"


def sync_table(state: SyncState) -> Table:
    """Return a table of all patches.

    Each row shows the new commit, how the patch changed, and how its conflicts were resolved or why it was omitted.
    """
    changes = changes_of(state)
    rows = [
        (
            item.label,
            item.subject,
            (item.result or "")[:12] or "-",
            changes.get(item.commit, item.fate.value),
            _how(item),
        )
        for item in state.items
    ]
    return Table(
        titles=("number", "subject", "new commit", "change", "how"),
        rows=rows,
        styles=_STYLES,
        gives={"subject": Give.FOLD, "how": Give.FOLD},
    )


def _how(item: Item) -> str:
    if item.reason:
        return f"{item.reason}; all sides: {item.stored}" if item.stored else item.reason
    if item.by_hand:
        return "resolved by hand"
    return f"resolved as remembered: {', '.join(item.remembered)}" if item.remembered else ""


def report_lines(state: SyncState) -> Iterator[str]:
    """Yield the plain-text report of a finished sync.

    It contains counts, toolchain changes, notes, the resulting tree and branch, and the checks.
    """
    report = report_entry(state)
    if report is None:
        return
    count = counts(state)
    told = [
        f"{count[name]} {name}" for name in ("unchanged", "context only", "changed", "landed", "skipped", "dropped")
    ]
    if count["not carried"]:
        told.append(f"{count['not carried']} not carried")
    yield f"{state.series}: {patch_count(len(state.items))} from {state.pin[:12]} to {state.to[:12]}: " + ", ".join(
        told
    )
    yield from toolchain_lines(report.toolchain)
    for note in state.notes:
        yield f"note: {note}"
    if report.holds:
        yield (
            f"{state.series}: holds: base {state.to} + {patch_count(report.patch_count)} = {report.tree}; "
            f"branch {state.branch} at {state.head[:12]} in {state.worktree}"
        )
    else:
        yield f"{state.series}: nothing is left: every patch landed or was left out"
    for one in report.promises:
        if one.verdict != Verdict.PASS:
            yield f"check {one.name}: {one.verdict}: {one.reason}"
    if report.promises:
        yield verdict_line(f"{state.series}: checks", [Verdict(one.verdict) for one in report.promises])
    if report.checks:
        for step in report.checks.steps:
            yield f"{step.verdict:<7}  {step.name}: {step.detail}"
        yield f"{state.series}: checks before the pin moves: {report.checks.verdict or 'not finished'}"


def toolchain_lines(found: ToolchainEntry) -> Iterator[str]:
    """Yield the changes that affect builds: CMake options, required versions and submodules.

    If there are no such changes, a line says so.
    """
    groups: dict[str, list[str]] = {"added": [], "removed": [], "default changed": []}
    for one in found.options:
        if one.old is None:
            groups["added"].append(f"{one.name} ({one.new})")
        elif one.new is None:
            groups["removed"].append(one.name)
        else:
            groups["default changed"].append(f"{one.name} ({one.old} to {one.new})")
    for what, names in groups.items():
        if names:
            yield f"CMake options {what}: {_some(names)}"
    for wanted in found.requirements:
        old, new = (", ".join(side) or "nothing" for side in (wanted.old, wanted.new))
        yield f"{wanted.what}: {old} before, {new} now"
    for one in found.submodules:
        if one.old is None or one.new is None:
            yield f"submodule {one.name}: {'new' if one.old is None else 'gone'}"
        else:
            yield f"submodule {one.name}: {one.old[:12]} to {one.new[:12]}"
    if found.unread:
        yield f"build files whose contents are missing: {_some(found.unread)}"
    if not (found.options or found.requirements or found.submodules or found.unread):
        changed = f" ({counted(len(found.files), 'build file')} changed otherwise)" if found.files else ""
        yield f"toolchain: no option, version or submodule changed{changed}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SETTINGS
    return ", ".join(names[:_SETTINGS]) + (f" and {more} more" if more > 0 else "")


def standing_line(state: SyncState) -> str:
    """Return a line that shows the progress of a sync."""
    done = sum(item.fate.value != "pending" for item in state.items)
    return (
        f"{state.series}: sync to {state.to_name} ({state.to[:12]}): {state.phase.value}, {done} of {len(state.items)}"
    )


def next_line(state: SyncState) -> str:
    """Return the line that states the next step."""
    if state.phase is Phase.READY:
        if state.report is not None and state.report.get("checks") is not None:
            return f"next: patchstack sync {state.series} --continue checks again, and moves the pin if all holds"
        return f"next: look at {state.worktree}, then patchstack sync {state.series} --accept"
    return f"next: patchstack sync {state.series} --continue"
