"""Prove that pin + series = fork: every prefix tree against the commit it mirrors, and the last against the head."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects
from patchstack.git.trees import same_change
from patchstack.series.chain import Link, apply_patch, apply_series
from patchstack.series.drift import explain_drift
from patchstack.series.history import ForkHistory
from patchstack.series.lock import Lock
from patchstack.series.match import Matching, match
from patchstack.series.model import Series
from patchstack.series.result import NOT_APPLIED, Drift, Row, State, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the series is compared with. A fork goes before a lock; `tree` is held against the last tree as well.

    `tree_only` leaves the fork's commits aside and compares its head's tree alone.
    """

    fork: ForkHistory | None = None
    lock: Lock | None = None
    tree: str | None = None
    tree_only: bool = False


def verify(
    objects: Objects, series: Series, base: Commit, expectation: Expectation, *, keep_going: bool = False
) -> Verification:
    """Apply the series to the pin in memory and compare. Writes nothing.

    After a patch that does not apply the rest is `skipped`, unless `keep_going`. Raises `MissingObject` where the
    content of a touched file, or a tree of the fork, is not to be had.
    """
    with Applier(objects, base.tree) as applier:
        links = apply_series(applier, series, keep_going=keep_going)
        rows = [_apply_row(link) for link in links]
        drift: Drift | None = None
        fork, lock = expectation.fork, expectation.lock
        if fork is not None and not expectation.tree_only and not fork.merges:
            matching = match(objects, links, fork.commits, base.tree)
            rows = _against_fork(applier, links, rows, matching, fork, base)
            drift = explain_drift(objects, links, matching, fork, base, {row.file: row.state for row in rows})
        elif fork is None and lock is not None and not expectation.tree_only:
            rows = _against_lock(links, rows, lock)
        return _concluded(series, base, links, tuple(rows), expectation, drift)


def _apply_row(link: Link) -> Row:
    """What applying alone says of a patch."""
    state, detail = State.OK, ""
    if link.outcome is None:
        state, detail = State.SKIPPED, "an earlier patch does not apply"
    elif not link.outcome.applied:
        state = State(link.outcome.problems[0].fault.value)
        detail = "; ".join(problem.detail for problem in link.outcome.problems)
    return Row(
        file=link.patch.file,
        number=link.patch.number,
        subject=link.patch.subject,
        state=state,
        tree=link.after if link.applied else None,
        fork_commit=None,
        detail=detail,
    )


def _against_fork(
    applier: Applier, links: Sequence[Link], rows: Sequence[Row], matching: Matching, fork: ForkHistory, base: Commit
) -> list[Row]:
    result: list[Row] = []
    first_bad: str | None = None
    for item in _in_order(matching, fork.commits):
        if isinstance(item, Commit):
            row = _unmirrored(item)
        else:
            link, row = links[item], rows[item]
            own = matching.commit_of[item]
            if own is None:
                if link.applied:
                    row = replace(row, state=State.STRAY, detail="no commit of the fork is this patch")
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
    """The patches by index, and before the patch of a later commit every commit that has no patch."""
    missing = [index for index in range(len(commits)) if matching.patch_of(index) is None]
    items: list[int | Commit] = []
    for patch, own in enumerate(matching.commit_of):
        while own is not None and patch not in matching.moved and missing and missing[0] < own:
            items.append(commits[missing.pop(0)])
        items.append(patch)
    return items + [commits[index] for index in missing]


def _differing(applier: Applier, link: Link, row: Row, parent: str, tree: str, cause: str | None) -> Row:
    """The patch's tree is not its commit's: is its own change another one, or was there a difference before?"""
    if link.outcome is None:
        return row
    there = None
    if link.before != parent:
        applier.restart(parent)
        there = apply_patch(applier, link.patch).tree
    if not link.applied:
        if there is not None:
            blame = cause or "what stands before it"
            row = replace(row, detail=f"{row.detail}; where the fork has it, it applies: {blame} is in the way")
        return row
    if link.before != parent:
        if there == tree or same_change(applier.objects, (link.before, link.after), (parent, tree)):
            origin = cause or "the order of the patches"
            detail = f"its own change equals the fork commit's; the difference comes from {origin}"
            return replace(row, state=State.INHERITS, detail=detail)
    return replace(row, state=State.DIVERGES, detail="its own change differs from the fork commit's")


def _unmirrored(commit: Commit) -> Row:
    return Row(
        file=None,
        number=None,
        subject=commit.subject,
        state=State.UNMIRRORED,
        tree=None,
        fork_commit=commit.oid,
        detail="a fork commit without a patch",
    )


