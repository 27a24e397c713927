"""The claims about a build, the way to run its programs, and the result of a proof."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.document import Part
from patchstack.verdict import Verdict

IDS = ("exists", "machine", "runs", "commit", "cuda-arch", "cuda-ptx", "fp4", "paths")
"""The names of all proofs, in their order."""
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claims about a build that proofs check.

    `key` is the build key (64 hex digits), which the binaries contain as their commit string. `platform` is
    `linux/amd64` or `linux/arm64`. `architectures` are real ones as in cuobjdump's output, without the `sm_` (`121a`);
    none means a build without CUDA. `targets` are the programs that must exist, `optional_targets` those that may be
    missing. `machine_paths` are directories of the build machine that no binary may contain. `search_paths` are
    directories in which a binary may search for libraries, in addition to its own (a toolkit's). `fp4_sources`: the
    source contains FP4 matrix instructions.

    Raises `ValueError` for an invalid key, because a search for it would prove nothing.
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
    """One check of a build and its verdict. `detail` is one line for people."""

    id: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput:
    """The result of a program: its exit code (negative, or 128 + number, if a signal ended it) and all of its
    output."""

    code: int
    output: bytes


Runner = Callable[[Path, tuple[str, ...]], ProgramOutput]
"""Runs one of the programs (its path on this machine, its arguments) to its end, on the machine it was built for.

Raises `MissingError` (`ProgramTimeout`, `EngineLost`) if it could not run to its end, which proves nothing about it.
"""


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first names for a message. They come from a build, so unprintable characters are escaped."""
    shown = [plain(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return ", ".join(shown)


def plain(text: str) -> str:
    """Return a text that is safe to print on a terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
