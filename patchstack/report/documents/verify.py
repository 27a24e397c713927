"""`patchstack.verify/1`: the result of `patchstack verify` for one series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchstack.checks.entries import CheckEntry, check_entries
from patchstack.document import Document, Part
from patchstack.git.apply import Problem
from patchstack.series.verify.states import Drift, Row, Verification

if TYPE_CHECKING:
    from patchstack.checks.model import CheckRow


class BaseEntry(Part, frozen=True, kw_only=True):
    """The pin: full ids of the commit and its tree."""

    commit: str
    tree: str


class ProblemEntry(Part, frozen=True, kw_only=True):
    """A reason why a patch does not apply.

    `path` is the source file, or empty if the patch names none. `hunk` is the number of the hunk in the diff of that
    file. `line` is the number of the line in the patch file. Both are counted from 1. They are null if unknown.
    """

    fault: str
    path: str
    hunk: int | None
    line: int | None
    detail: str


class PatchEntry(Part, frozen=True, kw_only=True):
    """A patch, or a fork commit without a patch.

    For a fork commit without a patch, `file` and `number` are null.
    """

    file: str | None
    number: int | None
    subject: str
    state: str
    tree: str | None
    fork_commit: str | None
    detail: str
    problems: tuple[ProblemEntry, ...] = ()


class DriftFileEntry(Part, frozen=True, kw_only=True):
    """A file that differs between series and fork.

    `diff` is the unified diff from the series' file to the fork's file.
    """

    path: str
    hunks: int
    diff: str


class DriftPatchEntry(Part, frozen=True, kw_only=True):
    """A patch whose own change differs from the change of its fork commit."""

    file: str
    fork_commit: str
    files: tuple[DriftFileEntry, ...]


class DriftEntry(Part, frozen=True, kw_only=True):
    """The differences between series and fork.

    `kinds` contains fixed keywords, and `summary` contains sentences. `patches` contains the diffs.
    """

    kinds: tuple[str, ...]
    summary: tuple[str, ...]
    patches: tuple[DriftPatchEntry, ...]


class VerifyDocument(Document, frozen=True, kw_only=True, tag="patchstack.verify/1"):
    """The result of verify for one series.

    `holds` is null if every patch applies and there is no tree to compare the result with. `checks` is null if no
    checks were run.
    """

    series: str
    base: BaseEntry
    patches: tuple[PatchEntry, ...]
    applied_count: int
    patch_count: int
    applies: bool
    applied_tree: str
    expected_tree: str | None
    expected_from: str | None
    holds: bool | None
    first_problem: str | None
    drift: DriftEntry | None
    warnings: tuple[str, ...]
    checks: tuple[CheckEntry, ...] | None = None


def verify_document(result: Verification, checks: Sequence[CheckRow] | None = None) -> VerifyDocument:
    """Convert a verification, and the results of checks if there are any, to the JSON document."""
    return VerifyDocument(
        series=result.series,
        base=BaseEntry(commit=result.base_commit, tree=result.base_tree),
        patches=tuple(map(_patch, result.rows)),
        applied_count=result.applied_count,
        patch_count=result.patch_count,
        applies=result.applies,
        applied_tree=result.applied_tree,
        expected_tree=result.expected_tree,
        expected_from=result.expected_from,
        holds=result.holds,
        first_problem=result.first_problem,
        drift=_drift(result.drift) if result.drift is not None else None,
        warnings=tuple(result.warnings),
        checks=check_entries(checks) if checks is not None else None,
    )


def _patch(row: Row) -> PatchEntry:
    return PatchEntry(
        file=row.file,
        number=row.number,
        subject=row.subject,
        state=row.state.value,
        tree=row.tree,
        fork_commit=row.fork_commit,
        detail=row.detail,
        problems=tuple(map(_problem, row.problems)),
    )


def _problem(problem: Problem) -> ProblemEntry:
    return ProblemEntry(
        fault=problem.fault.value, path=problem.path, hunk=problem.hunk, line=problem.line, detail=problem.detail
    )


def _drift(drift: Drift) -> DriftEntry:
    return DriftEntry(
        kinds=tuple(drift.kinds),
        summary=tuple(drift.summary),
        patches=tuple(
            DriftPatchEntry(
                file=patch.file,
                fork_commit=patch.fork_commit,
                files=tuple(DriftFileEntry(path=one.path, hunks=one.hunks, diff=one.diff) for one in patch.files),
            )
            for patch in drift.patches
        ),
    )
