"""Invalid and hostile patches: canary gives each a state, and the others keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import edited, mail, new_file, new_link, write_series
from tests.support.moving import kernel, look, moved, told_by_git

ODD = {
    "empty": (b"", "malformed"),
    "no diff": (b"Subject: [PATCH] words\n\nonly words\n", "malformed"),
    "cut short": (mail("Cut", edited("src/kernel.cu", "@@ -1,3 +1,3 @@\n line 1\n")), "malformed"),
    "out of the tree": (mail("Out", new_file("../out")), "unsafe"),
    "into .git": (mail("Git", new_file(".git/hooks/post-checkout")), "unsafe"),
    "bytes that are not text": (b"\xff\xfe\0\0" * 30, "malformed"),
    "context-free": (mail("Bare", edited("src/kernel.cu", "@@ -10,0 +11 @@\n+x\n")), "offset"),
    "a link": (mail("Link", new_link("to", "/etc/passwd")), "clean"),
    "a file below a file": (mail("Below", new_file("README/below")), "conflict"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_patch_between_others_gets_its_state(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    data, strict = ODD[name]
    fork = moved(tmp_path, None, ("Ten (#1)", kernel(l10="u")), ("Notes", {"docs/notes.txt": "x\n"}))
    write_series(fork.series, {"0001-z-odd.patch": data})
    fork.patch(1).unlink()
    found = look(fork, run_cli, "--strict", "--blame", "--forecast")
    odd, *others = found["patches"]
    assert odd["file"] == "0001-z-odd.patch"
    assert odd["strict"] == strict, odd
    failed = [failed for _, failed in told_by_git(fork, tmp_path)]
    assert (odd["strict"] not in ("clean", "offset")) is (odd["file"] in failed[-1])
    assert [(one["state"], one["first_broken"]) for one in others] == [("clean", None)] * 2
    assert odd["first_broken"] is None or odd["first_broken"]["index"] == 0


def test_names_with_quotes_and_blanks_are_followed(tmp_path: Path, run_cli: RunCli) -> None:
    odd = 'src/a "b" ü.txt'
    fork = moved(
        tmp_path,
        (("Odd name", {odd: "one\ntwo\nthree\nfour\npatch\n"}),),
        ("Theirs (#2)", {odd: "one\ntwo\nthree\nfour\nupstream\n"}),
        files={odd: "one\ntwo\nthree\nfour\nfive\n", "README": "x\n"},
    )
    (patch,) = look(fork, run_cli, "--strict", "--blame")["patches"]
    assert (patch["state"], patch["first_broken"]["pr"]) == ("conflict", 2)
