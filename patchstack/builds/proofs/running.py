"""Proofs `runs` and `commit`: the programs start, and the binaries contain the build key.

A program without `--version` (llama.cpp's test-backend-ops) prints its usage and exits with any code. Therefore `runs`
requires that at least one program prints the build key, and that no program is ended by a signal or lacks a library.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from patchstack.builds.proofs.claim import Claim, ProgramOutput, Proof, Runner, listed, plain
from patchstack.builds.proofs.files import Survey
from patchstack.builds.proofs.presence import MACHINES, built_targets, platform
from patchstack.errors import MissingError
from patchstack.verdict import Verdict

VERSION = ("--version",)
_LIBRARY_MISSING = re.compile(
    rb"error while loading shared libraries: ([^:\s]+)|Error loading shared library ([^:\s]+)"
)
_SYMBOL_MISSING = re.compile(rb"symbol lookup error: .*undefined symbol: (\w+)")
# These libraries come with the driver, not with the toolkit or the build. A machine without a GPU may lack them.
_DRIVER_LIBRARY = re.compile(rb"lib(cuda|nvidia-ml)\.so")
_DRIVER_SYMBOL = re.compile(rb"(cu[A-Z]|nvml[A-Z])")
_PRINTS_A_VERSION = re.compile(rb"^\s*(?:\S+\s+)?version(?::\s*\S|\s+v?[\d(])", re.IGNORECASE | re.MULTILINE)
# Shells and container engines return 128 + signal for a program that a signal ended. Only these signals are recognized,
# because programs return the codes of other signals themselves (git: 129 for wrong usage).
_CRASHES = frozenset({"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGSYS"})


class Kind(Enum):
    """The result of `PROGRAM --version`."""

    KEY = "it printed the build key"
    OTHER = "it printed a version that is not the build key"
    NO_VERSION = "it prints no version"
    NOT_RUN = "it could not be run"
    BROKEN = "it does not start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The result of starting a program.

    `words` describe the result; in a message, they follow the name of the program.
    """

    name: str
    kind: Kind
    words: str


def start_targets(survey: Survey, claim: Claim, run: Runner) -> tuple[Start, ...]:
    """Start every target with `--version`, if it is a program for the platform."""
    starts = []
    for target in built_targets(survey, claim):
        file = survey.named(target)
        if file is None or file.elf is None or file.elf.machine != MACHINES.get(platform(claim)):
            continue  # the proof `exists` or `machine` reports this problem
        try:
            starts.append(judge_start(target, run(file.path, VERSION), claim.key))
        except MissingError as error:
            starts.append(Start(name=target, kind=Kind.NOT_RUN, words=f"could not be run: {error.message}"))
    return tuple(starts)


def judge_start(name: str, ran: ProgramOutput, key: str) -> Start:
    """Judge a program by its exit code and output."""

    def start(kind: Kind, words: str) -> Start:
        return Start(name=name, kind=kind, words=words)

    ended_by = _signal(ran.code)
    if ended_by is not None:
        return start(Kind.BROKEN, f"was ended by {ended_by}")
    if ran.code:
        library, symbol = _LIBRARY_MISSING.search(ran.output), _SYMBOL_MISSING.search(ran.output)
        missing = next((name for match in (library, symbol) if match for name in match.groups() if name), None)
        if missing is not None:
            driver = (_DRIVER_LIBRARY if library else _DRIVER_SYMBOL).match(missing)
            what = f"lacks {'library' if library else 'symbol'} {missing.decode('ascii', 'replace')}"
            if driver:
                return start(Kind.NOT_RUN, f"{what}, which comes with the NVIDIA driver")
            return start(Kind.BROKEN, what)
        if ran.code in (126, 127):
            return start(Kind.BROKEN, f"cannot be started (exit {ran.code}{_last_line(ran.output)})")
    if key.encode() in ran.output:
        return start(Kind.KEY, "printed the build key")
    if ran.code == 0 and (line := _PRINTS_A_VERSION.search(ran.output)):
        rest = ran.output[line.start() :].lstrip().split(b"\n")[0][:120]
        return start(Kind.OTHER, f"printed {rest.decode('utf-8', 'replace').strip()!r}")
    return start(Kind.NO_VERSION, f"prints no version (exit {ran.code})")


def runs(starts: Iterable[Start] | None, not_run: str) -> Proof:
    """Return the proof that the programs start.

    The verdict is PASS if at least one program printed the build key and no program is broken. The verdict is FAIL if a
    program is broken, and INVALID otherwise. If `starts` is None, no program was started, and `not_run` is the reason.
    """
    if starts is None:
        return Proof(id="runs", verdict=Verdict.INVALID, detail=plain(not_run))
    by_kind: dict[Kind, list[Start]] = {kind: [] for kind in Kind}
    for start in starts:
        by_kind[start.kind].append(start)
    detail = "; ".join(_told(kind, by_kind[kind]) for kind in Kind if by_kind[kind])
    if by_kind[Kind.BROKEN]:
        return Proof(id="runs", verdict=Verdict.FAIL, detail=detail)
    if by_kind[Kind.KEY]:
        return Proof(id="runs", verdict=Verdict.PASS, detail=detail)
    return Proof(id="runs", verdict=Verdict.INVALID, detail=detail or "no program could be started")


def commit(survey: Survey, claim: Claim, holders: Collection[str], starts: Iterable[Start] | None) -> Proof:
    """Return the proof that the programs carry the build key.

    At least one binary must contain the key, and every program that prints a version must print the key. `holders` are
    the files that contain the key.
    """
    others = [start for start in starts or () if start.kind is Kind.OTHER]
    if others:
        said = "; ".join(f"{start.name} {start.words}" for start in others)
        return Proof(id="commit", verdict=Verdict.FAIL, detail=plain(f"the build key is {claim.key}, but {said}"))
    if not survey.binaries:
        return Proof(id="commit", verdict=Verdict.INVALID, detail="no ELF file exists")
    held = [file.name for file in survey.binaries if file.name in holders]
    if not held:
        return Proof(id="commit", verdict=Verdict.FAIL, detail=f"no binary contains the build key {claim.key}")
    printed = [start.name for start in starts or () if start.kind is Kind.KEY]
    by = f", printed by {listed(printed)}" if printed else ""
    return Proof(id="commit", verdict=Verdict.PASS, detail=f"{claim.key} is in {listed(held)}{by}")


def _told(kind: Kind, starts: list[Start]) -> str:
    """Describe all programs that had the same kind of result, in one string."""
    match kind:
        case Kind.KEY:
            return f"{listed([start.name for start in starts])} printed the build key"
        case Kind.NO_VERSION:
            return plain(", ".join(f"{start.name} {start.words}" for start in starts)) + ": not judged"
        case Kind.OTHER | Kind.NOT_RUN | Kind.BROKEN:
            return plain(", ".join(f"{start.name} {start.words}" for start in starts))
    assert_never(kind)


def _signal(code: int) -> str | None:
    try:
        name = signal.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return f"signal {-code}" if code < 0 else None
    return name if code < 0 or name in _CRASHES else None


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""
