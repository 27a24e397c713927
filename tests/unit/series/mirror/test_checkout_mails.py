"""`patchstack checkout` of a series without a lock: patch files made by anyone's git become commits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchstack.git.objects import Objects
from patchstack.series.files.directory import load_series
from patchstack.series.mirror.checkout import check_out
from tests.conftest import Patchstack
from tests.support.builders import Fork, RepoBuilder, a_fork, edited, executable, numbered, run_git, write_series

IDENTITY = ("--format=%an|%ae|%ad|%cn|%ce|%cd", "--date=raw")


def workspace(fork: Fork, extra: str = "") -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n{extra}"
    )


def rewritten(path: Path, *changes: tuple[str, str]) -> None:
    data = path.read_bytes()
    for old, new in changes:
        assert old.encode() in data, data
        data = data.replace(old.encode(), new.encode(), 1)
    path.write_bytes(data)


def as_git_am(fork: Fork, directory: Path) -> str:
    """Return the head that real `git am` gives, with each author as the committer."""
    run_git("clone", "-q", "--template=", fork.upstream.path, directory, cwd=fork.series.parent)
    run_git("checkout", "-q", "-b", "am", fork.pin, cwd=directory)
    for path in fork.patches:
        apply = ("am", "-q", "--keep-non-patch", "--keep-cr", "--committer-date-is-author-date", path)
        run_git(*apply, cwd=directory)
        name, email = run_git("log", "-1", "--format=%an%n%ae", cwd=directory).stdout.decode().splitlines()
        run_git("reset", "-q", "--hard", "HEAD~", cwd=directory)
        run_git(*apply, cwd=directory, GIT_COMMITTER_NAME=name, GIT_COMMITTER_EMAIL=email)
    return run_git("rev-parse", "HEAD", cwd=directory).stdout.decode().strip()


@pytest.fixture
def foreign(tmp_path: Path) -> Fork:
    """Return a series from other versions of git: several forms of subject, author, date and message."""
    fork = a_fork(
        tmp_path,
        steps=[
            ("Edit a line", {"src/kernel.cu": numbered(300, {10: "ten"})}),
            ("[tag] feat: Ümläut in a subject that is long enough to be folded over two lines ✓", {"ü.txt": "ü\n"}),
            ("Mode", {"src/other.cpp": executable(numbered(40)), "crlf": "one\r\ntwo\r\n"}),
            ("Last", {"src/kernel.cu": numbered(300, {10: "ten", 99: "more"})}),
        ],
    )
    first, second, third, last = fork.patches
    rewritten(
        first,
        ("Subject: [PATCH 1/4] ", "Subject: [PATCH 01/55] "),
        ("Date: Sun, 15 Jun 2025 15:07:40 +0000", "Date: Fri, 3 Jan 2025 23:59:59 -0830"),
        ("\n\n---\n", "\n\nA body  \n\n\n\nwith blanks\t\n  and an indent\n\nSwitch: LLAMA_X\n\n---\n"),
    )
    assert "=?UTF-8?q?" in second.read_text()
    rewritten(third, ("Subject: [PATCH 3/4] ", "Subject: "), ("From: A U Thor <", 'From: "Thor, A. (x)" <'))
    rewritten(last, ("\n\n---\n", "\n\nFrom: Some Body <some@example.com>\n\nTold in the body.\n---\nnot this\n"))
    workspace(fork)
    return fork


def test_the_commits_are_those_that_git_am_makes(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("checkout", "product", "again") == 0
    told = capsys.readouterr()
    again = RepoBuilder(tmp_path / "again")
    assert again.git("rev-parse", "product") == as_git_am(foreign, tmp_path / "am")
    assert again.tree("product") == foreign.trees[-1]
    assert again.git("rev-parse", "product~4") == foreign.pin
    assert again.git("status", "--short") == ""
    assert again.git("log", "-1", *IDENTITY, "product~3") == (
        "A U Thor|author@example.com|1735979399 -0830|A U Thor|author@example.com|1735979399 -0830"
    )
    assert again.git("log", "-1", "--format=%B", "product~3") == (
        "Edit a line\n\nA body\n\nwith blanks\n  and an indent\n\nSwitch: LLAMA_X"
    )
    assert again.git("log", "-1", "--format=%an %s", "product") == "Some Body Last"
    assert f"4 commits above {foreign.pin}" in told.out
    assert (
        "note: there is no series.lock, so author, date and message come from the patches, each author is" in told.err
    )
    assert (
        "next: set fork: again and fork_ref: product in patchstack.yaml, then run patchstack export product" in told.err
    )


def test_exported_once_from_what_was_checked_out_the_series_stays_byte_for_byte(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack
) -> None:
    assert patchstack("checkout", "product", "again") == 0
    workspace(foreign, "    fork: again\n    fork_ref: product\n")
    assert patchstack("verify") == 0
    numbers = [path.name[:4] for path in foreign.patches]
    assert patchstack("export") == 0
    first = {path.name: path.read_bytes() for path in foreign.series.iterdir()}
    assert [name[:4] for name in sorted(first) if name != "series.lock"] == numbers
    assert patchstack("export") == 0
    assert {path.name: path.read_bytes() for path in foreign.series.iterdir()} == first
    assert patchstack("verify") == 0
    assert patchstack("checkout", "product", "from-lock") == 0
    ids = [run_git("rev-list", "product", cwd=tmp_path / name).stdout for name in ("again", "from-lock")]
    assert ids[0] == ids[1]


def test_a_diff_without_a_mail_is_patchstack_s_on_the_day_of_the_pin(tmp_path: Path, patchstack: Patchstack) -> None:
    fork = a_fork(tmp_path)
    for path in fork.patches:
        path.unlink()
    hunk = "@@ -1,3 +1,4 @@\n one\n+more\n two\n three\n"
    write_series(fork.series, {"0007-say_more.patch": edited("docs/notes.txt", hunk)})
    workspace(fork, "    fork: fork\n    fork_ref: refs/heads/mine\n")
    assert patchstack("checkout", "product", "again") == 0
    pinned = fork.upstream.git("log", "-1", "--format=%cd", "--date=raw", fork.pin)
    who = f"patchstack|patchstack@localhost|{pinned}"
    again = RepoBuilder(tmp_path / "again")
    assert again.git("log", "-1", *IDENTITY, "mine") == f"{who}|{who}"
    assert again.git("log", "-1", "--format=%B", "mine") == "say more"


def test_up_to_a_number_and_one_alone_go_without_a_lock_too(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack
) -> None:
    assert patchstack("checkout", "product", "two", "--at", "2") == 0
    assert RepoBuilder(tmp_path / "two").tree("product-at-2") == foreign.trees[1]
    assert patchstack("checkout", "product", "one", "--patch", "4") == 0
    one = RepoBuilder(tmp_path / "one")
    assert one.git("rev-parse", "product-patch-4^") == foreign.pin
    assert "ten" not in (tmp_path / "one/src/kernel.cu").read_text()


def test_one_of_two_patches_of_one_number_is_chosen_by_its_name(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.patches[3].rename(foreign.patches[3].with_name("0003-other.patch"))
    assert patchstack("checkout", "product", "one", "--patch", "3") == 2
    assert "more than one patch has number 3" in capsys.readouterr().err
    assert patchstack("checkout", "product", "one", "--patch", "0003-other") == 0
    one = RepoBuilder(tmp_path / "one")
    assert one.git("rev-parse", "product-patch-0003-other^") == foreign.pin
    assert "ten" not in (tmp_path / "one/src/kernel.cu").read_text()


def test_mails_and_patches_that_make_no_commit_are_named_together(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _, third, last = foreign.patches
    first.write_text(re.sub(r"Date: .*", "Date: the other day", first.read_text()))
    rewritten(third, ('From: "Thor, A. (x)" <author@example.com>', "From: <>"))
    rewritten(last, ("-line 99", "-line ninety-nine"))
    assert patchstack("checkout", "product", "again") == 1
    told = capsys.readouterr().err
    assert "error: the patches cannot be converted to commits; nothing was written" in told
    assert f"{first.name}: its author or date cannot be used: invalid date format: the other day" in told
    assert f"{last.name}: src/kernel.cu: " in told
    assert not (tmp_path / "again").exists()


def test_credentials_of_the_upstream_are_not_written_down(foreign: Fork, tmp_path: Path) -> None:
    objects = Objects()
    objects.add_directory(foreign.upstream.path / ".git" / "objects", "upstream")
    made = check_out(
        objects,
        load_series(foreign.series),
        None,
        objects.commit(foreign.pin),
        tmp_path / "again",
        upstream="https://me:hunter2@example.com/up.git",
        branch="product",
    )
    config = (made.directory / ".git" / "config").read_text()
    assert "https://example.com/up.git" in config
    assert "hunter2" not in config


def test_files_whose_contents_are_nowhere_are_left_out_of_the_work_tree(
    foreign: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.upstream.loose(foreign.upstream.blob(foreign.pin, "big/untouched.gguf")).unlink()
    assert patchstack("checkout", "product", "again") == 0
    told = (
        "warning: the contents of big/untouched.gguf are not available, so the work tree does not contain these files"
    )
    assert told in capsys.readouterr().err
    again = tmp_path / "again"
    assert (again / "src/kernel.cu").read_text() == numbered(300, {10: "ten", 99: "more"})
    assert not (again / "big").exists()
    assert run_git("status", "--short", cwd=again).stdout == b""
