"""The contents of a build's `bin`, and the search through it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from patchstack.builds.proofs.files import search, survey
from patchstack.builds.proofs.prove import BIN, binaries
from patchstack.errors import MissingError
from tests.support.compiled import compile_c, library, program

BLOCK = 4 << 20


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    (tmp_path / BIN).mkdir()
    return tmp_path / BIN


def test_binaries_are_the_regular_files_with_size_and_digest(tmp_path: Path, bin_: Path) -> None:
    (bin_ / "b").write_bytes(b"second")
    (bin_ / "plugins").mkdir()
    (bin_ / "plugins/a").write_bytes(b"first")
    (bin_ / "link").symlink_to("b")
    found = [(each.name, each.size, each.sha256) for each in binaries(tmp_path)]
    assert found == [
        ("b", 6, hashlib.sha256(b"second").hexdigest()),
        ("plugins/a", 5, hashlib.sha256(b"first").hexdigest()),
    ]


def test_a_build_that_left_no_directory_has_no_binaries(tmp_path: Path) -> None:
    assert binaries(tmp_path) == ()
    assert survey(tmp_path).files == ()


def test_links_are_names_of_the_files_they_lead_to(tmp_path: Path, bin_: Path) -> None:
    library(bin_ / "liba.so.0.1")
    (bin_ / "liba.so.0").symlink_to("liba.so.0.1")
    (bin_ / "liba.so").symlink_to("liba.so.0")
    found = survey(tmp_path)
    assert [file.name for file in found.files] == ["liba.so.0.1"]
    assert found.links == {"liba.so": "liba.so.0.1", "liba.so.0": "liba.so.0.1"}
    assert found.named("liba.so") == found.files[0]
    assert found.problems == ()


def test_what_leads_out_of_the_build_or_nowhere_is_a_problem(tmp_path: Path, bin_: Path) -> None:
    (tmp_path / "outside").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    (bin_ / "round").symlink_to("about")
    (bin_ / "about").symlink_to("round")
    (bin_ / "none").symlink_to("nothing")
    (bin_ / "out").symlink_to("../outside")
    (bin_ / "passwd").symlink_to("/etc/passwd")
    (bin_ / "dir").symlink_to("../folder")
    os.mkfifo(bin_ / "pipe")
    found = survey(tmp_path)
    leads_nowhere = "is a link that leads to no file of the build"
    assert found.problems == (
        *(f"{name} {leads_nowhere}" for name in ("about", "dir", "none", "out", "passwd")),
        "pipe is not a file",
        f"round {leads_nowhere}",
    )
    assert found.files == ()
    assert binaries(tmp_path) == ()


def test_damage_is_kept_with_its_file(tmp_path: Path, bin_: Path) -> None:
    whole = compile_c(program(), bin_ / "tool").read_bytes()
    (bin_ / "tool").write_bytes(whole[:1000])
    (file,) = survey(tmp_path).files
    assert file.elf is None
    assert file.damage == "is truncated: a header table is beyond its end"


@pytest.mark.parametrize("at", [0, 100, BLOCK - 1, BLOCK - 5, BLOCK, 2 * BLOCK - 3, 3 * BLOCK - 7])
def test_a_needle_is_found_wherever_the_blocks_end(tmp_path: Path, at: int) -> None:
    content = bytearray(3 * BLOCK)
    content[at : at + 7] = b"/needle"
    (tmp_path / "file").write_bytes(content)
    found = search(tmp_path / "file", [b"/needle", b"/absent", b"/needle/longer"])
    assert {needle: hit.offset for needle, hit in found.items()} == {b"/needle": at}


def test_of_several_places_the_first_is_told_with_the_text_around_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\x01see /build/src/a.cpp:7\x02 and /build/src again")
    (hit,) = search(tmp_path / "file", [b"/build/src"]).values()
    assert (hit.offset, hit.context) == (6, "see /build/src/a.cpp:7")


def test_several_needles_are_each_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab" + bytes(BLOCK) + b"cd")
    found = search(tmp_path / "file", [b"cd", b"ab", b"", b"cd"])
    assert {needle: hit.offset for needle, hit in found.items()} == {b"ab": 0, b"cd": BLOCK + 2}


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert search(tmp_path / "file", [b"x"]) == {}


def test_a_file_that_went_away_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"file cannot be read: No such file or directory"):
        search(tmp_path / "file", [b"x"])
