"""Run the checks of a series during a sync.

A check that judges the tree after its patch runs as soon as this patch is on the branch. At the end, every check runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from patchstack.checks.entries import check_entries
from patchstack.checks.model import CheckRow
from patchstack.checks.read import read_promises
from patchstack.checks.run import Checker, SeriesTrees, touched_paths
from patchstack.git.objects import Objects
from patchstack.series.files.directory import configured_series
from patchstack.tasks import task
from patchstack.verdict import Verdict
from patchstack.workflow.sync.state import Fate, Item, SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace


def tell_checks(work: SyncWorkspace, items: Iterable[Item], objects: Objects) -> None:
    """Run the checks of patches on the trees after these patches, and report the checks that do not hold.

    `items` are the patches that were just brought over. Failures do not stop the sync, because a person must
    decide what to change.
    """
    checks = [check for check in read_promises(work.config) if check.at_patch]
    numbers = {check.patch for check in checks}
    picked = [item for item in items if item.result is not None and item.number in numbers]
    if not picked:
        return
    checker = _checker(work, objects)
    with task("running checks"), contextlib.closing(checker):
        for item in picked:
            assert item.result is not None and item.number is not None
            tree = objects.commit(item.result).tree
            trees = SeriesTrees(last=tree, after={item.number: tree}, absent={})
            for check in checks:
                if check.patch == item.number:
                    row = checker.row(check, trees)
                    if row.verdict is not Verdict.PASS:
                        work.talk(f"{item.label} {item.subject}: check {check.name}: {_told(row)}")


def checks_at_end(work: SyncWorkspace, state: SyncState, objects: Objects) -> list[dict[str, Any]]:
    """Run every check on the trees of the new branch, and return the results in the form of the report."""
    checks = read_promises(work.config)
    if not checks:
        return []
    after: dict[int, str] = {}
    absent: dict[int, str] = {}
    for item in state.items:
        if item.number is not None and item.fate is Fate.PICKED and item.result is not None:
            after[item.number] = objects.commit(item.result).tree
        elif item.number is not None:
            absent[item.number] = f"the patch is not on the new branch ({item.fate})"
    checker = _checker(work, objects)
    with contextlib.closing(checker):
        last = objects.commit(state.head).tree
        rows = checker.rows(checks, SeriesTrees(last=last, after=after, absent=absent))
    for row in rows:
        if row.verdict is not Verdict.PASS:
            work.talk(f"check {row.check.name}: {_told(row)}")
    found: list[dict[str, Any]] = msgspec.to_builtins(check_entries(rows))
    return found


def _checker(work: SyncWorkspace, objects: Objects) -> Checker:
    return Checker(objects, touched_paths(configured_series(work.config).patches), work.engine)


def _told(row: CheckRow) -> str:
    return f"{row.verdict}: {row.found.reason}"
