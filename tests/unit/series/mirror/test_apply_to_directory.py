"""`patchstack apply`: a series onto files on disk, all or nothing."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from patchstack.errors import MissingError, NotHeldError, UsageError
from patchstack.files import journal as installing
from patchstack.files.journal import STAGE, Change, install, resume, unfinished
from patchstack.files.lock import locked_directory
from patchstack.series.files.directory import load_series
from patchstack.series.mirror.apply_to_directory import materialize
from tests.support.builders import (
    Changes,
    RepoBuilder,
    a_fork,
    executable,
    mail,
    run_git,
    snapshot,
    symlink,
    write_series,
)


def check_out(repo: RepoBuilder, rev: str, directory: Path) -> Path:
    """Write the files of a commit to a plain directory."""
    directory.mkdir()
    archive = subprocess.run(["git", "-C", repo.path, "archive", rev], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
    return directory


def tree_on_disk(repo: RepoBuilder, directory: Path) -> str:
    """Return the tree that git sees in a directory."""
    index = repo.path.parent / "index-of-disk"
    index.unlink(missing_ok=True)

    def git(*args: str) -> str:
        places = {"GIT_INDEX_FILE": str(index), "GIT_DIR": repo.repo.path}
        return run_git(*args, cwd=directory, check=True, GIT_WORK_TREE=str(directory), **places).stdout.decode().strip()

    git("add", "--all", "--force", ".")
    return git("write-tree")


def patchstack(monkeypatch: pytest.MonkeyPatch, *args: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["patchstack", *map(str, args)])
    return guarded(app)


STEPS: list[tuple[str, Changes]] = [
    ("Edit", {"src/kernel.cu": "changed\n"}),
    ("Make and remove", {"src/new/deep.cpp": "new\n", "docs/notes.txt": None}),
    ("Mode", {"tools/run.sh": "#!/bin/sh\necho run\n", "src/other.cpp": executable("now a script\n")}),
    ("Link", {"src/link": symlink("kernel.cu")}),
    ("A file becomes a directory", {"README": None, "README/index": "x\n"}),
]


def test_a_directory_gets_the_fork_s_files_modes_and_links(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=[("Readme", {"README": "plain\n"}), *STEPS])
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    done = materialize(load_series(fork.series), source)
    assert tree_on_disk(fork.repo, source) == fork.repo.tree(fork.commits[-1])
    assert done.patch_count == 6
    assert set(done.created) >= {"src/new/deep.cpp", "src/link", "README/index"}
    assert "docs/notes.txt" in done.removed
    assert not (source / "docs").exists(), "a directory that becomes empty goes, as with git"
    assert not (source / STAGE).exists()


def test_at_stops_behind_the_patch_with_that_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = a_fork(tmp_path, 5)
    fork.patches[2].unlink()  # a gap: numbers are names, not positions
    fork.commits = [fork.commits[0], fork.commits[1]]
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    assert patchstack(monkeypatch, "apply", "--patches", fork.series, source, "--at", "2") == 0
    assert tree_on_disk(fork.repo, source) == fork.repo.tree(fork.commits[1])
    assert patchstack(monkeypatch, "apply", "--patches", fork.series, source, "--at", "3") == 2


def test_number_0_leaves_the_source_at_the_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = a_fork(tmp_path, 2)
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    assert patchstack(monkeypatch, "apply", "--patches", fork.series, source, "--at", "0") == 0
    assert tree_on_disk(fork.repo, source) == fork.upstream.tree(fork.pin)


def test_an_unknown_number_names_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = a_fork(tmp_path, 3)
    fork.patches[1].unlink()
    assert patchstack(monkeypatch, "apply", "--patches", fork.series, tmp_path / "upstream", "--at", "2") == 2
    told = capsys.readouterr().err
    assert "no patch has number 2" in told
    assert "hint: the numbers are 0001, 0003; 0 is the pin" in told


def test_nothing_is_written_when_the_last_patch_does_not_apply(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    fork.edit_patch(3, "-line 30", "-line thirty")
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    before = snapshot(source)
    with pytest.raises(NotHeldError) as raised:
        materialize(load_series(fork.series), source)
    assert "0003-Change-3-of-a-kernel.patch does not apply" in raised.value.message
    assert "nothing was written" in raised.value.message
    assert raised.value.problems[0].startswith("src/kernel.cu: hunk 1")
    assert "expected `line thirty`" in raised.value.problems[0]
    assert snapshot(source) == before


def test_check_writes_nothing_and_says_what_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = a_fork(tmp_path, 3)
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    before = snapshot(source)
    assert patchstack(monkeypatch, "apply", "--check", "--json", "--patches", fork.series, source) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "patchstack.apply/1"
    assert (document["check"], document["patch_count"]) == (True, 3)
    assert (document["created"], document["changed"], document["removed"]) == ([], ["src/kernel.cu"], [])
    assert snapshot(source) == before


def test_a_series_applied_twice_is_told_so(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    materialize(load_series(fork.series), source)
    with pytest.raises(NotHeldError, match="0001") as raised:
        materialize(load_series(fork.series), source)
    assert "its lines already exist" in raised.value.problems[0]


def test_a_work_tree_s_index_is_left_alone(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    fork.upstream.git("checkout", "-q", "--force", fork.pin)
    index = (tmp_path / "upstream" / ".git" / "index").read_bytes()
    materialize(load_series(fork.series), tmp_path / "upstream")
    assert (tmp_path / "upstream" / ".git" / "index").read_bytes() == index
    assert fork.upstream.git("status", "--short") == " M src/kernel.cu"


def test_permissions_of_a_changed_file_stay(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 1)
    source = check_out(fork.upstream, fork.pin, tmp_path / "source")
    (source / "src/kernel.cu").chmod(0o640)
    materialize(load_series(fork.series), source)
    assert stat.S_IMODE((source / "src/kernel.cu").stat().st_mode) == 0o640


def test_a_link_on_the_way_is_never_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    source = tmp_path / "source"
    source.mkdir()
    (source / "src").symlink_to(outside)
    diff = b"diff --git a/src/x b/src/x\nnew file mode 100644\nindex 0000000..587be6b\n--- /dev/null\n+++ b/src/x\n"
    series = write_series(tmp_path / "patches", {"0001-x.patch": mail("x", diff + b"@@ -0,0 +1 @@\n+x\n")})
    with pytest.raises(NotHeldError) as raised:
        materialize(load_series(series), source)
    assert "beyond a symbolic link" in raised.value.problems[0]
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["../x", ".git/hooks/post-checkout", "a/../../x", "/x"])
def test_no_patch_writes_outside_the_directory_or_into_git_s(tmp_path: Path, name: str) -> None:
    source = tmp_path / "work" / "source"
    (source / ".git" / "hooks").mkdir(parents=True)
    text = f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"
    series = write_series(tmp_path / "patches", {"0001-x.patch": mail("x", text.encode())})
    before = snapshot(tmp_path)
    with pytest.raises(NotHeldError):
        materialize(load_series(series), source)
    assert snapshot(tmp_path) == before


def test_killed_before_the_journal_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")
    written: list[Path] = []
    from patchstack.files.atomic import write_new as real

    def dies_at_the_second(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(installing, "write_new", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        install(tmp_path, CHANGES)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


CHANGES = [
    Change(path="a", content=b"new", link=False, executable=False),
    Change(path="dir/b", content=b"new", link=False, executable=True),
    Change(path="c", content=None, link=False, executable=False),
]


@pytest.mark.parametrize("survives", range(3))
def test_killed_behind_the_journal_the_change_is_finished_by_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").write_text("old")
    moved: list[object] = []
    real = os.replace

    def dies(source: Path, target: Path) -> None:
        if target.name != "journal.json":
            if len(moved) == survives:
                raise KeyboardInterrupt
            moved.append(target)
        real(source, target)

    if survives < 2:
        with monkeypatch.context() as context:
            context.setattr("patchstack.files.journal.os.replace", dies)
            with pytest.raises(KeyboardInterrupt):
                install(tmp_path, CHANGES)
    else:
        with monkeypatch.context() as context:
            context.setattr("patchstack.files.journal.shutil.rmtree", lambda path, **_: None)
            context.setattr(Path, "unlink", dies_on_journal)
            with pytest.raises(KeyboardInterrupt):
                install(tmp_path, CHANGES)
    assert unfinished(tmp_path)
    (tmp_path / "other").mkdir()
    fork = a_fork(tmp_path / "other", 1)
    with pytest.raises(UsageError, match="killed while it wrote"):
        materialize(load_series(fork.series), tmp_path)
    capsys.readouterr()
    assert patchstack(monkeypatch, "apply", "--resume", tmp_path) == 0
    assert "finished: 3 paths" in capsys.readouterr().out
    assert (tmp_path / "a").read_text() == (tmp_path / "dir/b").read_text() == "new"
    assert os.access(tmp_path / "dir/b", os.X_OK)
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / STAGE).exists()
    assert resume(tmp_path) == 0


_unlink = Path.unlink


def dies_on_journal(path: Path, missing_ok: bool = False) -> None:
    if path.name == "journal.json":
        raise KeyboardInterrupt
    _unlink(path, missing_ok=missing_ok)


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 1)
    with locked_directory(tmp_path, "x"), pytest.raises(UsageError, match="another patchstack apply is running"):
        materialize(load_series(fork.series), tmp_path)


def test_a_full_disk_is_an_error_and_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(installing, "write_new", full)
    with pytest.raises(MissingError, match="No space left on device; nothing was changed"):
        install(tmp_path, CHANGES)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["apply", "nowhere", "--patches", "patches"], "nowhere is not a directory"),
        (["apply", "a", "b", "c"], "give one series"),
        (["apply", "source"], "there is no patchstack.yaml here or above"),
    ],
)
def test_wrong_usage_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    told: str,
) -> None:
    a_fork(tmp_path, 1)
    assert patchstack(monkeypatch, *args) == 2
    assert told in capsys.readouterr().err
