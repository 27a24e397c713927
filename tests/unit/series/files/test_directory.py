"""The directory of a series: the files that count, their order, and the messages about files that cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from patchstack.errors import ConfigError
from patchstack.series.files.directory import load_series
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, closed, lock_of, write_series


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def test_two_patches_of_one_number_are_both_named_beside_a_lock(fork: Fork, run_cli: RunCli) -> None:
    (fork.series / "series.lock").write_text(json.dumps(lock_of(fork)))
    fork.patch(3).rename(fork.series / "0002-another.patch")
    ran = run_cli("verify", *fork.options)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"error: the patches of {fork.series} cannot be used\n"
        "  - more than one patch has number 2: 0002-Change-2-of-a-kernel.patch, 0002-another.patch\n\n"
        "hint: if both clones exported before the merge, "
        f"run 'git restore --source=HEAD --staged --worktree {fork.series}' to keep one side; "
        "then add the other side's commits to the fork and export: they get the next numbers\n"
    )


def test_every_file_that_cannot_be_read_is_told_at_once(fork: Fork, run_cli: RunCli) -> None:
    (fork.series / "0004-directory.patch").mkdir()
    (fork.series / "0005-dangling.patch").symlink_to("nowhere")
    (fork.series / "0006-loop.patch").symlink_to("0006-loop.patch")
    os.mkfifo(fork.series / "0007-pipe.patch")
    ran = run_cli("verify", *fork.options)
    assert (ran.code, ran.stdout) == (2, "")
    for complaint in (
        "0004-directory.patch: not a regular file",
        "0005-dangling.patch: No such file or directory",
        "0006-loop.patch: Too many levels of symbolic links",
        "0007-pipe.patch: not a regular file",
    ):
        assert f"  - {complaint}\n" in ran.stderr


def test_a_directory_without_patches_is_an_error_and_not_a_series_that_holds(
    tmp_path: Path, fork: Fork, run_cli: RunCli
) -> None:
    empty = write_series(
        tmp_path / "empty", {"README.md": b"no patches\n", "x.dif": b"", "0001.patch.orig": b"", ".patch~": b""}
    )
    ran = run_cli("verify", "--patches", empty, *fork.options[2:])
    assert (ran.code, ran.stdout) == (2, "")
    assert (
        ran.stderr
        == f"error: there are no patches in {empty}\n\nhint: choose a directory that contains *.patch files\n"
    )


@pytest.mark.parametrize("forked", [True, False])
@pytest.mark.parametrize("command", ["verify", "checkout", "lint", "canary", "build"])
def test_a_series_of_a_workspace_without_patches_is_to_be_exported(
    tmp_path: Path, fork: Fork, run_cli: RunCli, command: str, forked: bool
) -> None:
    lines = f"    fork: fork\n    fork_ref: {fork.ref}\n" if forked else ""
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: none\n    upstream: upstream\n    pin: {fork.pin}\n{lines}"
    )
    first = "" if forked else "set fork and fork_ref in patchstack.yaml, then "
    last = " to write them from the fork" if forked else ""
    for _ in range(2):
        ran = run_cli(command, "product", *(["new"] if command == "checkout" else []))
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr == (
            f"error: there are no patches in none\n\nhint: {first}run 'patchstack export product'{last}\n"
        )
        (tmp_path / "none").mkdir(exist_ok=True)


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_series_that_is_no_directory_is_named(tmp_path: Path, fork: Fork, run_cli: RunCli, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("x")
    ran = run_cli("verify", "--patches", place, *fork.options[2:])
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {place} is not a directory\n\nhint: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every directory")
def test_a_directory_that_cannot_be_listed_says_why(fork: Fork, run_cli: RunCli) -> None:
    with closed(fork.series):
        ran = run_cli("verify", *fork.options)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: {fork.series} cannot be listed: Permission denied\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_patch_that_cannot_be_read_says_why(fork: Fork, run_cli: RunCli) -> None:
    with closed(fork.patch(2)):
        ran = run_cli("verify", *fork.options)
    assert (ran.code, ran.stdout) == (2, "")
    assert f"  - {fork.patch(2).name}: Permission denied\n" in ran.stderr


def test_a_series_behind_a_link_serves(tmp_path: Path, fork: Fork, run_cli: RunCli) -> None:
    (tmp_path / "by-link").symlink_to(fork.series)
    assert run_cli("verify", "--patches", tmp_path / "by-link", *fork.options[2:]).code == 0


def test_a_relative_series_is_taken_from_where_we_are(
    fork: Fork, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fork.series)
    ran = run_cli("verify", "--patches", ".", *fork.options[2:], "--json")
    assert (ran.code, ran.document["series"]) == (0, "patches")


def test_other_files_beside_the_patches_do_not_count(fork: Fork, run_cli: RunCli) -> None:
    write_series(
        fork.series, {"README.md": b"about\n", "series.txt": b"0001\n", "0002-old.txt": b"old", "0003.dif": b""}
    )
    ran = run_cli("verify", *fork.options, "--json")
    assert (ran.code, ran.document["patch_count"]) == (0, 3)


def test_patches_stand_in_the_order_of_their_names_byte_by_byte(tmp_path: Path) -> None:
    names = [
        "0010-a.patch",
        "0002-b.patch",
        "0001-Z.patch",
        "0003-a.anchored",
        "0003-a.diff",
        "9b.patch",
        "9-x.patch",
    ]
    series = load_series(write_series(tmp_path / "s", dict.fromkeys(names, b"")))
    assert [patch.file for patch in series.patches] == sorted(names)
    assert [patch.number for patch in series.patches] == [1, 2, 3, 3, 10, 9, None]


@pytest.mark.parametrize(
    ("file", "number", "subject"),
    [
        ("0012-add-a-thing.patch", 12, "add a thing"),
        ("7_add_a_thing.patch", 7, "add a thing"),
        ("0003.patch", 3, "0003"),
        ("thing.patch", None, "thing"),
        ("2fast.patch", None, "2fast"),
        ("00000000000000000000042-x.patch", 42, "x"),
    ],
)
def test_a_file_name_gives_number_and_subject_where_there_is_no_mail(
    tmp_path: Path, file: str, number: int | None, subject: str
) -> None:
    [patch] = load_series(write_series(tmp_path / "s", {file: b""})).patches
    assert (patch.number, patch.subject) == (number, subject)


def test_a_series_up_to_a_number_counts_numbers_and_not_positions(tmp_path: Path) -> None:
    series = load_series(write_series(tmp_path / "s", {"0002-a.patch": b"", "0005-b.patch": b"", "0009-c.patch": b""}))
    assert [patch.number for patch in series.up_to(5).patches] == [2, 5]
    with pytest.raises(ConfigError, match="s: no patch has number 3") as failed:
        series.up_to(3)
    assert failed.value.hint == "the numbers are 0002, 0005, 0009; 0 is the pin"


def test_number_0_is_the_pin_unless_a_patch_has_it(tmp_path: Path) -> None:
    series = load_series(write_series(tmp_path / "s", {"0001-a.patch": b"", "0002-b.patch": b""}))
    assert series.up_to(0).patches == ()
    series = load_series(write_series(tmp_path / "z", {"0000-z.patch": b"", "0001-a.patch": b""}))
    assert [patch.file for patch in series.up_to(0).patches] == ["0000-z.patch"]


def test_a_file_name_that_is_no_utf8_is_told_and_does_not_crash(fork: Fork, run_patchstack: RunCli) -> None:
    name = os.fsencode(fork.series) + b"/0004-\xff.patch"
    Path(os.fsdecode(name)).write_text("x")
    ran = run_patchstack("verify", *fork.options)
    assert ran.code == 1
    assert "0004-" in ran.told
    assert run_patchstack("verify", *fork.options, "--json").document["patches"][3]["state"] == "malformed"
