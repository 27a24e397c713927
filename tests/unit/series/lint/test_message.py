"""The message rule, compared with what real `git am` does with the same patch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patchstack.git.patch.trailers import parse_trailers
from patchstack.workspace import LintPolicy
from tests.support.builders import a_fork, run_git
from tests.support.linting import of
from tests.support.oracle import hermetic_environment

SHA = "0ed235ea2c17a19fc8238668653946721ed136fd"

LOST = {
    "a divider": "Text.\n\n---\nmore text",
    "a divider with blanks": "Text.\n\n---  \nmore text",
    "dashes and a name": "Text.\n\n--- src/a.cpp is where it goes\nmore text",
    "an index line": "Text.\n\nIndex: src/a.cpp\nmore text",
    "an author at the start": "From: B Other <b@example.com>\n\nText.",
    "a sentence that starts with From": "From: where the code came\n\nText.",
    "a subject at the start": "Subject: another\n\nText.",
    "a date at the start": "Date: Sun, 15 Jun 2025 15:06:40 +0000\n\nText.",
    "a patch tag at the start": "[PATCH] another\n\nText.",
    "a quoted mail line at the start": f">From {SHA} Mon Sep 17 00:00:00 2001\n\nText.",
    "a diff header": "Text.\n\ndiff --git a/src/a.cpp b/src/a.cpp\nmore text",
    "a plain diff line": "Text.\n\ndiff -u a b\nmore text",
    "a mail's first line": f"Text.\n\nFrom {SHA} Mon Sep 17 00:00:00 2001\nmore text",
    "any mbox line": "Text.\n\nFrom someone@example.com Mon Sep 17 00:00:00 2001\nmore text",
}
KEPT = {
    "plain text": "Text.\n\nMore of it.",
    "an author further down": "Text.\n\nFrom: B Other <b@example.com>",
    "a quoted From at the start": ">From here on\n\nText.",
    "a From without a date": "Text.\n\nFrom here to the end of the line it is text, From: too",
    "a short From": f"From {SHA[:7]} on",
    "dashes before text": "Text.\n\n---- a ruler ----\n----\n--flag\n--\nmore",
    "dashes and more": "Text.\n\n---more\n-----\n--------- >8",
    "an index in a sentence": "Text.\n\nIndexes: two\nindex: lower case\n Index: indented",
    "an indented diff": "Text.\n\n    diff --git a/x b/x\n    --- a/x\n    +++ b/x\n    @@ -1 +1 @@",
    "a diffstat": "Text.\n\n src/a.cpp | 2 +-\n 1 file changed",
    "a list": "- one\n- two\n\n* three\n+ four",
    "trailers": "Text.\n\nSwitch: X\nSigned-off-by: A <a@example.com>",
}


def taken_by_am(directory: Path, body: str) -> tuple[bool, bool]:
    """Return whether real `git am --keep` keeps the message and author, and whether lint has a finding."""
    fork = a_fork(directory, 0)
    fork.repo.commit("A subject", {"src/other.cpp": "changed\n"}, body=body)
    fork.repo.git("format-patch", "-q", "--keep-subject", "-o", fork.series, f"{fork.pin}..product")
    run_git("clone", "-q", "--template=", fork.upstream.path, directory / "am", cwd=directory)
    patch = next(fork.series.glob("*.patch"))
    am = run_git("am", "-q", "--keep", patch, cwd=directory / "am", check=False)
    form = "--format=%B%n%an %ae %at"
    before = run_git("log", "-1", form, "product", cwd=fork.repo.path).stdout
    after = run_git("log", "-1", form, cwd=directory / "am").stdout
    findings = of(fork).findings
    assert {finding.rule for finding in findings} <= {"message", "unreadable"}
    assert all(
        patch.read_text().splitlines()[f.line - 1] in [line.rstrip() for line in body.splitlines()]
        for f in findings
        if f.rule == "message"
    )
    return am.returncode == 0 and before == after, any(finding.rule == "message" for finding in findings)


@pytest.mark.parametrize("case", LOST)
def test_what_git_am_loses_or_chokes_on_is_named(tmp_path: Path, case: str) -> None:
    assert taken_by_am(tmp_path, LOST[case]) == (False, True)


@pytest.mark.parametrize("case", KEPT)
def test_what_git_am_keeps_is_no_finding(tmp_path: Path, case: str) -> None:
    assert taken_by_am(tmp_path, KEPT[case]) == (True, False)


def test_the_words_say_what_is_lost(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    for number, case in enumerate(("a divider", "an author at the start", "a mail's first line", "a diff header")):
        fork.repo.commit(f"Step {number}", {"src/x.cpp": f"{number}\n"}, body=LOST[case])
    fork.export()
    assert [finding.message for finding in of(fork).findings if finding.rule == "message"] == [
        "git am treats `---` as the end of the message, and loses 2 lines",
        "git am treats `From: B Other <b@example.com>` at the start of a message as the author, and drops it",
        f"git am treats `From {SHA} Mon Sep 17 00:00:00 2001` as the start of the next mail, and fails",
        "git am treats `diff --git a/src/a.cpp b/src/a.cpp` as the end of the message, and may fail at it",
    ]


MESSAGES = [
    "Text.\n\nSwitch: X\nDefault: off",
    "Text.\n\nSwitch: X\n folded\nDefault : off",
    "Text.\n\nSwitch: X\nnot one\nDefault: off",
    "Text.\n\nSwitch: X\nnot one\nSigned-off-by: A <a@example.com>",
    "Switch: X",
    "Text: more text\nand more",
    "Text.\n\nSwitch: X\n\n",
    "Text.\n\nSwitch: X\n\nMore text.",
]


@pytest.mark.parametrize("body", MESSAGES)
def test_trailers_are_missed_where_git_finds_none(tmp_path: Path, body: str) -> None:
    fork = a_fork(tmp_path, 0)
    fork.repo.commit("A subject", {"src/x.cpp": "x\n"}, body=body)
    fork.export()
    message = run_git("log", "-1", "--format=%B", "product", cwd=fork.repo.path).stdout
    parsed = subprocess.run(
        ["git", "interpret-trailers", "--parse"],
        input=message,
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=hermetic_environment(),
    ).stdout.decode()
    keys = {line.partition(":")[0] for line in parsed.splitlines()}
    assert {trailer.key for trailer in parse_trailers(message.decode())} == keys
    missed = [finding.message for finding in of(fork, LintPolicy(trailers=("Switch",))).findings]
    assert missed == ([] if "Switch" in keys else ["the message has no trailer Switch"])
