"""Checks during a sync: those of a patch after it, all at the end; they are printed and reported, and never stop the
sync."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered
from tests.support.syncing import kernel, moved

CHECKS = """\
    checks:
      - {name: after-two, patch: 2, at: patch, kind: present, pattern: 'changed by commit 2'}
      - {name: no-three-yet, patch: 2, at: patch, kind: absent, pattern: 'upstream''s own', example: "upstream's own"}
      - name: others
        patch: series
        kind: sites
        pattern: '(line \\d+)$'
        files: [src/other.cpp]
        recorded: at the pin
        sites: {src/other.cpp: ['(file): line 1']}
"""


def test_checks_run_after_their_patch_and_at_the_end(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    found = moved(tmp_path, patchstack, extra=CHECKS)
    found.upstream("Its own", {"src/kernel.cu": kernel({200: "upstream's own"}), "src/other.cpp": numbered(2)})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work", "--json") == 0
    printed = capsys.readouterr()
    assert "0002 Change 2 of a kernel: check no-three-yet: FAIL: found in 1 place: src/kernel.cu:200" in printed.err
    assert "check others: FAIL: new site (file): line 2 in src/other.cpp" in printed.err
    promises = json.loads(printed.out.splitlines()[-1])["report"]["promises"]
    assert {one["name"]: one["verdict"] for one in promises} == {
        "after-two": "PASS",
        "no-three-yet": "FAIL",
        "others": "FAIL",
    }
    assert patchstack("sync", "--accept") == 0
