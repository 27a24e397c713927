"""The head of a patch file, as `git format-patch` and people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.git.patch.mail import read_mail
from tests.support.builders import RepoBuilder, format_patch

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("head", "subject"),
    [
        ("Subject: [PATCH] Add a thing", "Add a thing"),
        ("Subject: [PATCH 3/9] Add a thing", "Add a thing"),
        ("Subject: [PATCH v2 03/10] Add a thing", "Add a thing"),
        ("Subject: [RFC PATCH] Add a thing", "Add a thing"),
        ("Subject: [PATCH llama.cpp 1/1] Add a thing", "Add a thing"),
        ("Subject: Add a thing", "Add a thing"),
        ("subject: [patch] Add a thing", "Add a thing"),
        ("Subject:[PATCH] Add a thing", "Add a thing"),
        ("Subject: [PATCH]", ""),
        ("Subject: [CUDA] Add a thing", "[CUDA] Add a thing"),
        ("Subject: [PATCH] [CUDA] Add a thing", "[CUDA] Add a thing"),
        ("Subject: [PATCH 1/2] [PATCH] Add a thing", "[PATCH] Add a thing"),
        ("Subject: [PATCH] Add\n a very\n\tlong thing", "Add a very long thing"),
        ("Subject: [PATCH] Add a thing\r\n\r\nbody", "Add a thing"),
        ("Subject: =?UTF-8?q?[PATCH]=20Gr=C3=BC=C3=9Fe?=", "Grüße"),
        ("Subject: [PATCH] =?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        ("Subject: [PATCH] =?UTF-8?q?Gr=C3=BC?=\n =?UTF-8?q?=C3=9Fe=20an=20alle?=", "Grüße an alle"),
        ("Subject: [PATCH] =?ISO-8859-1?Q?caf=E9?=", "café"),
        ("Subject: [PATCH] =?UTF-8?B?R3LDvMOfZQ==?=", "Grüße"),
        ("Subject: [PATCH] =?no-such-charset?q?x?=", "=?no-such-charset?q?x?="),
        ("Subject: [PATCH] is 1 =? 2", "is 1 =? 2"),
        ("Subject: [PATCH] naïve", "naïve"),
        ("From: a@b\nX-Other: 1\nSubject: [PATCH] Last header\nSubject: Another", "Last header"),
        ("diff --git a/x b/x\nSubject: not a header", ""),
        ("--- a/x\n+++ b/x\nSubject: not a header", ""),
        ("\nSubject: behind a blank line", ""),
        ("", ""),
    ],
)
def test_the_subject_is_the_commits_own(head: str, subject: str) -> None:
    assert read_mail(f"{head}\n\nbody\n---\n".encode()).subject == subject


@pytest.mark.parametrize(
    ("line", "commit"),
    [
        (f"From {COMMIT} Mon Sep 17 00:00:00 2001", COMMIT),
        (f"From {'0' * 40} Mon Sep 17 00:00:00 2001", None),
        (f"From {COMMIT[:12]} Mon Sep 17 00:00:00 2001", None),
        (f"From {COMMIT}", None),
        ("From: A U Thor <author@example.com>", None),
        (f"X: 1\nFrom {COMMIT} Mon Sep 17 00:00:00 2001", None),
    ],
)
def test_the_commit_is_the_one_of_the_first_line_alone(line: str, commit: str | None) -> None:
    mail = read_mail(f"{line}\nSubject: [PATCH] x\n\n".encode())
    assert (mail.commit, mail.subject) == (commit, "x")


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff" * 100, b"Subject:", b"Subject: =?utf-8?b?%%%?=", b"From " + b"0" * 41, b"\r\n\r\n"]
)
def test_no_head_whatever_makes_it_fail(data: bytes) -> None:
    mail = read_mail(data)
    assert mail.commit is None
    assert isinstance(mail.subject, str)


@pytest.mark.parametrize(
    "subject",
    [
        "Short",
        "A subject that is so long that git format-patch folds it over more than one line of the mail, twice",
        "Grüße von weit her, mit so vielen Umlauten, dass die Zeile gefaltet werden muss: äöü ÄÖÜ ß äöü ÄÖÜ ß äöü",
        "日本語の題名",
        "[CUDA] a tag of our own",
        "with = and ? and =?utf-8?q?not=20encoded?= in it",
        "trailing [PATCH]",
    ],
)
def test_what_git_format_patch_writes_is_read_back(tmp_path: Path, subject: str) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    pin = repo.commit("Begin", {"a": "a\n"})
    commit = repo.commit(subject, {"a": "b\n"})
    [path] = format_patch(repo, pin, "main", tmp_path / "out")
    mail = read_mail(path.read_bytes())
    assert (mail.commit, mail.subject) == (commit, subject)


def test_a_subject_of_two_lines_is_read_as_git_shows_it(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    pin = repo.commit("Begin", {"a": "a\n"})
    repo.commit("One subject\nover two lines", {"a": "b\n"})
    [path] = format_patch(repo, pin, "main", tmp_path / "out")
    assert read_mail(path.read_bytes()).subject == repo.git("log", "-1", "--format=%s") == "One subject over two lines"
