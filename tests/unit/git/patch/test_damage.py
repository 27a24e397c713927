"""Damage to the text of a patch is reported with its line and cause, while git only says `corrupt`."""

from __future__ import annotations

import subprocess

import pytest

from patchstack.git.patch.damage import find_damage
from tests.support.builders import edited, mail
from tests.support.oracle import hermetic_environment

LONG = "the quick brown fox jumps over the lazy dog and runs into the wood"
GOOD = edited(
    "docs/notes.txt",
    f"@@ -1,4 +1,5 @@ f()\n one\n-two\n+{LONG}\n+zwei\n three\n\tfour\n".replace("\n\tfour", "\n \tfour"),
)


def told(data: bytes) -> list[str]:
    return [f"{damage.line}: {damage.what}" for damage in find_damage(data)]


def git_takes(data: bytes) -> bool:
    """Return whether `git apply` can read a patch, which need not apply."""
    ran = subprocess.run(
        ["git", "apply", "--numstat"], input=data, capture_output=True, env=hermetic_environment(), cwd="/"
    )
    return ran.returncode == 0


def test_a_patch_that_git_can_read_has_no_damage() -> None:
    for data in (GOOD, mail("Good", GOOD), GOOD + GOOD, GOOD + b"-- \n2.39.5\n\n"):
        assert git_takes(data)
        assert told(data) == []


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (
            GOOD.replace(b"dog and", b"dog\nand"),
            ["8: `and runs into the wood` belongs to the line above, which was wrapped"],
        ),
        (
            GOOD.replace(b"\n \tfour", b"\n\tfour").replace(b"\n three", b"\nthree"),
            [
                "9: `three` lost the blank that each line of context begins with",
                "10: `\\tfour` lost the blank that each line of context begins with",
            ],
        ),
        (
            GOOD.replace(b"+zwei\n", b""),
            [
                "4: the hunk has 4 old and 4 new lines, but @@ -1,4 +1,5 @@ counts 4 and 5: it was edited by hand; "
                "@@ -1,4 +1,4 @@ would be right (git apply --recount)"
            ],
        ),
        (
            GOOD.replace(b" \tfour\n", b""),
            [
                "4: the hunk has 3 old and 4 new lines, but @@ -1,4 +1,5 @@ counts 4 and 5: it was edited by hand, or "
                "lines at its end were lost; @@ -1,3 +1,4 @@ would be right (git apply --recount)"
            ],
        ),
        (
            GOOD[:-1],
            ["10: the file ends in the middle of this line: without a newline, or cut short"],
        ),
        (
            GOOD.replace(b"+zwei\n", b"=zwei\n+drei\n"),
            ["8: `=zwei` belongs to the line above, which was wrapped"],
        ),
        (
            GOOD.replace(b"+zwei\n", b"=zwei\n"),
            ["8: `=zwei` does not begin with a blank, + or - like a line of a hunk"],
        ),
        (
            GOOD.replace(b"+1,5", b"+1,4").replace(b"-1,4", b"-1,3"),
            ["10: ` \\tfour` is more than @@ -1,3 +1,4 @@ counts: git ignores it"],
        ),
        (
            mail("x", GOOD).replace(b"\nSubject", b"\nContent-Transfer-Encoding: quoted-printable\nSubject"),
            ["4: the mail is quoted-printable, which git am decodes and git apply does not"],
        ),
        (GOOD.replace(b"\n", b"\r\n"), ["1: its lines end in CRLF: sed -i 's/\\r$//' removes it"]),
    ],
    ids=["wrapped", "blanks", "count", "lost", "newline", "extra", "sign", "more", "encoded", "CRLF"],
)
def test_damage_is_named_by_line(data: bytes, damage: list[str]) -> None:
    assert told(data) == damage


def test_what_is_damaged_git_cannot_read() -> None:
    for broken in (
        GOOD.replace(b"dog and", b"dog\nand"),
        GOOD.replace(b"\n \tfour", b"\n\tfour"),
        GOOD.replace(b"+zwei\n", b""),
        GOOD[:-1],
    ):
        assert not git_takes(broken)
        assert told(broken)
