"""cuobjdump: where it is, and what it says of the device code in a file.

What it prints was read off versions 13.2 and 13.5 over files of nvcc 13.0, compressed and not; older ones name an entry
after the compiler's temporary file (`tmpxft_….sm_90.cubin`) where these name it after the file and a number.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from patchstack.errors import MissingError
from patchstack.machine.local.toolchain import ROOTS, find_cuda_tool
from patchstack.process import Finished, clean_environment, run

HINT = "patchstack doctor says how to get it"
"""No command: what is found here is recorded, and the record is read on other machines."""
TOOLKITS = ROOTS
"""Where CUDA toolkits are installed."""
_SECONDS = 600.0
_ELF_ENTRY = re.compile(r"^ELF file +\d+: (.*)$", re.MULTILINE)
_PTX_ENTRY = re.compile(r"^PTX file +\d+: (.*)$", re.MULTILINE)
_ARCHITECTURE = re.compile(r"\.sm_(\d+[af]?)\.\w+\s*\Z")
_NO_DEVICE_CODE = "does not contain device code"
_FP4_LINE = re.compile(rb"^arch = sm_(\w+)|^\s*/\*[0-9a-f]+\*/\s+.*\bOMMA\.\S*E2M1", re.MULTILINE)
# OMMA is the matrix instruction of consumer Blackwell and GB10; data centre Blackwell has FP4 in tcgen05 instead.
_FP4_ARCHITECTURE = re.compile(r"12[01][af]\Z")


class Disassembler(Protocol):
    """Runs cuobjdump with options over one file (its path on this machine), wherever cuobjdump is.

    Raises `MissingError` where it could not be run to its end.
    """

    def __call__(self, options: tuple[str, ...], file: Path) -> Finished: ...


class Undumped(MissingError):
    """cuobjdump could not say what is in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuobjdump:
    """The cuobjdump of this machine, and the nvdisasm that it needs to disassemble (None: there is none)."""

    program: Path
    nvdisasm: Path | None

    def __call__(self, options: tuple[str, ...], file: Path) -> Finished:
        environment = clean_environment()
        folders = [str(program.parent) for program in (self.nvdisasm, self.program) if program is not None]
        environment["PATH"] = os.pathsep.join([*folders, environment.get("PATH", os.defpath)])
        return run([str(self.program), *options, str(file.absolute())], env=environment, timeout=_SECONDS)


def find_cuobjdump() -> Cuobjdump | None:
    """The cuobjdump of this machine, where `find_cuda_tool` finds one; None where there is none."""
    program = find_cuda_tool("cuobjdump", os.environ, TOOLKITS)
    if program is None:
        return None
    beside = program.path.with_name("nvdisasm")
    if beside.is_file():
        return Cuobjdump(program=program.path, nvdisasm=beside)
    nvdisasm = find_cuda_tool("nvdisasm", os.environ, TOOLKITS)
    return Cuobjdump(program=program.path, nvdisasm=nvdisasm.path if nvdisasm is not None else None)


def machine_code(disassembler: Disassembler, file: Path) -> tuple[str, ...]:
    """The architectures (`121a`) that a file has machine code for, one an entry, relocatable device code included.
    Raises `Undumped`."""
    found = []
    for entry in _ELF_ENTRY.findall(_ask(disassembler, ("-all", "--list-elf"), file)):
        match = _ARCHITECTURE.search(entry)
        if match is None:
            raise Undumped(f"cuobjdump lists {entry.strip()}, and for which architecture that is cannot be told")
        found.append(match.group(1))
    return tuple(found)


def ptx(disassembler: Disassembler, file: Path) -> tuple[str, ...]:
    """The architectures (`sm_90`, or the whole entry where it names none) that a file has PTX for, relocatable device
    code included. Raises `Undumped`."""
    entries = _PTX_ENTRY.findall(_ask(disassembler, ("-all", "--list-ptx"), file))
    return tuple(f"sm_{match[1]}" if (match := _ARCHITECTURE.search(entry)) else entry.strip() for entry in entries)


def has_fp4_instructions(architecture: str) -> bool:
    """Whether FP4 matrix products are OMMA instructions there (`120a`, `121a` and their families)."""
    return _FP4_ARCHITECTURE.match(architecture) is not None


def fp4_instructions(disassembler: Disassembler, file: Path) -> dict[str, int]:
    """How many OMMA instructions over E2M1 a file has, by architecture (`121a`). Raises `Undumped`."""
    return count_fp4(_ask(disassembler, ("-sass",), file).encode())


def count_fp4(sass: bytes) -> dict[str, int]:
    """The OMMA instructions over E2M1 in what `cuobjdump -sass` printed, by architecture."""
    counts: dict[str, int] = {}
    current = ""
    for match in _FP4_LINE.finditer(sass):
        if match[1] is not None:
            current = match[1].decode()
        else:
            counts[current] = counts.get(current, 0) + 1
    return counts


def _ask(disassembler: Disassembler, options: tuple[str, ...], file: Path) -> str:
    """What cuobjdump prints; nothing where it says that there is no device code."""
    if not file.name.isprintable():
        # Entries are named after their file, so such a name could write lines of its own.
        raise Undumped("has a name that does not print")
    finished = disassembler(options, file)
    told = finished.stdout.decode("utf-8", "replace")
    complaint = finished.complaint or told.strip()
    if finished.ok:
        return told
    if _NO_DEVICE_CODE in complaint:
        return ""
    if "nvdisasm" in complaint:
        raise Undumped("cuobjdump finds no nvdisasm", hint=HINT)
    last = (complaint.splitlines() or [""])[-1].strip()
    raise Undumped(f"cuobjdump {options[-1]} failed (exit {finished.code}){f': {last}' if last else ''}")
