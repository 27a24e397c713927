"""Files replaced in one step, next to drafts that other runs have left or are writing."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from patchstack.files import processes
from patchstack.files.atomic import put_in_place, replace_file
from tests.support.namespaces import in_another, need_namespaces


@pytest.fixture
def dead() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def drafts(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


def test_the_draft_of_a_process_in_another_container_is_not_removed(tmp_path: Path) -> None:
    need_namespaces()
    file = tmp_path / "series.lock"
    script = (
        "from pathlib import Path; from patchstack.files import atomic\n"
        "atomic.os.fsync = lambda descriptor: ready()\n"
        "atomic.replace_file(Path(sys.argv[1]), b'theirs')\n"
    )
    with in_another(script, file):
        theirs = drafts(tmp_path)
        assert len(theirs) == 1
        replace_file(file, b"ours")
        assert drafts(tmp_path) == theirs
    assert file.read_bytes() == b"ours"


def test_a_draft_of_a_run_killed_here_is_removed_by_the_next(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".file.patchstack-{dead}-{processes.here()}").write_bytes(b"half")
    replace_file(tmp_path / "file", b"whole")
    assert drafts(tmp_path) == []


def test_a_draft_under_our_own_tag_is_of_a_process_that_had_our_number(tmp_path: Path) -> None:
    (tmp_path / f".file.patchstack-{processes.tag()}").write_bytes(b"half")
    replace_file(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert drafts(tmp_path) == []


@pytest.mark.parametrize(("age", "stays"), [(60, True), (7200, False)])
def test_a_draft_of_an_earlier_version_is_removed_once_it_is_old(
    tmp_path: Path, dead: int, age: float, stays: bool
) -> None:
    left = tmp_path / f".file.patchstack-{dead}"
    left.write_bytes(b"half")
    then = time.time() - age
    os.utime(left, (then, then))
    replace_file(tmp_path / "file", b"whole")
    assert left.exists() == stays


def test_files_that_only_look_like_drafts_stay(tmp_path: Path, dead: int) -> None:
    names = [f".other.patchstack-{dead}", ".file.patchstack-", ".file.patchstack-x", f".file.patchstack-{dead}.orig"]
    for name in names:
        (tmp_path / name).write_bytes(b"mine")
        os.utime(tmp_path / name, (0, 0))
    replace_file(tmp_path / "file", b"whole")
    assert drafts(tmp_path) == sorted(names)


def test_a_file_keeps_its_mode_and_may_be_given_another(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o750)
    replace_file(file, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"new", 0o750)
    replace_file(file, b"newer", mode=0o604)
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"newer", 0o604)


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", b"new")
    (tmp_path / "usual").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_cannot_be_replaced_stays_and_no_draft_does(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_is_replaced_by_a_draft_and_followed_by_new_content(tmp_path: Path) -> None:
    target, link, draft = tmp_path / "target", tmp_path / "link", tmp_path / "draft"
    target.write_bytes(b"old")
    link.symlink_to("target")
    replace_file(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    draft.write_bytes(b"newer")
    put_in_place(draft, link)
    assert (link.is_symlink(), link.read_bytes(), target.read_bytes()) == (False, b"newer", b"new")
    assert not draft.exists()


def test_a_directory_is_put_in_the_place_of_an_empty_one_only(tmp_path: Path) -> None:
    draft, place = tmp_path / "draft", tmp_path / "place"
    for directory in (draft, place):
        directory.mkdir()
    (draft / "file").touch()
    put_in_place(draft, place)
    assert [path.name for path in place.iterdir()] == ["file"]
    draft.mkdir()
    with pytest.raises(OSError, match="not empty"):
        put_in_place(draft, place)
    assert draft.is_dir()
