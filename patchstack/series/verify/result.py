"""What verify found: a state for every patch, and whether pin + series = fork."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What became of one patch, or of one fork commit without a patch."""

    OK = "ok"
    DIVERGES = "diverges"
    INHERITS = "inherits"
    CONFLICT = "conflict"
    MISSING_FILE = "missing-file"
    MALFORMED = "malformed"
    UNSAFE = "unsafe"
    STRAY = "stray"
    UNMIRRORED = "unmirrored"
    SKIPPED = "skipped"


NOT_APPLIED = frozenset({State.CONFLICT, State.MISSING_FILE, State.MALFORMED, State.UNSAFE, State.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `file` and `number` are None for a fork commit without a patch; `tree` is None for what
    was not applied; `fork_commit` is the commit the patch mirrors, where one was found; `problems` are the
    single reasons that `detail` joins, where there are several."""

    file: str | None
    number: int | None
    subject: str
    state: State
    tree: str | None
    fork_commit: str | None
    detail: str
    problems: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.file or f"fork commit {(self.fork_commit or '')[:12]} ({self.subject})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDrift:
    """Where series and fork hold different text: a unified diff from the series' file to the fork's."""

    path: str
    diff: str
    hunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchDrift:
    """The files in which a patch's own change differs from its fork commit's."""

    file: str
    fork_commit: str
    files: tuple[FileDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How series and fork differ: `kinds` among behind, ahead, missing, stray, reordered, edited; `summary` says it in
    sentences; `patches` shows the text."""

    kinds: tuple[str, ...]
    summary: tuple[str, ...]
    patches: tuple[PatchDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The whole answer for one series. `holds` is None where nothing was there to compare with."""

    series: str
    base_commit: str
    base_tree: str
    rows: tuple[Row, ...]
    applied_count: int
    patch_count: int
    applied_tree: str
    expected_tree: str | None
    expected_from: str | None
    holds: bool | None
    first_problem: str | None
    drift: Drift | None
    warnings: tuple[str, ...]

    @property
    def applies(self) -> bool:
        """Whether every patch applied."""
        return self.applied_count == self.patch_count
