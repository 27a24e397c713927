"""`patchstack apply` when things go wrong: hostile journals, files in place of directories, errors in the middle, two
runs at once."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.errors import ConfigError, MissingError, NotHeldError, UsageError
from patchstack.files import journal as installing
from patchstack.files.journal import STAGE, Change, install, resume
from patchstack.series.files.directory import load_series
from patchstack.series.mirror.apply_to_directory import materialize
from tests.support.builders import mail, write_series
from tests.support.checkout import ROOT


def new(path: str, content: bytes = b"new") -> Change:
    return Change(path=path, content=content, link=False, executable=False)


def gone(path: str) -> Change:
    return Change(path=path, content=None, link=False, executable=False)


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and STAGE not in path.parts
    }


# A file becomes a directory, a directory a file, one is changed, one removed, one made.
OLD = {"fa": b"old", "dd/ee/f": b"old", "keep": b"old", "x/gone": b"old"}
CHANGES = [gone("fa"), new("fa/in"), gone("dd/ee/f"), new("dd"), new("keep"), gone("x/gone"), new("y/made")]
NEW = {"fa/in": b"new", "dd": b"new", "keep": b"new", "y/made": b"new"}


def lay_out(root: Path) -> None:
    for name, content in OLD.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Dies:
    """Raises at the n-th call that changes a directory, over all functions that do so."""

    NAMES = ("unlink", "rename", "replace", "mkdir", "rmdir")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, error: Callable[[], BaseException]) -> None:
        self.left = at
        self.error = error
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **kwargs: object) -> None:
            self.left -= 1
            if self.left == 0:
                raise self.error()
            real(*args, **kwargs)

        return call


def calls(tmp_path: Path) -> int:
    """Return how many calls a whole install makes."""
    root = tmp_path / "counted"
    root.mkdir()
    lay_out(root)
    with pytest.MonkeyPatch.context() as context:
        counter = Dies(context, 10_000, KeyboardInterrupt)
        install(root, CHANGES)
    assert files(root) == NEW
    return 10_000 - counter.left


def test_killed_at_any_call_it_is_as_before_or_resume_makes_it_as_after(tmp_path: Path) -> None:
    count = calls(tmp_path)
    assert count > 15
    finished = 0
    for at in range(1, count + 1):
        root = tmp_path / f"killed-{at}"
        root.mkdir()
        lay_out(root)
        with pytest.MonkeyPatch.context() as context:
            Dies(context, at, KeyboardInterrupt)
            # A killed process runs none of our handlers either.
            context.setattr("shutil.rmtree", lambda *args, **kwargs: None)
            with pytest.raises(KeyboardInterrupt):
                install(root, CHANGES)
                raise KeyboardInterrupt
        if installing.unfinished(root):
            assert resume(root) == len(CHANGES)
            finished += 1
            assert files(root) == NEW, at
        else:
            assert files(root) in (OLD, NEW), at
        assert resume(root) == 0
        assert not (root / STAGE).exists(), at
    assert finished > 8


def test_an_error_at_any_call_leaves_all_as_before(tmp_path: Path) -> None:
    def full() -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    failed = 0
    for at in range(1, calls(tmp_path) + 1):
        root = tmp_path / f"failed-{at}"
        root.mkdir()
        lay_out(root)
        with pytest.MonkeyPatch.context() as context:
            Dies(context, at, full)
            try:
                install(root, CHANGES)
            except MissingError as error:
                failed += 1
                written = "is written, but the journal cannot be removed" in error.message
                assert written or "nothing was changed" in error.message
                assert files(root) == (NEW if written else OLD), at
            else:
                assert files(root) == NEW, at  # an empty directory that could not be removed is not a failure
    assert failed > 8


@pytest.mark.parametrize(
    "journal",
    [
        '[{"path": "../victim", "staged": null, "kept": null}]',
        '[{"path": "/victim", "staged": null, "kept": null}]',
        '[{"path": "link/victim", "staged": null, "kept": null}]',
        '[{"path": ".git/config", "staged": null, "kept": null}]',
        '[{"path": "x", "staged": "../../victim", "kept": null}]',
        '[{"path": "victim", "staged": null}]',
        '{"a": 1}',
        "[{",
    ],
)
def test_a_journal_from_elsewhere_touches_nothing_outside(tmp_path: Path, journal: str) -> None:
    root = tmp_path / "source"
    (root / STAGE).mkdir(parents=True)
    (root / STAGE / "made-by-patchstack").write_bytes(b"")
    (root / STAGE / "journal.json").write_text(journal)
    (root / "link").symlink_to(tmp_path)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("mine")
    (tmp_path / "victim").write_text("precious")
    with pytest.raises(ConfigError):
        resume(root)
    assert (tmp_path / "victim").read_text() == "precious"
    assert (root / ".git" / "config").read_text() == "mine"


def test_a_patch_cannot_write_the_journal(tmp_path: Path) -> None:
    text = json.dumps([{"path": "../victim", "staged": None, "kept": None}])
    diff = (
        f"diff --git a/{STAGE}/journal.json b/{STAGE}/journal.json\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/{STAGE}/journal.json\n@@ -0,0 +1 @@\n+{text}\n"
    )
    series = write_series(tmp_path / "patches", {"0001-x.patch": mail("x", diff.encode())})
    source = tmp_path / "source"
    source.mkdir()
    with pytest.raises(NotHeldError, match="where patchstack apply keeps its journal"):
        materialize(load_series(series), source)
    assert not list(source.iterdir())


def test_a_directory_of_the_user_s_with_our_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / STAGE).mkdir()
    (tmp_path / STAGE / "notes").write_text("mine")
    with pytest.raises(UsageError, match="was not created by patchstack"):
        install(tmp_path, [new("a")])
    assert (tmp_path / STAGE / "notes").read_text() == "mine"


def test_a_link_replaced_by_a_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    before = os.umask(0o022)
    try:
        install(tmp_path, [new("link")])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "link").lstat().st_mode) == 0o644


def test_two_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    lines = [f"{n}\n" for n in range(40)]
    (source / "f").write_text("".join(lines))
    for name, at in (("one", 5), ("two", 30)):
        context = "".join(f" {n}\n" for n in range(at - 3, at)), "".join(f" {n}\n" for n in range(at + 1, at + 4))
        hunk = f"@@ -{at - 2},7 +{at - 2},7 @@\n{context[0]}-{at}\n+{name}\n{context[1]}"
        diff = f"diff --git a/f b/f\n--- a/f\n+++ b/f\n{hunk}"
        write_series(tmp_path / name, {"0001-x.patch": mail(name, diff.encode())})
    command = [sys.executable, "-m", "patchstack", "apply", str(source), "--patches"]
    runs = [
        subprocess.Popen([*command, str(tmp_path / name)], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in ("one", "two")
    ]
    told = [run.communicate(timeout=30) for run in runs]
    text = (source / "f").read_text()
    for run, (_, complaint), name in zip(runs, told, ("one", "two"), strict=True):
        assert (run.returncode == 0) == (f"{name}\n" in text), (told, text)
        assert run.returncode == 0 or b"another patchstack apply is running" in complaint
