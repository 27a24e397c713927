"""Describe commits as data: a message and a sequence of file edits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """An edit that replaces `old` with `new`. Before the edit, the file must contain exactly one copy of `old`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """An edit that adds a file. Its content is in the file `source`, a path relative to `patchstack/demo/fork`."""

    path: str
    source: str
    executable: bool = False


Edit = Replace | Create


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. `body` has no line break at the end. The edits are applied in order."""

    subject: str
    body: str
    edits: tuple[Edit, ...]
