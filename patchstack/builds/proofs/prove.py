"""Prove that the files of a build are what was requested.

The directory of a build contains programs and libraries in `bin`. If FP4 kernels were compiled, their object files are
in `objects`. Each proof has its own verdict. A proof that could not be checked is INVALID, with the reason.
"""

from __future__ import annotations

from pathlib import Path

from patchstack.builds.proofs.claim import Claim, ProgramOutput, Proof, Runner
from patchstack.builds.proofs.device import Disassembler, device, find_cuobjdump
from patchstack.builds.proofs.files import BIN, OBJECTS, Binary, Occurrence, binaries, search, survey
from patchstack.builds.proofs.presence import encoded, exists, machine, paths, wanted_paths
from patchstack.builds.proofs.running import commit, runs, start_targets
from patchstack.causes import NoSuchBuild
from patchstack.errors import MissingError
from patchstack.process import ProgramTimeout
from patchstack.process import run as run_program

__all__ = [
    "BIN",
    "OBJECTS",
    "Binary",
    "Claim",
    "Disassembler",
    "ProgramOutput",
    "Proof",
    "Runner",
    "binaries",
    "find_cuobjdump",
    "prove_build",
    "run_here",
]
_SECONDS = 60.0


def prove_build(
    directory: Path,
    claim: Claim,
    *,
    cuobjdump: Disassembler | None,
    run: Runner | None,
    not_run: str = "no way to run the programs was given",
) -> tuple[Proof, ...]:
    """Return the proofs of a build.

    Their order is `exists`, `machine`, `runs`, `commit`, `cuda-arch`, `cuda-ptx`, `fp4`, `paths`. A build without CUDA
    has no `cuda-ptx`. `fp4` is included only if both the source and the architecture have FP4 instructions.

    Without `cuobjdump`, the proofs of device code are INVALID. Without `run`, the programs are not started, and
    `not_run` is the reason (`cannot run here: linux/arm64 programs on linux/amd64`).

    Raises `MissingError` if the directory does not exist, if a file cannot be read, or if pyelftools is not installed.
    """
    if not directory.is_dir():
        raise NoSuchBuild(f"{directory} is not a directory, so it contains no build to prove")
    found = survey(directory)
    key = claim.key.encode()
    wanted = wanted_paths(claim)
    holders: list[str] = []
    hits: dict[str, dict[str, Occurrence]] = {}
    for file in found.files:
        at = search(file.path, (key, *map(encoded, wanted)))
        hits[file.name] = {path: at[encoded(path)] for path in wanted if encoded(path) in at}
        if key in at:
            holders.append(file.name)
    starts = start_targets(found, claim, run) if run is not None else None
    about_devices = device(found, claim, cuobjdump, directory)
    return (
        exists(found, claim),
        machine(found, claim),
        runs(starts, not_run),
        commit(found, claim, holders, starts),
        *about_devices,
        paths(found, claim, hits),
    )


def run_here(program: Path, arguments: tuple[str, ...]) -> ProgramOutput:
    """Run a built program on this machine.

    Use this only for a build that was made on this machine, because the program runs with the user's permissions.
    """
    try:
        finished = run_program([str(program.absolute()), *arguments], cwd=program.parent, timeout=_SECONDS)
    except ProgramTimeout:
        raise
    except MissingError:
        if not program.is_file():
            raise
        return ProgramOutput(code=127, output=b"its program loader is not installed")
    except OSError as error:  # wrong machine, missing interpreter, or file that is not executable
        return ProgramOutput(code=126, output=(error.strerror or str(error)).encode())
    return ProgramOutput(code=finished.code, output=finished.stdout + finished.stderr)
