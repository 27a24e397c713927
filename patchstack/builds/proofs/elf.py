"""Read an ELF file: machine, kind, sections with content, library search path, and needed libraries.

The file is untrusted, because it comes from a build. Reads are limited, and every problem raises `DamagedElf`.
pyelftools reads the headers. This module reads the tables of names and tags, because pyelftools reads strings without a
limit.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchstack.causes import PackageMissing
from patchstack.errors import NotHeldError
from patchstack.installed import install_hint

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_MAGIC = b"\x7fELF"
# The kernel allows up to 64 KiB of program headers. The largest CUDA objects have about 10,000 sections.
_MOST_SEGMENTS = 4096
_MOST_SECTIONS = 1 << 16
_MOST_NAMES = 16 << 20
_MOST_TAGS = 1 << 20
_LONGEST_STRING = 64 << 10
_MOST_LIBRARIES = 4096
_BUILD_ID = ".note.gnu.build-id"
# Tags of the dynamic section (System V ABI, chapter 5; DT_FLAGS_1 and its DF_1_PIE are Solaris' and glibc's).
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH, _DT_FLAGS_1 = 0, 1, 5, 15, 29, 0x6FFFFFFB
_DF_1_PIE = 0x08000000


class DamagedElf(NotHeldError):
    """A file begins like an ELF file, but is damaged or cannot be read."""

    code = "PS0608"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """An ELF file.

    `machine` is the name in the ABI (`EM_X86_64`), or `machine 4711` for a number without a name. `bits` is 32 or 64.
    `program` is true for a file that can be started, and false for a library. `sections` are the names of the sections
    that have content, or None if the section table was removed (`strip --strip-section-headers`). `search_path`
    contains the entries of RPATH and RUNPATH, as written. `needed` are the names of the libraries that the file
    needs. `build_id` is the offset and length of the linker's build id in the file, in bytes, or None if the file has
    no build id.
    """

    machine: str
    bits: int
    program: bool
    sections: frozenset[str] | None
    search_path: tuple[str, ...]
    needed: tuple[str, ...] = ()
    build_id: tuple[int, int] | None = None


def read_elf(path: Path) -> Elf | None:
    """Return the headers of a file. Return None for a file that is not ELF.

    Raises `DamagedElf` for a damaged file. The message describes the problem, but does not name the file. Raises
    `MissingError` if pyelftools is not installed.
    """
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise PackageMissing("pyelftools is not installed", hint=install_hint("build")) from error
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            return _facts(ELFFile(file), os.fstat(file.fileno()).st_size)
    except DamagedElf:
        raise
    except OSError as error:
        raise DamagedElf(f"cannot be read: {error.strerror}") from error
    except Exception as error:  # pyelftools raises any exception for damaged files, from KeyError to AssertionError
        raise DamagedElf(f"is not readable as ELF ({type(error).__name__})") from error


def _facts(elf: ELFFile, size: int) -> Elf:
    machine, kind = elf["e_machine"], elf["e_type"]
    headers = _section_headers(elf, size)
    names = _section_names(elf, headers)
    segments = _segments(elf, size)
    search_path, needed, flags = _dynamic(elf, segments, size)
    interpreted = any(segment["p_type"] == "PT_INTERP" for segment in segments)
    return Elf(
        machine=machine if isinstance(machine, str) else f"machine {machine}",
        bits=elf.elfclass,
        # A position-independent program has a library's type, but it has an interpreter or the PIE flag (static-pie).
        program=kind == "ET_EXEC" or (kind == "ET_DYN" and (interpreted or bool(flags & _DF_1_PIE))),
        sections=frozenset(name for name, header in names if header["sh_size"]) if headers else None,
        search_path=search_path,
        needed=needed,
        build_id=next(((header["sh_offset"], header["sh_size"]) for name, header in names if name == _BUILD_ID), None),
    )


def _section_headers(elf: ELFFile, size: int) -> list[Any]:
    count = elf.num_sections()
    if not count:
        return []
    headers = _table(elf, elf.structs.Elf_Shdr, elf["e_shoff"], elf["e_shentsize"], count, _MOST_SECTIONS, size)
    for header in headers:
        if header["sh_type"] not in ("SHT_NULL", "SHT_NOBITS"):
            _within(header["sh_offset"], header["sh_size"], size, "a section")
    return headers


def _section_names(elf: ELFFile, headers: list[Any]) -> list[tuple[str, Any]]:
    """Return the sections that have content in the file, each with its name."""
    if not headers:
        return []
    index = elf.get_shstrndx()
    if index >= len(headers):
        raise DamagedElf("has no table of section names")
    names = _read(elf, headers[index]["sh_offset"], min(headers[index]["sh_size"], _MOST_NAMES))
    return [
        (_string(names, header["sh_name"]), header)
        for header in headers
        if header["sh_type"] not in ("SHT_NULL", "SHT_NOBITS")
    ]


def _segments(elf: ELFFile, size: int) -> list[Any]:
    count = elf.num_segments()
    if not count:
        return []
    segments = _table(elf, elf.structs.Elf_Phdr, elf["e_phoff"], elf["e_phentsize"], count, _MOST_SEGMENTS, size)
    for segment in segments:
        _within(segment["p_offset"], segment["p_filesz"], size, "a segment")
    return segments


def _dynamic(elf: ELFFile, segments: list[Any], size: int) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return the entries of RPATH and RUNPATH, the libraries of NEEDED, and DT_FLAGS_1."""
    layout = struct.Struct(("<" if elf.little_endian else ">") + ("QQ" if elf.elfclass == 64 else "II"))
    strings, paths, libraries, flags = None, [], [], 0
    for segment in segments:
        if segment["p_type"] != "PT_DYNAMIC":
            continue
        content = _read(elf, segment["p_offset"], min(segment["p_filesz"], _MOST_TAGS))
        for tag, value in layout.iter_unpack(content[: len(content) // layout.size * layout.size]):
            if tag == _DT_NULL:
                break
            if tag == _DT_STRTAB:
                strings = value
            elif tag in (_DT_RPATH, _DT_RUNPATH):
                paths.append(value)
            elif tag == _DT_NEEDED:
                libraries.append(value)
            elif tag == _DT_FLAGS_1:
                flags = value
    if not paths and not libraries:
        return (), (), flags
    base = _file_offset(segments, strings)

    def string(at: int) -> str:
        return _string(_read(elf, base + at, min(_LONGEST_STRING, max(size - base - at, 0))), 0)

    found = tuple(entry for at in paths for entry in string(at).split(":"))
    return found, tuple(map(string, libraries[:_MOST_LIBRARIES])), flags


def _file_offset(segments: list[Any], address: int | None) -> int:
    """Convert a virtual address to an offset in the file. Raises `DamagedElf` if no segment contains the address."""
    for segment in segments:
        if address is not None and segment["p_type"] == "PT_LOAD":
            within = address - segment["p_vaddr"]
            if 0 <= within < segment["p_filesz"]:
                return int(segment["p_offset"] + within)
    raise DamagedElf("has a library search path outside of its segments")


def _table(elf: ELFFile, layout: Any, offset: int, step: int, count: int, most: int, size: int) -> list[Any]:
    from elftools.common.utils import struct_parse

    if count > most:
        raise DamagedElf(f"claims to have {count} headers in one table")
    if step < layout.sizeof():
        raise DamagedElf(f"has headers of {step} bytes")
    _within(offset, count * step, size, "a header table")
    return [struct_parse(layout, elf.stream, offset + step * index) for index in range(count)]


def _within(offset: int, length: int, size: int, what: str) -> None:
    if offset + length > size:
        raise DamagedElf(f"is truncated: {what} is beyond its end")


def _read(elf: ELFFile, offset: int, length: int) -> bytes:
    elf.stream.seek(offset)
    return elf.stream.read(length)


def _string(table: bytes, offset: int) -> str:
    """Return the string at an offset of a table.

    The string ends at a NUL byte, at the length limit, or at the end of the table.
    """
    end = table.find(b"\0", offset, offset + _LONGEST_STRING)
    return table[offset : end if end >= 0 else offset + _LONGEST_STRING].decode("utf-8", "surrogateescape")
