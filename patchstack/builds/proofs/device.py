"""`cuda-arch`, `cuda-ptx` and `fp4`: the device code is the one that was asked for, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from patchstack.builds.proofs import cuda
from patchstack.builds.proofs.claim import Claim, Proof, listed, plain
from patchstack.builds.proofs.cuda import Disassembler
from patchstack.builds.proofs.files import OBJECTS, Built, Survey
from patchstack.errors import MissingError
from patchstack.verdict import Verdict

T = TypeVar("T")
_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment"})
_NO_CUOBJDUMP = f"no cuobjdump here; hint: {cuda.HINT}"


def device(survey: Survey, claim: Claim, dump: Disassembler | None, directory: Path) -> tuple[Proof, ...]:
    """The proofs about device code. A build without CUDA has one: that there is none."""
    if not claim.architectures:
        return (_host_only(survey),)
    proofs = [_architectures(survey, claim, dump), _ptx(survey, dump)]
    fp4 = tuple(name for name in claim.architectures if cuda.has_fp4_instructions(name))
    if claim.fp4_sources and fp4:
        proofs.append(_fp4(_fp4_objects(directory / OBJECTS), fp4, dump))
    return tuple(proofs)


def _host_only(survey: Survey) -> Proof:
    holders = [file.name for file in survey.binaries if _holds(file)]
    if holders:
        return _fail("cuda-arch", f"a build without CUDA, but device code is in {listed(holders)}")
    unknown = _unknown(survey)
    if unknown or not survey.binaries:
        return _invalid("cuda-arch", unknown or "there is no ELF file to judge")
    return Proof(id="cuda-arch", verdict=Verdict.PASS, detail="a build without CUDA, and without device code")


def _architectures(survey: Survey, claim: Claim, dump: Disassembler | None) -> Proof:
    name, asked = "cuda-arch", set(claim.architectures)
    holders = [file for file in survey.binaries if _holds(file)]
    unknown = _unknown(survey)
    if not holders:
        return _invalid(name, unknown) if unknown else _fail(name, "no binary holds device code")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    per_file, failures = _each(holders, lambda path: cuda.machine_code(dump, path))
    wrong = []
    for file, found in per_file.items():
        if not found:
            wrong.append(f"{file} has device code, but machine code for no architecture")
        elif others := sorted(set(found) - asked):
            wrong.append(f"{file} has machine code for {_sm(others)}")
    seen = {architecture for found in per_file.values() for architecture in found}
    if not failures and not unknown and (absent := sorted(asked - seen)):
        wrong.append(f"no binary has machine code for {_sm(absent)}")
    if wrong:
        return _fail(name, f"asked for {_sm(claim.architectures)}; " + "; ".join(wrong))
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
        return _invalid(name, unknown or "no binary holds device code")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    per_file, failures = _each(holders, lambda path: cuda.ptx(dump, path))
    wrong = [f"{file} has PTX for {', '.join(sorted(set(found)))}" for file, found in per_file.items() if found]
    if wrong:
        return _fail(name, "; ".join(wrong))
    if failures or unknown:
        return _invalid(name, "; ".join([*failures, *([unknown] if unknown else [])]))
    return Proof(id=name, verdict=Verdict.PASS, detail=plain(f"none in {listed(list(per_file))}"))


def _fp4(objects: list[Built], architectures: tuple[str, ...], dump: Disassembler | None) -> Proof:
    """Some object has FP4 instructions, for each of the architectures that have them."""
    name = "fp4"
    if not objects:
        return _invalid(name, f"no object file with fp4 in its name in {OBJECTS}, so none could be looked into")
    if dump is None:
        return _invalid(name, _NO_CUOBJDUMP)
    missing, found, failures = set(architectures), [], []
    for file in objects:
        counts, failed = _each([file], lambda path: cuda.fp4_instructions(dump, path))
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
    """The object files whose names say that they are about FP4, the NVFP4 ones first."""
    found = []
    for folder, _, files in os.walk(directory):
        for name in files:
            path = Path(folder, name)
            if "fp4" in name.lower() and path.is_file() and not path.is_symlink():
                size = path.stat().st_size
                found.append(Built(name=path.relative_to(directory).as_posix(), path=path, size=size, elf=None))
    return sorted(found, key=lambda file: ("nvfp4" not in file.name.lower(), file.name))


def _each(files: list[Built], ask: Callable[[Path], T]) -> tuple[dict[str, T], list[str]]:
    """The answers, by file, and in words what could not be answered."""
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
    """The files of which it cannot be told whether they hold device code, in words."""
    files = [file.name for file in survey.files if file.damage or (file.elf and file.elf.sections is None)]
    if not files:
        return None
    return f"whether there is device code in {listed(files)} cannot be told: no section table, or a damaged file"


def _sm(architectures: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"sm_{architecture}" for architecture in architectures)


def _fail(name: str, detail: str) -> Proof:
    return Proof(id=name, verdict=Verdict.FAIL, detail=plain(detail))


def _invalid(name: str, detail: str) -> Proof:
    return Proof(id=name, verdict=Verdict.INVALID, detail=plain(detail))
