"""Commits as data: edits of files, to be applied in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replaces `old`, which must occur exactly once in the file at that commit, with `new`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Adds a file with the bytes of `source`, a path in the folder `fork` next to this package."""

    path: str
    source: str
    executable: bool = False


Edit = Replace | Create


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit; `body` has no line break at its end."""

    subject: str
    body: str
    edits: tuple[Edit, ...]
