"""The claims about a build, the interface for running its programs, and the result of a proof."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.document import Part
from patchstack.verdict import Verdict

IDS = ("exists", "machine", "runs", "commit", "cuda-arch", "cuda-ptx", "fp4", "paths")
"""The names of all proofs, in the order in which they are shown."""
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claims about a build that the proofs check.

    - `key`: the build key (64 hex digits), which the binaries contain as their commit string.
    - `platform`: `linux/amd64` or `linux/arm64`.
    - `architectures`: real architectures as cuobjdump prints them, without `sm_` (`121a`); empty without CUDA.
    - `targets`: programs that must exist; `optional_targets`: programs that may be missing.
    - `machine_paths`: directories of the build machine that no binary may contain.
    - `search_paths`: directories in which a binary may search for libraries, in addition to the binary's own directory,
      such as `lib64` of a toolkit.
    - `fp4_sources`: whether the source contains FP4 matrix instructions.

    Raises `ValueError` for an invalid key, because a search for such a key would prove nothing.
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
    """A check of a build and its verdict. `detail` is one line of text."""

    id: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput:
    """The result of a program: its exit code and all of its output.

    If a signal ended the program, the code is negative, or 128 plus the number of the signal.
    """

    code: int
    output: bytes


Runner = Callable[[Path, tuple[str, ...]], ProgramOutput]
"""Runs a program, on the machine that it was built for, until it ends.

The function is called with the program's path on this machine and the program's arguments. Raises `MissingError`
(`ProgramTimeout`, `EngineLost`) if the program was stopped early. Such an error proves nothing about the program.
"""


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, and the number of the others, for a message.

    The names come from a build, so unprintable characters are escaped.
    """
    shown = [plain(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return ", ".join(shown)


def plain(text: str) -> str:
    """Return the text in a form that is safe to print on a terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
