"""`patchstack hook install`: real git commits in the fork's clone, refused or made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered, run_git
from tests.support.checkout import ROOT
from tests.support.syncing import Moved, kernel, moved, of

CHECKS = """\
    checks:
      - name: first-line
        what: The first change stays.
        patch: 1
        kind: present
        pattern: '^changed by commit 1$'
      - {name: slow, patch: 1, kind: command, run: [sleep, "600"]}
"""


@pytest.fixture
def hooked(tmp_path: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch) -> Moved:
    """Return a checked-out fork with the hook."""
    found = moved(tmp_path, patchstack, extra=CHECKS)
    fork = found.fork.repo.path
    run_git("checkout", "-q", "product", cwd=fork)
    # `python -I` does not find the package of a checkout.
    monkeypatch.setattr(sys, "executable", str(_python(tmp_path)))
    assert patchstack("hook", "install") == 0
    return found


def _python(directory: Path) -> Path:
    path = directory / "python"
    path.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def commit(found: Moved, message: str, *options: str, **files: str) -> subprocess.CompletedProcess[bytes]:
    """Commit files with real git, and return its output."""
    fork = found.fork.repo.path
    for name, content in files.items():
        path = fork / name.replace("__", "/")
        path = path.with_name({"kernel": "kernel.cu", "other": "other.cpp"}.get(path.name, path.name))
        path.write_text(content)
        run_git("add", path, cwd=fork)
    return run_git("commit", "-q", "-m", message, *options, cwd=fork, check=False)


def subject(found: Moved) -> str:
    return found.fork.repo.git("log", "-1", "--format=%s", "product")


def test_a_commit_that_keeps_its_scope_and_the_checks_is_made(hooked: Moved) -> None:
    done = commit(hooked, "Good\n\nScope: src/", src__other=numbered(41))
    assert (done.returncode, subject(hooked)) == (0, "Good"), done.stderr


def test_a_commit_outside_its_scope_is_refused(hooked: Moved) -> None:
    done = commit(hooked, "Bad\n\nScope: src/*.cu", src__other=numbered(41))
    assert done.returncode != 0
    assert b"src/other.cpp is outside the commit's Scope (src/*.cu)" in done.stderr
    assert b"hint: " in done.stderr and b"--no-verify" in done.stderr
    assert subject(hooked) != "Bad"


def test_a_commit_that_breaks_a_check_is_refused_and_no_verify_goes_past_it(hooked: Moved) -> None:
    done = commit(hooked, "Bad", src__kernel=kernel(of(2, 3)))
    assert done.returncode != 0
    assert b"check first-line: not found; expected at least 1 place: The first change stays." in done.stderr
    assert commit(hooked, "All the same", "--no-verify").returncode == 0
    done = commit(hooked, "Later", src__other=numbered(41))
    assert done.returncode == 0
    assert b"(it failed before)" in done.stderr


def test_part_of_what_is_changed_is_looked_at_as_it_is_committed(hooked: Moved) -> None:
    fork = hooked.fork.repo.path
    (fork / "src/kernel.cu").write_text(kernel(of(2, 3)))
    (fork / "src/other.cpp").write_text(numbered(41))
    done = run_git("commit", "-q", "-m", "One of them", "src/other.cpp", cwd=fork, check=False)
    assert (done.returncode, subject(hooked)) == (0, "One of them"), done.stderr


def test_the_hook_of_somebody_else_is_left_alone(
    tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    found = moved(tmp_path, patchstack)
    path = found.fork.repo.path / ".git" / "hooks" / "commit-msg"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    assert patchstack("hook", "install") == 2
    told = capsys.readouterr().err
    assert "is a hook that patchstack did not install" in told and 'hook run "$1" --workspace' in told
    assert path.read_text() == "#!/bin/sh\nexit 0\n"


def test_the_hook_is_written_again_over_our_own(hooked: Moved, patchstack: Patchstack) -> None:
    path = hooked.fork.repo.path / ".git" / "hooks" / "commit-msg"
    before = path.read_text()
    assert patchstack("hook", "install") == 0
    assert path.read_text() == before
    assert os.access(path, os.X_OK)
