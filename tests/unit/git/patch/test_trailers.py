"""Trailers of a patch's message, found as git finds them."""

from __future__ import annotations

import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from patchstack.git.patch import trailers
from patchstack.git.patch.trailers import GATES, SWITCH, UPSTREAM, parse_trailers, read_message
from tests.support.builders import RepoBuilder, format_patch
from tests.support.oracle import hermetic_environment

MESSAGES = [
    "Subject\n\nSwitch: LLAMA_KV_PAGED\nDefault: off\n",
    "Subject\n\nA body.\n\nSwitch: a\nGates: x, y\n  z\nUpstream: none\n",
    "Switch: a title is no trailer\n",
    "Subject\n\nSwitch: a\nnot one\n",
    "Subject\n\nSigned-off-by: A <a@example.com>\nnot one\nnor this\n",
    "Subject\n\nSigned-off-by: A <a@example.com>\nno\nno\nno\nno\n",
    "Subject\n\n(cherry picked from commit 0000)\nfree text\nSwitch : blank before the colon\n",
    "Subject\n\nSwitch: a\n\n\n# comment\n\n",
    "Subject\n\nSwitch: a\nConflicts:\n\tfile\n",
    "Subject\n\nSwitch: a\n---\nBelow: the line\n",
    "Subject\n\nSwitch: a\n   \n",
    "Subject\n\n  folded: not\nSwitch: a\n",
    "Subject\n\nSwitch:\nDefault:   \n",
    "Subject\n\nUpstream: https://example.com/1: two\n",
    "Subject\n\nSwitch: a\n# ------------------------ >8 ------------------------\nDefault: cut\n",
    "Subject\nsecond line\n\nSwitch: a\n",
    "Subject\n\nGröße: no\nSwitch: a\n",
    "\n\nSwitch: a\n",
]

LINES = st.sampled_from(
    [
        *("Subject", "text", "", "", "  ", "Switch: a", "Gate: b", "Signed-off-by: A <a>", "# note", "  goes on"),
        *(
            "\tpath",
            "Conflicts:",
            "---",
            "--- x",
            "---x",
            "Key : v",
            "Two words: v",
            ": v",
            "a:b",
            "(cherry picked from commit x",
        ),
        *("=: v", "Empty:", "-: dash", "# ------------------------ >8 ------------------------"),
    ]
)


def by_git(message: str, directory: Path) -> list[str]:
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"],
        input=message.encode(),
        cwd=directory,
        env=hermetic_environment(),
        capture_output=True,
        check=True,
        timeout=5,
    )
    return done.stdout.decode().splitlines()


def by_us(message: str) -> list[str]:
    return [f"{trailer.key}: {trailer.value}" for trailer in parse_trailers(message)]


@pytest.mark.parametrize("message", MESSAGES)
def test_trailers_are_those_git_finds(message: str, tmp_path: Path) -> None:
    assert by_us(message) == by_git(message, tmp_path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=12))
def test_trailers_of_any_message_are_those_git_finds(lines: list[str], tmp_path: Path) -> None:
    # git 2.39 never ends on a scissors line below `---` (it looks for it after the end of the message).
    below = lines[next((i for i, line in enumerate(lines) if line.startswith("---")), len(lines)) :]
    assume(not any(">8" in line for line in below))
    message = "\n".join(lines) + "\n"
    assert by_us(message) == by_git(message, tmp_path)


def test_the_mail_git_writes_gives_author_body_and_trailers(tmp_path: Path) -> None:
    repo = RepoBuilder(tmp_path / "repo")
    pin = repo.commit("Begin", {"a": "a\n"})
    body = "Why: it was slow.\nÜmläut.\n\nSwitch: LLAMA_KV_PAGED\nGates: ops, transcript\nGate: kl\nUpstream: none"
    repo.commit("Größer", {"a": "b\n"}, body=body)
    message = read_message(format_patch(repo, pin, "main", tmp_path / "patches")[0].read_bytes())
    assert message.author == "A U Thor <author@example.com>"
    assert message.date is not None
    assert message.subject == "Größer"
    assert message.body == body
    found = message.metadata()
    assert found[SWITCH] == ("LLAMA_KV_PAGED",)
    assert found[GATES] == ("ops", "transcript", "kl")
    assert found[UPSTREAM] == ("none",)


def test_encoded_words_raw_utf_8_and_transfer_encodings_are_read() -> None:
    head = b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
    encoded = (
        head + b"From: =?UTF-8?q?J=C3=BCrgen?= <j@example.com>\nSubject: [PATCH] x\nContent-Transfer-Encoding: base64\n"
    )
    encoded += b"Content-Type: text/plain; charset=UTF-8\n\nU3dpdGNoOiBh\n"
    assert read_message(encoded).author == "Jürgen <j@example.com>"
    assert read_message(encoded).metadata() == {SWITCH: ("a",)}
    raw = read_message("From: Jürgen <j@example.com>\nSubject: x\n\nb\n---\n a | 1 +\n".encode())
    assert (raw.author, raw.body) == ("Jürgen <j@example.com>", "b")


def test_a_patch_without_a_mail_head_has_no_message() -> None:
    message = read_message(b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n")
    assert (message.author, message.date, message.subject, message.trailers) == (None, None, "", ())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(b"From ", b"Subject: x\n", b"\n", b"From: =?utf-8?b?\xff?=\n", b" folded\n", b"Date: \xe4\n"),
                *(b"Content-Type: multipart/x; boundary=y\n", b"--y\n", b"Content-Transfer-Encoding: base64\n"),
                *(b"Content-Type: text/plain; charset=no*''such\n", b"\xff\0:\n", b"begin 6\n", b"A: b\n"),
                b"Content-Transfer-Encoding: x-uuencode\n",
            ]
        )
    )
)
def test_no_head_is_too_odd_to_read(parts: list[bytes]) -> None:
    read_message(b"".join(parts)).metadata()


_MAIL_PARTS = st.sampled_from(
    [
        *(
            b"From: A <a@example.com>",
            b"Subject: x",
            b"Subject: =?utf-8?q?=C3=A4?=",
            b" folded",
            b"no header",
            b": odd",
        ),
        *(b"Content-Type: text/plain; charset=utf-8", b"Content-Type: text/plain; charset=latin-1"),
        *(b"Content-Transfer-Encoding: quoted-printable", b"Content-Transfer-Encoding: base64", b"From x"),
        *(b"", b"", b"text", b"c3=C3=A4", b"\xc3\xa4", b"YQ==", b"Switch: X", b"---", b"\t", b"\x0c"),
    ]
)


@given(
    st.lists(st.tuples(_MAIL_PARTS, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"])), max_size=12),
    st.booleans(),
)
@example([(b"From x", b"\n"), (b"", b"\r")], True)
def test_a_long_mail_is_read_like_a_short_one(lines: list[tuple[bytes, bytes]], subject: bool) -> None:
    mail = (b"Subject: y\n" if subject else b"") + b"".join(text + end for text, end in lines)
    expected = read_message(mail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trailers, "_LONG", -1)
        assert read_message(mail) == expected


def test_a_long_message_costs_no_more_than_its_length() -> None:
    mail = b"Subject: x\n\n" + b"a line\n" * 300_000 + b"\nSwitch: LAST\n"
    tracemalloc.start()
    try:
        message = read_message(mail)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(mail)
    finally:
        tracemalloc.stop()
    assert message.trailers[0].value == "LAST"
