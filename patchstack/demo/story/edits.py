"""Describe commits as data: a message, and edits of files that are applied in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replaces `old` with `new` in a file. At this commit, the file must have exactly one copy of `old`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Adds a file with the content of `source`, a path in the directory `patchstack/demo/fork`."""

    path: str
    source: str
    executable: bool = False


Edit = Replace | Create


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit. `body` has no line break at the end."""

    subject: str
    body: str
    edits: tuple[Edit, ...]
