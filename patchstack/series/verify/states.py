"""Define the result of a verification, and compute the state of every patch.

States follow from applying the patches and from comparing them with the fork or the lock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from patchstack.git.apply import Applier, Problem
from patchstack.git.objects import Commit
from patchstack.git.trees import same_change
from patchstack.series.verify.prefix_trees import Link, apply_patch

if TYPE_CHECKING:
    from patchstack.series.history import ForkHistory
    from patchstack.series.lock import Lock, LockedPatch
    from patchstack.series.verify.match import Matching


class State(StrEnum):
    """The state of one patch, or of one fork commit without a patch."""

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
    """One row of the table.

    `file` and `number` are None for a fork commit without a patch. `tree` is None if the patch was not applied.
    `fork_commit` is the commit that the patch mirrors, if one was found. `problems` lists the reasons why the patch
    does not apply, each with its line in the patch file. `in_the_way` is a sentence that names the earlier patch that
    is the cause. It is empty if no earlier patch is the cause. `detail` joins all reasons in one string.
    """

    file: str | None
    number: int | None
    subject: str
    state: State
    tree: str | None
    fork_commit: str | None
    detail: str
    problems: tuple[Problem, ...] = ()
    in_the_way: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons that `detail` joins."""
        told = tuple(problem.detail for problem in self.problems)
        return (*told, *filter(None, [self.in_the_way])) or (self.detail,)

    @property
    def label(self) -> str:
        return self.file or f"fork commit {(self.fork_commit or '')[:12]} ({self.subject})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDrift:
    """A file that differs between series and fork.

    The unified diff goes from the series' file to the fork's file.
    """

    path: str
    diff: str
    hunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchDrift:
    """A patch whose own change differs from the change of its fork commit, and the files that differ."""

    file: str
    fork_commit: str
    files: tuple[FileDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The differences between series and fork.

    `kinds` contains any of behind, ahead, missing, stray, reordered and edited. `summary` describes the differences in
    sentences. `patches` contains the text of the differences.
    """

    kinds: tuple[str, ...]
    summary: tuple[str, ...]
    patches: tuple[PatchDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The full result for one series.

    `holds` is None if the series was not compared.
    """

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


def apply_row(link: Link) -> Row:
    """Return the row of a patch. It depends only on the result of applying the patch."""
    state, detail = State.OK, ""
    problems: tuple[Problem, ...] = ()
    if link.outcome is None:
        state, detail = State.SKIPPED, "an earlier patch does not apply"
    elif not link.outcome.applied:
        state = State(link.outcome.problems[0].fault.value)
        problems = link.outcome.problems
        detail = "; ".join(problem.detail for problem in problems)
    return Row(
        file=link.patch.file,
        number=link.patch.number,
        subject=link.patch.subject,
        state=state,
        tree=link.after if link.applied else None,
        fork_commit=None,
        detail=detail,
        problems=problems,
    )


def against_fork(
    applier: Applier, links: Sequence[Link], rows: Sequence[Row], matching: Matching, fork: ForkHistory, base: Commit
) -> list[Row]:
    """Compare every prefix tree with the tree of its fork commit.

    Rows for commits without a patch are inserted at their positions in the fork.
    """
    result: list[Row] = []
    first_bad: str | None = None
    for item in _in_order(matching, fork.commits):
        if isinstance(item, Commit):
            row = _without_patch(item.oid, item.subject, "a fork commit without a patch")
        else:
            link, row = links[item], rows[item]
            own = matching.commit_of[item]
            if own is None:
                if link.applied:
                    row = replace(row, state=State.STRAY, detail="no commit of the fork matches this patch")
            else:
                commit = fork.commits[own]
                row = replace(row, fork_commit=commit.oid)
                if commit.tree != link.after or not link.applied:
                    parent = fork.commits[own - 1].tree if own else base.tree
                    row = _differing(applier, link, row, parent, commit.tree, first_bad)
        result.append(row)
        if first_bad is None and row.state is not State.OK:
            first_bad = row.label
    return result


def _in_order(matching: Matching, commits: Sequence[Commit]) -> list[int | Commit]:
    """Return the order of the rows: indices of patches, and commits without a patch.

    A commit without a patch is inserted before the patches of later commits.
    """
    missing = [index for index in range(len(commits)) if matching.patch_of(index) is None]
    items: list[int | Commit] = []
    for patch, own in enumerate(matching.commit_of):
        while own is not None and patch not in matching.moved and missing and missing[0] < own:
            items.append(commits[missing.pop(0)])
        items.append(patch)
    return items + [commits[index] for index in missing]


def _differing(applier: Applier, link: Link, row: Row, parent: str, tree: str, cause: str | None) -> Row:
    """Return the row of a patch whose tree differs from the tree of its commit.

    The cause is either the patch's own change or an earlier difference.
    """
    if link.outcome is None:
        return row
    there = None
    if link.before != parent:
        applier.restart(parent)
        there = apply_patch(applier, link.patch).tree
    if not link.applied:
        if there is not None:
            blame = cause or "an earlier difference"
            row = replace(row, in_the_way=f"it applies at its place in the fork: {blame} is in the way")
            row = replace(row, detail="; ".join(row.reasons))
        return row
    if link.before != parent and (
        there == tree or (there is None and same_change(applier.objects, (link.before, link.after), (parent, tree)))
    ):
        origin = cause or "the order of the patches"
        detail = f"own change equal to the fork commit's, the tree differs because of {origin}"
        return replace(row, state=State.INHERITS, detail=detail)
    return replace(row, state=State.DIVERGES, detail="its own change differs from the fork commit's")


def _without_patch(commit: str, subject: str, detail: str) -> Row:
    """Return a row for a fork commit that no patch mirrors."""
    return Row(
        file=None,
        number=None,
        subject=subject,
        state=State.UNMIRRORED,
        tree=None,
        fork_commit=commit,
        detail=detail,
    )


def against_lock(links: Sequence[Link], rows: Sequence[Row], lock: Lock) -> list[Row]:
    """Compare every patch with the lock: the bytes of the patch, and the tree that it produces.

    Rows for locked patches without a file are added.
    """
    held = {entry.file: entry for entry in lock.patches}
    missing = [entry for entry in lock.patches if entry.file not in {link.patch.file for link in links}]
    result: list[Row] = []
    first_bad: str | None = None

    def gone(entry: LockedPatch) -> Row:
        return _without_patch(entry.commit, entry.file, "the lock lists this patch, but the directory does not have it")

    def add(row: Row) -> None:
        nonlocal first_bad
        result.append(row)
        if first_bad is None and row.state is not State.OK:
            first_bad = row.label

    for link, row in zip(links, rows, strict=True):
        while missing and os.fsencode(missing[0].file) < os.fsencode(link.patch.file):
            add(gone(missing.pop(0)))
        entry = held.get(link.patch.file)
        if entry is None:
            if link.applied:
                row = replace(row, state=State.STRAY, detail="the lock does not list this patch")
            add(row)
            continue
        row = replace(row, fork_commit=entry.commit)
        as_locked = hashlib.sha256(link.patch.data or b"").hexdigest() == entry.sha256
        if link.applied and not as_locked:
            row = replace(row, state=State.DIVERGES, detail="the file was changed after the lock was written")
        elif link.applied and link.after != entry.tree:
            detail = f"file as locked, the tree differs because of {first_bad or 'the base'}"
            row = replace(row, state=State.INHERITS, detail=detail)
        add(row)
    for entry in missing:
        add(gone(entry))
    return result
