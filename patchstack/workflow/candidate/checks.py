"""Run the checks of a series on the tree of its candidates, as steps of an acceptance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from patchstack.checks.model import CheckRow
from patchstack.checks.read import read_promises
from patchstack.checks.run import Checker, OpenEngine, SeriesTrees, touched_paths
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import configured_series
from patchstack.series.files.names import number_of
from patchstack.series.files.order import has_patches
from patchstack.series.lock import read_lock
from patchstack.workflow.candidate.candidate import CandidateRange


def checked_candidates(way: CandidateRange, engine: OpenEngine) -> Iterator[CheckRow]:
    """Yield the result of every check on the fork's tree with the candidates.

    If the series does not contain the patch of a check yet, the check belongs to a candidate. New candidates get the
    numbers after the highest number that is used or retired.

    Raises `ConfigError` for unusable checks.
    """
    checks = read_promises(way.config)
    if not checks:
        return
    there = has_patches(way.config.patches)
    touched = touched_paths(configured_series(way.config).patches if there else ())
    lock = read_lock(way.config.patches) if there else None
    known = {patch.commit: number_of(patch.file) for patch in (lock.patches if lock is not None else ())}
    trees = {number: commit.tree for commit in way.fork.commits if (number := known.get(commit.oid)) is not None}
    last = max([*touched_numbers(touched), *(lock.retired if lock is not None else ())], default=0)
    below = way.before
    for commit in way.new:
        if commit.oid not in known:
            last += 1
            trees[last] = commit.tree
            changes = compare_trees(way.sources.objects, below.tree, commit.tree)
            paths = frozenset(change.path.decode("utf-8", "surrogateescape") for change in changes)
            touched[last] = paths
            touched[None] = touched[None] | paths
        below = commit
    checker = Checker(way.sources.objects, touched, engine)
    with contextlib.closing(checker):
        for check in checks:
            yield checker.row(check, SeriesTrees(last=way.head.tree, after=trees, absent={}))


def touched_numbers(touched: dict[int | None, frozenset[str]]) -> list[int]:
    """Return the numbers of the patches whose touched files are known."""
    return [number for number in touched if number is not None]
