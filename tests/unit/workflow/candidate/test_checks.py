"""The checks of a series on the tree with a candidate: before anything is built."""

from __future__ import annotations

from pathlib import Path

from patchstack.checks.model import CheckRow
from patchstack.checks.run import no_engine
from patchstack.git.remote import Cache
from patchstack.workflow.candidate.candidate import open_candidates
from patchstack.workflow.candidate.checks import checked_candidates
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.builders import Changes, numbered
from tests.support.syncing import kernel, moved, of

CHECKS = """\
    checks:
      - {name: first-stays, patch: 1, kind: present, pattern: '^changed by commit 1$'}
      - {name: its-own, patch: 4, at: patch, kind: present, pattern: '^line 301$'}
      - {name: not-there, patch: 9, kind: present, pattern: 'x'}
"""


def judged(directory: Path, patchstack: Patchstack, subject: str, changes: Changes) -> dict[str, CheckRow]:
    """Return the checks on the tree with a candidate, by name."""
    found = moved(directory, patchstack, extra=CHECKS)
    commit = found.fork.repo.commit(subject, changes)
    config = read_workspace(found.settings).series[0]
    way = open_candidates(config, Cache(lambda: directory / "cache", offline=True), commit)
    return {row.check.name: row for row in checked_candidates(way, no_engine)}


def test_a_candidate_gets_the_next_number_and_the_files_that_it_touches(tmp_path: Path, patchstack: Patchstack) -> None:
    rows = judged(tmp_path, patchstack, "A candidate", {"src/other.cpp": numbered(301)})
    assert {name: str(row.verdict) for name, row in rows.items()} == {
        "first-stays": "PASS",
        "its-own": "PASS",
        "not-there": "INVALID",
    }
    assert rows["not-there"].found.reason == "the series has no patch 0009"


def test_a_candidate_that_undoes_what_another_patch_promises_fails(tmp_path: Path, patchstack: Patchstack) -> None:
    rows = judged(tmp_path, patchstack, "Undo it", {"src/kernel.cu": kernel(of(2, 3))})
    assert (str(rows["first-stays"].verdict), str(rows["its-own"].verdict)) == ("FAIL", "FAIL")
