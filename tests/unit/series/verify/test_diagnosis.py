"""Explanations of verify for a patch that git refuses: needed fuzz, damage, white space, missing context."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.conftest import Ran, RunCli
from tests.support.builders import a_fork, edited, write_series

WHERE = "src/kernel.cu"


@pytest.fixture
def verify(tmp_path: Path, run_cli: RunCli) -> object:
    fork = a_fork(tmp_path, 1)

    def run(data: bytes, *options: str) -> Ran:
        directory = write_series(tmp_path / "s", {"0001-x.patch": data})
        return run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only", *options)

    return run


def hunk(first: int, lines: str) -> bytes:
    count = len(lines.splitlines())
    return edited(WHERE, f"@@ -{first},{count - 1} +{first},{count - 1} @@\n{lines}")


CHANGE = " line 8\n line 9\n line 10\n-line 11\n+LINE 11\n line 12\n line 13\n line 14\n"


def test_a_patch_that_needs_fuzz_says_how_much_where_and_the_command(verify: object, tmp_path: Path) -> None:
    assert callable(verify)
    ran = verify(hunk(8, CHANGE.replace("line 8", "line eight")))
    assert ran.code == 1
    assert (
        "    src/kernel.cu: hunk 1 (@@ -8,7 +8,7 @@): expected `line eight` at line 8, found `line 8`; "
        "hunk 1 applies with fuzz 1 at line 8: refresh it\n"
    ) in ran.stdout
    words = shlex.split(ran.stderr.partition("refreshed copies: ")[2])
    assert ran.stderr.startswith("warning: 0001-x.patch needs fuzz, which git apply does not do; refreshed copies: ")
    assert words[:4] == ["patchstack", "refresh", "--patches", str(tmp_path / "s")]
    assert words[-1] == f"{tmp_path / 's'}-refreshed"


def test_more_fuzz_than_quilt_takes_is_a_conflict_alone(verify: object) -> None:
    assert callable(verify)
    ran = verify(hunk(8, CHANGE.replace("line 10", "line ten")))
    assert ran.code == 1
    assert "fuzz" not in ran.told


def test_white_space_alone_is_told(verify: object) -> None:
    assert callable(verify)
    ran = verify(hunk(8, CHANGE.replace("line 10", "line\t10").replace("line 12", "line  12")))
    assert (
        "; it differs from the file in whitespace only: was one of them re-indented, or tabs replaced by spaces?\n"
        in ran.stdout
    )


def test_a_diff_without_context_is_told_the_cure(verify: object) -> None:
    assert callable(verify)
    ran = verify(edited(WHERE, "@@ -11 +11 @@\n-line 11\n+LINE 11\n"))
    assert ran.code == 1
    assert (
        "the diff has no context (-U0), so no tool can tell where its lines belong: make it again with git diff -U3, "
        "or as an anchored patch\n"
    ) in ran.stdout


def test_a_corrupt_hunk_is_told_with_its_line(verify: object) -> None:
    assert callable(verify)
    data = hunk(8, CHANGE).replace(b" line 9\n", b"line 9\n")
    ran = verify(data)
    assert ran.code == 1
    assert "line 6: `line 9` lost the blank that each line of context begins with" in ran.stdout
    problem = verify(data, "--json").document["patches"][0]["problems"][0]
    assert problem["line"] == 6


def test_a_plain_diff_that_needs_fuzz_is_told_as_well(verify: object) -> None:
    assert callable(verify)
    data = hunk(8, CHANGE.replace("line 8", "line eight")).partition(b"\n")[2]
    assert "hunk 1 applies with fuzz 1 at line 8: refresh it" in verify(data).stdout
