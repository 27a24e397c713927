"""Proofs `exists`, `machine` and `paths`, about the files of a build.

They prove that the programs exist, are for the right machine, and contain no path of the build machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from patchstack.builds.proofs.claim import Claim, Proof, listed, plain
from patchstack.builds.proofs.files import Occurrence, Survey
from patchstack.verdict import Verdict

_ORIGIN = ("$ORIGIN", "${ORIGIN}")
_MOST = 6


def wanted_paths(claim: Claim) -> tuple[str, ...]:
    """Return the paths to search for. Paths like `/`, which every file contains, are omitted."""
    return tuple(path.rstrip("/") for path in claim.machine_paths if len(path.rstrip("/")) > 1)


def paths(survey: Survey, claim: Claim, hits: Mapping[str, Mapping[str, Occurrence]]) -> Proof:
    """Return the proof that no file contains a directory of the build machine.

    The proof also requires that binaries search for libraries only in their own directory and in the directories that
    the claim allows. `hits` contains the paths that were found, by file.
    """
    wrong = []
    for file in survey.files:
        for path, hit in hits.get(file.name, {}).items():
            wrong.append(f"{file.name} names {path}: {hit.context!r}")
        for entry in file.elf.search_path if file.elf else ():
            if not _allowed(entry, claim):
                wrong.append(
                    f"{file.name} searches for libraries in {entry or 'the working directory'} (RPATH or RUNPATH)"
                )
    if wrong:
        more = f"; and {len(wrong) - _MOST} more" if len(wrong) > _MOST else ""
        return Proof(id="paths", verdict=Verdict.FAIL, detail="; ".join(map(plain, wrong[:_MOST])) + more)
    looked = wanted_paths(claim)
    if not survey.binaries:
        return Proof(id="paths", verdict=Verdict.INVALID, detail="no ELF file exists")
    if not looked:
        return Proof(id="paths", verdict=Verdict.INVALID, detail="no path of the build machine was given")
    return Proof(
        id="paths",
        verdict=Verdict.PASS,
        detail=f"none of {', '.join(looked)} in {len(survey.files)} file{'' if len(survey.files) == 1 else 's'}",
    )


def encoded(path: str) -> bytes:
    """Return a path as the bytes that a file would contain."""
    return os.fsencode(path)


def _allowed(entry: str, claim: Claim) -> bool:
    if entry in _ORIGIN or entry.startswith(tuple(f"{origin}/" for origin in _ORIGIN)):
        return True
    return any(entry.rstrip("/") == path.rstrip("/") for path in claim.search_paths)


MACHINES = {"linux/amd64": "EM_X86_64", "linux/arm64": "EM_AARCH64"}
"""The ELF machine of each platform. All these machines are 64-bit."""
_NAMES = {"EM_X86_64": "x86-64", "EM_AARCH64": "aarch64", "EM_386": "i386", "EM_ARM": "arm", "EM_RISCV": "riscv"}
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*\Z")


def exists(survey: Survey, claim: Claim) -> Proof:
    """Return the proof about the targets.

    The proof shows that every target is a program that can be started, and that the build left only files and links to
    them. The proof is INVALID if no target was named, because then no file can be missing.
    """
    wrong = list(survey.problems)
    if not survey.files:
        wrong.insert(0, "the build left no binary")
    for target in built_targets(survey, claim) if survey.files else ():
        reason = _not_a_program(survey, target)
        if reason is not None:
            wrong.append(f"{target} {reason}")
    if wrong:
        return Proof(id="exists", verdict=Verdict.FAIL, detail="; ".join(map(plain, wrong)))
    if not claim.targets:
        return Proof(id="exists", verdict=Verdict.INVALID, detail="no target was named, so nothing was required")
    there = built_targets(survey, claim)
    others = len(survey.files) - len({file.name for file in map(survey.named, there) if file})
    size = sum(file.size for file in survey.files) / 1e6
    beside = f"; {others} other file{'s' if others != 1 else ''}" if others else ""
    without = [target for target in claim.optional_targets if target not in there]
    lacks = f"; optional, not in this source tree: {listed(without)}" if without else ""
    return Proof(id="exists", verdict=Verdict.PASS, detail=f"{listed(there)}{beside}; {size:.1f} MB in all{lacks}")


def built_targets(survey: Survey, claim: Claim) -> tuple[str, ...]:
    """Return the targets that must exist, followed by the optional targets that exist."""
    return claim.targets + tuple(target for target in claim.optional_targets if survey.named(target) is not None)


def machine(survey: Survey, claim: Claim) -> Proof:
    """Return the proof that every ELF file is complete, 64-bit, and for the platform.

    Targets, and files with the name of a library, must be ELF files.
    """
    wanted = MACHINES.get(platform(claim))
    if wanted is None:
        return Proof(id="machine", verdict=Verdict.INVALID, detail=f"the ELF machine of {claim.platform} is unknown")
    programs = {file.name for file in map(survey.named, built_targets(survey, claim)) if file}
    wrong = []
    for file in survey.files:
        if file.damage is not None:
            wrong.append(f"{file.name} {file.damage}")
        elif file.elf is None and (file.name in programs or _LIBRARY.search(file.name)):
            wrong.append(f"{file.name} is not an ELF file")
        elif file.elf is not None and (file.elf.machine, file.elf.bits) != (wanted, 64):
            wrong.append(f"{file.name} is for {_NAMES.get(file.elf.machine, file.elf.machine)}, {file.elf.bits}-bit")
    if wrong:
        detail = f"{claim.platform} is {_NAMES[wanted]}, 64-bit; " + "; ".join(map(plain, wrong))
        return Proof(id="machine", verdict=Verdict.FAIL, detail=detail)
    count = len(survey.binaries)
    if not count:
        return Proof(id="machine", verdict=Verdict.INVALID, detail="no ELF file exists")
    rest = [file.name for file in survey.files if file.elf is None]
    beside = f"; no ELF: {listed(rest)}" if rest else ""
    detail = f"{count} ELF file{'s' if count != 1 else ''} for {_NAMES[wanted]}{beside}"
    return Proof(id="machine", verdict=Verdict.PASS, detail=detail)


def platform(claim: Claim) -> str:
    """Return the platform without its variant (`linux/arm64` for `linux/arm64/v8`)."""
    return "/".join(claim.platform.split("/")[:2])


def _not_a_program(survey: Survey, target: str) -> str | None:
    file = survey.named(target)
    if file is None:
        return "is missing"
    if file.size == 0:
        return "is empty"
    if file.damage is not None:
        return file.damage
    if file.elf is None:
        return "is not an ELF file"
    if not file.elf.program:
        return "is a library, not a program"
    return None if os.access(file.path, os.X_OK) else "is not executable"
