"""Temporary repositories go, also those of runs that were killed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from patchstack.git.scratch import bare_repository, make_bare_repository
from tests.builders import a_fork, run_git


def test_a_repository_borrows_objects_and_has_no_configuration(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 1)
    with bare_repository((tmp_path / "upstream" / ".git" / "objects",)) as root:
        assert run_git("cat-file", "-t", fork.pin, cwd=root).stdout == b"commit\n"
    assert not root.exists()


def test_what_a_killed_run_left_is_removed_once_it_is_old_and_nothing_else() -> None:
    temporary = Path(tempfile.gettempdir())
    dead, alive = 2**22 + 1, os.getpid()
    names = {
        f"patchstack-{dead}-old": 7200,
        f"patchstack-{dead}-young": 60,
        f"patchstack-{alive}-old": 7200,
        "patchstack-mine": 7200,
    }
    for name, age in names.items():
        (temporary / name).mkdir()
        then = os.stat(temporary / name).st_mtime - age
        os.utime(temporary / name, (then, then))
    made = make_bare_repository()
    left = {path.name for path in temporary.iterdir()}
    assert left == {*names, made.name} - {f"patchstack-{dead}-old"}
