"""Write and read the state file of a sync.

The file is written atomically after every step, so an interrupted run can continue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchstack.causes import NotInRange, NotWritable, SyncStateUnusable
from patchstack.errors import ConfigError
from patchstack.files.atomic import replace_file

SCHEMA = "patchstack.sync-state/1"
FILE_NAME = "state.json"
_ID = 7  # the minimum number of digits of a commit id


class Phase(StrEnum):
    """The phase of a sync.

    In `stopped`, it waits for a person at a conflict. In `editing`, it waits for a person after a patch that is on the
    branch. In `ready`, it waits for `--accept`. In `closing`, everything is written and the repository is being
    removed.
    """

    PREPARING = "preparing"
    PICKING = "picking"
    STOPPED = "stopped"
    EDITING = "editing"
    PICKED = "picked"
    READY = "ready"
    ACCEPTING = "accepting"
    CLOSING = "closing"


class Fate(StrEnum):
    """The result for one patch."""

    PENDING = "pending"
    PICKED = "picked"
    LANDED = "landed"
    SKIPPED = "skipped"
    DROPPED = "dropped"
    NOT_CARRIED = "not carried"
    PARKED = "parked"


LEFT_OUT = frozenset({Fate.SKIPPED, Fate.DROPPED, Fate.NOT_CARRIED, Fate.PARKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One commit of the fork to bring over.

    `before` and `tree` are the trees before and after the commit's own change. `number` and `file` are the number and
    the file of the commit's patch, if a patch exists. `result` is the new commit. `reason` explains why the commit is
    not on the new branch. `remembered` are the files that a remembered resolution settled. `by_hand` is true if a
    person resolved or edited the commit. `stored` is the directory with both sides of an unresolved conflict.
    """

    commit: str
    before: str
    tree: str
    subject: str
    number: int | None
    file: str | None
    fate: Fate = Fate.PENDING
    result: str | None = None
    reason: str = ""
    remembered: tuple[str, ...] = ()
    by_hand: bool = False
    stored: str = ""

    @property
    def label(self) -> str:
        """The name that is shown to the user: the number of the commit's patch, or the commit's id."""
        return f"{self.number:04d}" if self.number is not None else self.commit[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncState:
    """The state of a sync.

    `pin` and `to` are the old and the new pin. `to_name` is the user's name for the new pin. `head` is the newest
    commit made so far. `fork_head` and `digest` show whether fork and series changed since the start.

    `stop` describes the conflict or the patch at which the sync waits for a person. `notes` are messages for the user.
    `report` is the finished report. `edits` are the commits after which the sync stops. `command` is run after each
    patch. With `unattended`, no person is asked.

    `landed` contains the reasons to drop patches, by commit. Canary finds these patches. `landed` is None before canary
    was run. With `drop_landed`, these patches are dropped. `park` is the number of a patch to park, for the reason
    `why`. `unpark` is the number of a patch to unpark. In both cases, `to` is the pin itself.
    """

    series: str
    pin: str
    to: str
    to_name: str
    branch: str
    worktree: str
    fork_head: str
    digest: str
    head: str
    phase: Phase
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    stop: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    edits: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    unattended: bool = False
    drop_landed: bool = False
    landed: Mapping[str, str] | None = None
    park: int | None = None
    unpark: int | None = None
    why: str = ""

    @property
    def current(self) -> int | None:
        """The index of the first pending patch. It is None if no patch is pending."""
        return next((place for place, item in enumerate(self.items) if item.fate is Fate.PENDING), None)

    @property
    def at_hand(self) -> Item | None:
        """The patch at which, or after which, the sync waits for a person. It is None if the sync does not wait."""
        if self.stop is None:
            return None
        place = self.current if self.phase is Phase.STOPPED else self.stop.get("place")
        return self.items[place] if place is not None else None

    def with_item(self, place: int, **changes: Any) -> SyncState:
        """Return the state with one patch changed."""
        items = list(self.items)
        items[place] = replace(items[place], **changes)
        return replace(self, items=tuple(items))

    def rewound(self, place: int) -> SyncState:
        """Return the state from before the patch at the index `place` was brought over.

        This patch and all later patches are pending again. Skipped and dropped patches stay skipped and dropped.
        """
        items = [
            replace(item, fate=Fate.PENDING, result=None, remembered=(), by_hand=False, reason="")
            if at >= place and item.fate in (Fate.PICKED, Fate.LANDED)
            else item
            for at, item in enumerate(self.items)
        ]
        head = next((item.result for item in reversed(items[:place]) if item.result), self.to)
        return replace(self, items=tuple(items), head=head, phase=Phase.PICKING, stop=None, report=None)


def places_of(items: Sequence[Item], names: Sequence[str]) -> list[int]:
    """Return the sorted indexes of the named patches. A name is a patch number or the start of a commit id.

    Raises `UsageError` for names that match no patch, or more than one.
    """
    found = set()
    unknown = []
    for name in names:
        places = [
            place
            for place, item in enumerate(items)
            if (name.isdigit() and item.number == int(name)) or (len(name) >= _ID and item.commit.startswith(name))
        ]
        if len(places) == 1:
            found.add(places[0])
        else:
            unknown.append(name)
    if unknown:
        known = ", ".join(item.label for item in items)
        raise NotInRange(f"no such patch: {', '.join(unknown)}", hint=f"the patches are {known}")
    return sorted(found)


def save_state(directory: Path, state: SyncState) -> SyncState:
    """Write a state atomically, and return it. Raises `MissingError` if it cannot be written."""
    # The file is written often, and a series may have thousands of patches. So it has no indentation, and nothing is
    # copied.
    text = json.dumps({"schema": SCHEMA, **_fields(state), "items": [_fields(item) for item in state.items]})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / FILE_NAME, text.encode() + b"\n")
    except OSError as error:
        raise NotWritable(f"{directory} cannot be written: {error.strerror or error}") from error
    return state


def _fields(value: SyncState | Item) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def load_state(directory: Path) -> SyncState | None:
    """Return the state in a directory, or None if the directory contains no state.

    Raises `ConfigError` for a file that patchstack did not write.
    """
    path = directory / FILE_NAME
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _not_ours(path, str(error)) from error
    try:
        if document.pop("schema") != SCHEMA:
            raise _not_ours(path, f"its schema is not {SCHEMA}")
        items = tuple(_item(one) for one in document.pop("items"))
        phase = Phase(document.pop("phase"))
        notes, edits, command = (tuple(map(str, document.pop(name))) for name in ("notes", "edits", "command"))
        state = SyncState(items=items, phase=phase, notes=notes, edits=edits, command=command, **document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_ours(path, f"{type(error).__name__}: {error}") from error
    texts = (state.series, state.pin, state.to, state.branch, state.worktree, state.head, state.digest)
    if not all(isinstance(text, str) for text in texts):
        raise _not_ours(path, "a field is not text")
    return state


def _item(one: Mapping[str, Any]) -> Item:
    values = dict(one)
    values["fate"] = Fate(values["fate"])
    values["remembered"] = tuple(map(str, values["remembered"]))
    return Item(**values)


def _not_ours(path: Path, why: str) -> ConfigError:
    return SyncStateUnusable(
        f"{path} is not a state file of patchstack sync: {why}",
        hint=f"remove {path.parent} and begin again: the fork and the series have not changed",
    )
