"""Temporary repositories are removed, also those of killed runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from patchstack.files import processes
from patchstack.git.scratch import bare_repository, make_bare_repository
from tests.support.builders import a_fork, run_git
from tests.support.namespaces import in_another, need_namespaces


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


def test_what_a_run_killed_here_left_is_removed_at_once() -> None:
    killed = subprocess.Popen(["true"])
    killed.wait()
    temporary = Path(tempfile.gettempdir())
    left = temporary / f"patchstack-{killed.pid}-{processes.here()}-abcdefgh"
    left.mkdir()
    made = make_bare_repository()
    assert [path.name for path in temporary.iterdir()] == [made.name]


def test_a_long_run_in_another_container_keeps_its_repository() -> None:
    need_namespaces()
    temporary = Path(tempfile.gettempdir())
    with in_another("from patchstack.git.scratch import make_bare_repository; make_bare_repository(); ready()\n"):
        (other,) = temporary.iterdir()
        hours = time.time() - 5 * 3600
        for path in (*other.rglob("*"), other):
            os.utime(path, (hours, hours))
        made = make_bare_repository()
        assert set(temporary.iterdir()) == {other, made}


def test_the_directory_of_a_bisection_in_another_container_is_kept_too() -> None:
    need_namespaces()
    temporary = Path(tempfile.gettempdir())
    script = (
        "from patchstack.workflow.bisect import bisect\n"
        "bisect.TreeDirectory = lambda *given: ready()\n"
        "class Row: points, objects = [1], None\n"
        "bisect.bisect(Row, ['true'], __import__('pathlib').Path('logs'), print)\n"
    )
    with in_another(script):
        (other,) = temporary.iterdir()
        hours = time.time() - 5 * 3600
        os.utime(other, (hours, hours))
        made = make_bare_repository()
        assert set(temporary.iterdir()) == {other, made}