def _against_lock(links: Sequence[Link], rows: Sequence[Row], lock: Lock) -> list[Row]:
    held = {entry.file: entry for entry in lock.patches}
    result: list[Row] = []
    first_bad: str | None = None
    for link, row in zip(links, rows, strict=True):
        entry = held.pop(row.file or "", None)
        if entry is None:
            if link.applied:
                row = replace(row, state=State.STRAY, detail="the lock does not know this patch")
        else:
            row = replace(row, fork_commit=entry.commit)
            as_locked = hashlib.sha256(link.patch.data or b"").hexdigest() == entry.sha256
            if not link.applied:
                pass
            elif not as_locked:
                row = replace(row, state=State.DIVERGES, detail="the file is not the one the lock was written with")
            elif link.after != entry.tree:
                detail = f"the file is as locked; the difference comes from {first_bad or 'the base'}"
                row = replace(row, state=State.INHERITS, detail=detail)
        result.append(row)
        if first_bad is None and row.state is not State.OK:
            first_bad = row.label
    for entry in lock.patches:
        if entry.file in held:
            result.append(
                Row(
                    file=None,
                    number=None,
                    subject=entry.file,
                    state=State.UNMIRRORED,
                    tree=None,
                    fork_commit=entry.commit,
                    detail="the lock has this patch, the directory does not",
                )
            )
    return result


def _concluded(
    series: Series, base: Commit, links: Sequence[Link], rows: tuple[Row, ...], expectation: Expectation, drift: Drift | None
) -> Verification:
    fork, lock = expectation.fork, expectation.lock
    applied_tree = links[-1].after
    applied_count = sum(link.applied for link in links)
    expected, expected_from = _expected(expectation)
    problem = next((f"{row.label}: {row.state}: {row.detail}" for row in rows if row.state is not State.OK), None)
    if fork is not None and fork.merges and not expectation.tree_only:
        problem = problem or _merges(fork)
    if fork is None and lock is not None and not expectation.tree_only and lock.base_commit != base.oid:
        problem = problem or f"the lock was written for the pin {lock.base_commit[:12]}, not {base.oid[:12]}"
    if expected is not None and applied_tree != expected and applied_count == len(links):
        problem = problem or f"the applied tree {applied_tree} is not the expected {expected} ({expected_from})"
    if expectation.tree is not None and fork is not None and fork.head.tree != expectation.tree:
        problem = problem or f"the fork's tree {fork.head.tree} is not the expected {expectation.tree}"
    holds = None if expected is None else problem is None and applied_tree == expected
    if expected is None and any(row.state in NOT_APPLIED for row in rows):
        holds = False
    return Verification(
        series=series.name,
        base_commit=base.oid,
        base_tree=base.tree,
        rows=rows,
        applied_count=applied_count,
        patch_count=len(links),
        applied_tree=applied_tree,
        expected_tree=expected,
        expected_from=expected_from,
        holds=holds,
        first_problem=problem,
        drift=drift,
        warnings=_warnings(links),
    )


def _expected(expectation: Expectation) -> tuple[str | None, str | None]:
    """The tree the series must give, and in words where it comes from."""
    if expectation.tree is not None:
        return expectation.tree, "the command line (--expect-tree)"
    if expectation.fork is not None:
        fork = expectation.fork
        return fork.head.tree, f"fork {fork.name} ({fork.head.oid[:12]})"
    if expectation.lock is not None:
        return expectation.lock.tree, f"lock {expectation.lock.path}"
    return None, None


def _merges(fork: ForkHistory) -> str:
    named = ", ".join(f"{commit.oid[:12]} ({commit.subject})" for commit in fork.merges[:3])
    more = f" and {len(fork.merges) - 3} more" if len(fork.merges) > 3 else ""
    count = f"{len(fork.merges)} merge{'s' if len(fork.merges) > 1 else ''}"
    return (
        f"the fork has {count} since the pin: {named}{more}. One commit is one patch, and a merge is none; "
        "rebase the fork, or compare the last tree alone with --tree-only"
    )


def _warnings(links: Sequence[Link]) -> tuple[str, ...]:
    warnings = [f"{link.patch.file}: {text}" for link in links if link.outcome for text in link.outcome.warnings]
    anchored = [link.patch.file for link in links if link.patch.anchored]
    if anchored:
        warnings.append(
            f"{len(anchored)} anchored patch{'es' if len(anchored) > 1 else ''} ({anchored[0]}{', …' if anchored[1:] else ''}): "
            "plain git apply would put them in the wrong place and say OK; apply this series with patchstack apply"
        )
    return tuple(warnings)
