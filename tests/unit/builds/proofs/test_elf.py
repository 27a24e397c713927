"""Reading ELF files, complete or damaged."""

from __future__ import annotations

import builtins
import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from patchstack.builds.proofs.elf import DamagedElf, Elf, read_elf
from patchstack.errors import MissingError
from patchstack.installed import install_hint
from tests.support.compiled import AARCH64, compile_c, for_machine, library, program

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def header(*, machine: int = 62, kind: int = 2, sections: tuple[int, int] = (0, 0), step: int = 64) -> bytes:
    """Return a 64-bit little-endian ELF header; `sections` are offset and count of the section table."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return HEADER.pack(ident, kind, machine, 1, 0, 0, sections[0], 0, 64, 56, 0, step, sections[1], 0)


def read(path: Path) -> Elf:
    elf = read_elf(path)
    assert elf is not None
    return elf


@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",), ("-static",), ("-static-pie", "-fPIE")])
def test_a_program_is_one_however_it_is_linked(tmp_path: Path, flags: tuple[str, ...]) -> None:
    elf = read(compile_c(program(), tmp_path / "tool", *flags))
    assert (elf.program, elf.bits) == (True, 64)
    assert elf.sections is not None
    assert ".text" in elf.sections


def test_a_library_is_no_program(tmp_path: Path) -> None:
    assert not read(library(tmp_path / "liba.so")).program


@pytest.mark.parametrize("tag", ["--enable-new-dtags", "--disable-new-dtags"])
def test_the_search_path_is_read_from_rpath_and_runpath(tmp_path: Path, tag: str) -> None:
    path = compile_c(program(), tmp_path / "tool", f"-Wl,{tag}", "-Wl,-rpath,$ORIGIN/../lib:/opt/lib")
    assert read(path).search_path == ("$ORIGIN/../lib", "/opt/lib")


def test_a_program_without_search_path_has_none(tmp_path: Path) -> None:
    assert read(compile_c(program(), tmp_path / "tool")).search_path == ()


def test_another_machines_program_says_so(tmp_path: Path) -> None:
    assert read(for_machine(compile_c(program(), tmp_path / "tool"), AARCH64)).machine == "EM_AARCH64"


def test_a_machine_without_a_name_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(header(machine=4711))
    assert read(tmp_path / "tool").machine == "machine 4711"


def test_a_section_that_is_only_reserved_has_no_content(tmp_path: Path) -> None:
    path = compile_c("static char room[9999]; char *use(int i) { return room + i; } int main(void) {}", tmp_path / "t")
    sections = read(path).sections
    assert sections is not None
    assert ".bss" not in sections


def test_without_a_section_table_the_sections_are_not_known(tmp_path: Path) -> None:
    path = compile_c(program(), tmp_path / "tool", "-Wl,-rpath,/opt/lib")
    content = bytearray(path.read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff
    content[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    path.write_bytes(content)
    elf = read(path)
    assert elf.sections is None
    assert (elf.program, elf.search_path) == (True, ("/opt/lib",))


@pytest.mark.parametrize("content", [b"", b"\x7fEL", b"#!/bin/sh\n", b"!<arch>\n", bytes(1000)])
def test_other_files_are_no_elf(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert read_elf(tmp_path / "file") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF", "is not readable as ELF (ELFError)"),
        (b"\x7fELF\x02\x01\x01" + bytes(9), "is not readable as ELF (ELFParseError)"),
        (header(sections=(64, 9)), "is truncated: a header table is beyond its end"),
        (header(sections=(1 << 63, 9)), "is truncated: a header table is beyond its end"),
        (header(sections=(64, 1), step=4) + bytes(64), "has headers of 4 bytes"),
    ],
)
def test_a_damaged_file_is_named_by_its_damage(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DamagedElf) as caught:
        read_elf(tmp_path / "file")
    assert caught.value.message == words


def test_a_section_count_beyond_reason_is_refused_before_it_is_believed(tmp_path: Path) -> None:
    # e_shnum 0 says: the count is in sh_size of section 0.
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1 << 60, 0, 0, 0, 0)
    (tmp_path / "file").write_bytes(header(sections=(64, 0)) + first)
    with pytest.raises(DamagedElf, match="claims to have 1152921504606846976 headers in one table"):
        read_elf(tmp_path / "file")


def test_a_section_beyond_the_end_of_the_file_is_damage_though_the_table_is_there(tmp_path: Path) -> None:
    progbits = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 100, 4096, 0, 0, 1, 0)
    (tmp_path / "file").write_bytes(header(sections=(64, 1)) + progbits)
    with pytest.raises(DamagedElf, match=r"is truncated: a section is beyond its end"):
        read_elf(tmp_path / "file")


def test_a_truncated_program_is_damaged_wherever_it_ends(tmp_path: Path) -> None:
    whole = compile_c(program(), tmp_path / "tool").read_bytes()
    for length in range(4, len(whole), 97):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(DamagedElf):
            read_elf(tmp_path / "cut")


def test_no_damage_is_a_crash_or_takes_long(tmp_path: Path) -> None:
    whole = compile_c(program(), tmp_path / "tool", "-Wl,-rpath,$ORIGIN").read_bytes()
    dice = random.Random(4)
    table = int.from_bytes(whole[0x28:0x30], "little")
    damaged, slowest = 0, 0.0
    for _ in range(600):
        content = bytearray(whole)
        for _ in range(dice.randint(1, 6)):
            # In the header, the program headers, the section table, or anywhere.
            start, end = dice.choice([(4, 64), (64, 800), (table, len(whole)), (0, len(whole))])
            at = dice.randrange(start, end)
            content[at : at + 1] = dice.choice([b"\0", b"\xff", bytes([dice.randrange(256)])])
        (tmp_path / "damaged").write_bytes(content)
        before = time.monotonic()
        try:
            read_elf(tmp_path / "damaged")
        except DamagedElf:
            damaged += 1
        slowest = max(slowest, time.monotonic() - before)
    assert damaged > 100
    assert slowest < 5


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DamagedElf, match="cannot be read: No such file or directory"):
        read_elf(tmp_path / "none")


def test_without_pyelftools_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("elftools"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingError) as caught:
        read_elf(tmp_path / "tool")
    assert caught.value.render() == f"error: pyelftools is not installed\n\nhint: {install_hint('build')}"
