"""A patch whose lines have moved on the newer upstream has the state offset, whatever else it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Changes, File, executable, numbered, symlink
from tests.support.moving import Steps, kernel, look, moved

TEXT = numbered(60, {30: "patched"})
ODD: dict[str, tuple[Changes, Changes]] = {
    "a mode": ({"a.c": numbered(60)}, {"a.c": executable(TEXT)}),
    "a rename": ({"a.c": numbered(60)}, {"a.c": None, "b.c": TEXT}),
    "a link beside it": ({"a.c": numbered(60)}, {"a.c": TEXT, "link": symlink("a.c")}),
    "a binary file beside it": ({"a.c": numbered(60)}, {"a.c": TEXT, "data.bin": File(b"\0\1\2")}),
    "a file that makes room for a directory": (
        {"a.c": numbered(60), "d": "x\n"},
        {"a.c": TEXT, "d": None, "d/e": "y\n"},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_offset_is_told_beside_other_changes(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    files, step = ODD[name]
    fork = moved(tmp_path, (("Patch", step),), ("Top", {"a.c": "new\nnew\n" + numbered(60)}), files=files)
    for path in fork.series.iterdir():
        path.unlink()
    fork.repo.git("format-patch", "-q", "--binary", "-M", "-o", fork.series, f"{fork.pin}..product")
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["strict"]) == ("offset", "offset"), patch
    assert patch["detail"] == "its lines are 2 lines further down"


def test_hunks_that_moved_in_both_directions_are_an_offset(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (("Two places", kernel(l50="one", l250="two")),)
    text = numbered(300).splitlines(keepends=True)
    fork = moved(tmp_path, steps, ("Move", {"src/kernel.cu": "".join([*text[20:150], *text[:20], *text[150:]])}))
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["detail"]) == ("offset", "its lines are 20 lines further up")


def test_a_patch_that_is_an_offset_at_the_pin_already_is_one(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, (("One", kernel(l50="one")),), ("Other", {"src/other.cpp": "x\n"}))
    data = fork.patch(1).read_bytes().replace(b"@@ -47,7 +47,7 @@", b"@@ -40,7 +40,7 @@")
    fork.patch(1).write_bytes(data)
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["detail"]) == ("offset", "its lines are 7 lines further down")


def test_a_patch_where_it_says_is_no_offset(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, (("One", kernel(l50="one")),), ("Other", {"src/other.cpp": "x\n"}))
    assert look(fork, run_cli)["patches"][0]["state"] == "clean"
