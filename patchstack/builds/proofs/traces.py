"""`paths`: nothing of the build machine is in what it built."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchstack.builds.proofs.claim import Claim, Proof, plain
from patchstack.builds.proofs.files import Occurrence, Survey
from patchstack.verdict import Verdict

_ORIGIN = ("$ORIGIN", "${ORIGIN}")
_MOST = 6


def wanted_paths(claim: Claim) -> tuple[str, ...]:
    """The paths to look for; `/` and the like would be found in every file."""
    return tuple(path.rstrip("/") for path in claim.machine_paths if len(path.rstrip("/")) > 1)


def paths(survey: Survey, claim: Claim, hits: Mapping[str, Mapping[str, Occurrence]]) -> Proof:
    """No file names a directory of the build machine, and no binary looks for libraries but beside itself (or where
    the claim allows it). `hits` has, for each file, the paths that were found in it."""
    wrong = []
    for file in survey.files:
        for path, hit in hits.get(file.name, {}).items():
            wrong.append(f"{file.name} names {path}: {hit.context!r}")
        for entry in file.elf.search_path if file.elf else ():
            if not _allowed(entry, claim):
                wrong.append(
                    f"{file.name} looks for libraries in {entry or 'the working directory'} (RPATH or RUNPATH)"
                )
    if wrong:
        more = f"; and {len(wrong) - _MOST} more" if len(wrong) > _MOST else ""
        return Proof(id="paths", verdict=Verdict.FAIL, detail="; ".join(map(plain, wrong[:_MOST])) + more)
    looked = wanted_paths(claim)
    if not survey.binaries:
        return Proof(id="paths", verdict=Verdict.INVALID, detail="there is no ELF file to search")
    if not looked:
        return Proof(id="paths", verdict=Verdict.INVALID, detail="no path of the build machine was named to look for")
    return Proof(
        id="paths",
        verdict=Verdict.PASS,
        detail=f"none of {', '.join(looked)} in {len(survey.files)} file{'' if len(survey.files) == 1 else 's'}",
    )


def encoded(path: str) -> bytes:
    """A path as it stands in a file."""
    return os.fsencode(path)


def _allowed(entry: str, claim: Claim) -> bool:
    if entry in _ORIGIN or entry.startswith(tuple(f"{origin}/" for origin in _ORIGIN)):
        return True
    return any(entry.rstrip("/") == path.rstrip("/") for path in claim.search_paths)
