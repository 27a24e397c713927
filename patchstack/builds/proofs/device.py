"""Proofs `cuda-arch`, `cuda-ptx` and `fp4`: check with cuobjdump that a build has the requested device code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from patchstack.builds.proofs.claim import Claim, Proof, listed, plain
from patchstack.builds.proofs.files import OBJECTS, Built, Survey
from patchstack.errors import MissingError
from patchstack.machine.local.toolchain import ROOTS, find_cuda_tool
from patchstack.process import Finished, clean_environment, run
from patchstack.verdict import Verdict

HINT = "patchstack doctor says how to get it"
"""The hint names no command for a particular machine, because proofs are recorded and read on other machines."""
TOOLKITS = ROOTS
"""The directories in which CUDA toolkits are installed."""
_SECONDS = 600.0
_ELF_ENTRY = re.compile(r"^ELF file +\d+: (.*)$", re.MULTILINE)
_PTX_ENTRY = re.compile(r"^PTX file +\d+: (.*)$", re.MULTILINE)
_ARCHITECTURE = re.compile(r"\.sm_(\d+[af]?)\.\w+\s*\Z")
_NO_DEVICE_CODE = "does not contain device code"
_FP4_LINE = re.compile(rb"^arch = sm_(\w+)|^\s*/\*[0-9a-f]+\*/\s+.*\bOMMA\.\S*E2M1", re.MULTILINE)
# OMMA is the matrix instruction of consumer Blackwell and GB10. Data center Blackwell uses tcgen05 for FP4.
_FP4_ARCHITECTURE = re.compile(r"12[01][af]\Z")


class Disassembler(Protocol):
    """Runs cuobjdump with options on one file.

    The program may run on a different machine, but `file` is a path on this machine. Raises `MissingError` if cuobjdump
    cannot be run, or is stopped before it ends.
    """

    def __call__(self, options: tuple[str, ...], file: Path) -> Finished: ...


class Undumped(MissingError):
    """cuobjdump could not read a file."""

    code = "PS0609"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuobjdump:
    """cuobjdump on this machine.

    `nvdisasm` is the path of the program that cuobjdump needs for disassembly, or None if it is not found.
    """

    program: Path
    nvdisasm: Path | None

    def __call__(self, options: tuple[str, ...], file: Path) -> Finished:
        environment = clean_environment()
        folders = [str(program.parent) for program in (self.nvdisasm, self.program) if program is not None]
        environment["PATH"] = os.pathsep.join([*folders, environment.get("PATH", os.defpath)])
        return run([str(self.program), *options, str(file.absolute())], env=environment, timeout=_SECONDS)


def find_cuobjdump() -> Cuobjdump | None:
    """Return cuobjdump of this machine, found by `find_cuda_tool`. Return None if it is not found."""
    program = find_cuda_tool("cuobjdump", os.environ, TOOLKITS)
    if program is None:
        return None
    beside = program.path.with_name("nvdisasm")
    if beside.is_file():
        return Cuobjdump(program=program.path, nvdisasm=beside)
    nvdisasm = find_cuda_tool("nvdisasm", os.environ, TOOLKITS)
    return Cuobjdump(program=program.path, nvdisasm=nvdisasm.path if nvdisasm is not None else None)


def machine_code(disassembler: Disassembler, file: Path) -> tuple[str, ...]:
    """Return the architecture (`121a`) of each machine code entry in a file.

    Relocatable device code is included. Raises `Undumped` if cuobjdump cannot read the file.
    """
    found = []
    for entry in _ELF_ENTRY.findall(_ask(disassembler, ("-all", "--list-elf"), file)):
        match = _ARCHITECTURE.search(entry)
        if match is None:
            raise Undumped(f"cuobjdump lists {entry.strip()}, which has an unknown architecture")
        found.append(match.group(1))
    return tuple(found)


def ptx(disassembler: Disassembler, file: Path) -> tuple[str, ...]:
    """Return the architecture (`sm_90`) of each PTX entry in a file.

    An entry that names no architecture is returned unchanged. Relocatable device code is included. Raises `Undumped` if
    cuobjdump cannot read the file.
    """
    entries = _PTX_ENTRY.findall(_ask(disassembler, ("-all", "--list-ptx"), file))
    return tuple(f"sm_{match[1]}" if (match := _ARCHITECTURE.search(entry)) else entry.strip() for entry in entries)


def has_fp4_instructions(architecture: str) -> bool:
    """Return whether an architecture has OMMA instructions for FP4 matrix products.

    Such architectures are `120a`, `121a` and their family variants.
    """
    return _FP4_ARCHITECTURE.match(architecture) is not None


def fp4_instructions(disassembler: Disassembler, file: Path) -> dict[str, int]:
    """Return the number of FP4 instructions (OMMA on E2M1) in a file, by architecture (`121a`).

    Raises `Undumped` if cuobjdump cannot read the file.
    """
    return count_fp4(_ask(disassembler, ("-sass",), file).encode())


def count_fp4(sass: bytes) -> dict[str, int]:
    """Return the number of FP4 instructions (OMMA on E2M1) in the output of `cuobjdump -sass`, by architecture."""
    counts: dict[str, int] = {}
    current = ""
    for match in _FP4_LINE.finditer(sass):
        if match[1] is not None:
            current = match[1].decode()
        else:
            counts[current] = counts.get(current, 0) + 1
    return counts


def _ask(disassembler: Disassembler, options: tuple[str, ...], file: Path) -> str:
    """Return the output of cuobjdump, or an empty string if the file has no device code.

    Raises `Undumped` if cuobjdump cannot read the file.
    """
    if not file.name.isprintable():
        # cuobjdump prints the file name in each entry, so a file name with line breaks could add lines.
        raise Undumped("has a name with unprintable characters")
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


T = TypeVar("T")
_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment"})
_NO_CUOBJDUMP = f"cuobjdump is not installed; hint: {HINT}"


def device(survey: Survey, claim: Claim, dump: Disassembler | None, directory: Path) -> tuple[Proof, ...]:
    """Return the proofs about device code. A build without CUDA has one proof: that it has no device code."""
    if not claim.architectures:
        return (_host_only(survey),)
    proofs = [_architectures(survey, claim, dump), _ptx(survey, dump)]
    fp4 = tuple(name for name in claim.architectures if has_fp4_instructions(name))
    if claim.fp4_sources and fp4:
        proofs.append(_fp4(_fp4_objects(directory / OBJECTS), fp4, dump))
    return tuple(proofs)


def _host_only(survey: Survey) -> Proof:
    holders = [file.name for file in survey.binaries if _holds(file)]
    if holders:
        return _fail("cuda-arch", f"a build without CUDA, but device code is in {listed(holders)}")
    unknown = _unknown(survey)
    if unknown or not survey.binaries:
        return _invalid("cuda-arch", unknown or "no ELF file exists")
    return Proof(id="cuda-arch", verdict=Verdict.PASS, detail="a build without CUDA, and without device code")


def _architectures(survey: Survey, claim: Claim, dump: Disassembler | None) -> Proof:
    name, asked = "cuda-arch", set(claim.architectures)
    holders = [file for file in survey.binaries if _holds(file)]
    unknown = _unknown(survey)
    if not holders:
        return _invalid(name, unknown) if unknown else _fail(name, "no binary has device code")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    per_file, failures = _each(holders, lambda path: machine_code(dump, path))
    wrong = []
    for file, found in per_file.items():
        if not found:
            wrong.append(f"{file} has device code, but no machine code")
        elif others := sorted(set(found) - asked):
            wrong.append(f"{file} has machine code for {_sm(others)}")
    seen = {architecture for found in per_file.values() for architecture in found}
    if not failures and not unknown and (absent := sorted(asked - seen)):
        wrong.append(f"no binary has machine code for {_sm(absent)}")
    if wrong:
        return _fail(name, f"requested {_sm(claim.architectures)}; " + "; ".join(wrong))
    if failures or unknown:
        return _invalid(name, "; ".join([*failures, *([unknown] if unknown else [])]))
    count = sum(map(len, per_file.values()))
    detail = f"{_sm(claim.architectures)} alone: {count} entries in {listed(list(per_file))}"
    return Proof(id=name, verdict=Verdict.PASS, detail=plain(detail))


def _ptx(survey: Survey, dump: Disassembler | None) -> Proof:
    name = "cuda-ptx"
    holders = [file for file in survey.binaries if _holds(file)]
    unknown = _unknown(survey)
    if not holders:
        return _invalid(name, unknown or "no binary has device code")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    per_file, failures = _each(holders, lambda path: ptx(dump, path))
    wrong = [f"{file} has PTX for {', '.join(sorted(set(found)))}" for file, found in per_file.items() if found]
    if wrong:
        return _fail(name, "; ".join(wrong))
    if failures or unknown:
        return _invalid(name, "; ".join([*failures, *([unknown] if unknown else [])]))
    return Proof(id=name, verdict=Verdict.PASS, detail=plain(f"none in {listed(list(per_file))}"))


def _fp4(objects: list[Built], architectures: tuple[str, ...], dump: Disassembler | None) -> Proof:
    """Return the proof that the object files have FP4 instructions for each of these architectures."""
    name = "fp4"
    if not objects:
        return _invalid(name, f"{OBJECTS} has no object file with fp4 in its name, so none could be inspected")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    missing, found, failures = set(architectures), [], []
    for file in objects:
        counts, failed = _each([file], lambda path: fp4_instructions(dump, path))
        failures += failed
        for architecture, count in counts.get(file.name, {}).items():
            if architecture in missing:
                found.append(f"{count} OMMA…E2M1 for sm_{architecture} in {file.name}")
                missing.discard(architecture)
        if not missing:
            return Proof(id=name, verdict=Verdict.PASS, detail=plain("; ".join(found)))
    if failures:
        return _invalid(name, "; ".join(failures))
    names = listed([file.name for file in objects])
    return _fail(name, f"no FP4 instruction (OMMA…E2M1) for {_sm(sorted(missing))} in {names}")


def _fp4_objects(directory: Path) -> list[Built]:
    """Return the object files with `fp4` in their names. Names with `nvfp4` come first."""
    found = []
    for folder, _, files in os.walk(directory):
        for name in files:
            path = Path(folder, name)
            if "fp4" in name.lower() and path.is_file() and not path.is_symlink():
                size = path.stat().st_size
                found.append(Built(name=path.relative_to(directory).as_posix(), path=path, size=size, elf=None))
    return sorted(found, key=lambda file: ("nvfp4" not in file.name.lower(), file.name))


def _each(files: list[Built], ask: Callable[[Path], T]) -> tuple[dict[str, T], list[str]]:
    """Call `ask` for each file. Return the results by file name, and a message for each failure."""
    answers, failures = {}, []
    for file in files:
        try:
            answers[file.name] = ask(file.path)
        except MissingError as error:
            hint = f"; hint: {error.hint}" if error.hint else ""
            failures.append(f"{file.name}: {error.message}{hint}")
    return answers, failures


def _holds(file: Built) -> bool:
    return file.elf is not None and bool(_SECTIONS & (file.elf.sections or frozenset()))


def _unknown(survey: Survey) -> str | None:
    """Return a message about the files that may contain device code, because their sections are unknown.

    Returns None if the sections of all files are known.
    """
    files = [file.name for file in survey.files if file.damage or (file.elf and file.elf.sections is None)]
    if not files:
        return None
    return f"{listed(files)} may have device code: no section table, or a damaged file"


def _sm(architectures: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"sm_{architecture}" for architecture in architectures)


def _fail(name: str, detail: str) -> Proof:
    return Proof(id=name, verdict=Verdict.FAIL, detail=plain(detail))


def _invalid(name: str, detail: str) -> Proof:
    return Proof(id=name, verdict=Verdict.INVALID, detail=plain(detail))
