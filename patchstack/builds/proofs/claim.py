"""What a build is said to be, how its programs are run, and what a proof says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.document import Part
from patchstack.verdict import Verdict

IDS = ("exists", "machine", "runs", "commit", "cuda-arch", "cuda-ptx", "fp4", "paths")
"""Every proof there is, in the order in which they are given."""
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was asked of a build.

    `key` is the build key (64 hex digits), which the binaries carry as their commit string. `platform` is
    `linux/amd64` or `linux/arm64`. `architectures` are real ones as cuobjdump names them, without the `sm_` (`121a`);
    none is a build without CUDA. `targets` are the programs that must be there,
    `optional_targets` those that may be missing. `machine_paths` are directories of the
    build machine that no binary may name; `search_paths` those that a binary may look for libraries in, beside its own
    (a toolkit's). `fp4_sources`: the source has FP4 matrix instructions in it.

    Raises `ValueError` for a key that is none: a search for it would say nothing.
    """

    key: str
    platform: str
    architectures: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    optional_targets: tuple[str, ...] = ()
    machine_paths: tuple[str, ...] = ()
    search_paths: tuple[str, ...] = ()
    fp4_sources: bool = False

    def __post_init__(self) -> None:
        if not _KEY.match(self.key):
            raise ValueError(f"not a build key: {self.key!r}")


class Proof(Part, frozen=True, kw_only=True):
    """One thing that was checked of a build, and how it came out. `detail` is one line for people."""

    id: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput:
    """What a program gave: its exit code (negative, or 128 + number, where a signal ended it) and all it printed."""

    code: int
    output: bytes


Runner = Callable[[Path, tuple[str, ...]], ProgramOutput]
"""Runs one of the programs (its path on this machine, its arguments) to its end, in the place it was built for.

Raises `MissingError` (`ProgramTimeout`, `EngineLost`) where it could not be run to its end: that says nothing of it.
"""


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names for a message, not too many. They are a build's, so what does not print is escaped."""
    shown = [plain(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return ", ".join(shown)


def plain(text: str) -> str:
    """Return a text that a terminal prints as it is."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
