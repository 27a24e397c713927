"""CUDA architectures: their names, their values for CMake, and the toolkits that support them."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from patchstack.causes import BuildPlanRefused, UnknownName


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A GPU architecture.

    `number` is its compute capability without the dot (121 for 12.1). `cmake` is the value of
    `CMAKE_CUDA_ARCHITECTURES`. This value requests machine code for this architecture only. If kernels need the
    specific instructions of the architecture, the value includes them (FP4 MMA needs 121a, not 121). `since` and
    `until` are the first and the last CUDA versions (major, minor) that support it. `until` is None if support has not
    ended. `gpus` are products with this architecture.
    """

    number: int
    cmake: str
    since: tuple[int, int]
    gpus: str
    until: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"sm_{self.number}"

    @property
    def real(self) -> str:
        """The name in the output of cuobjdump, without `sm_` (`121a`)."""
        return self.cmake.removesuffix("-real")


# Release notes of the CUDA toolkit: 11.1 (86), 11.4 (87), 11.8 (89, 90), 12.8 (100, 120), 12.9 (103, 121), 13.0 (110,
# and the end of Maxwell, Pascal and Volta).
ARCHITECTURES = tuple(
    Architecture(number=number, cmake=cmake, since=since, until=until, gpus=gpus)
    for number, cmake, since, until, gpus in (
        (61, "61-real", (8, 0), (12, 9), "GTX 10, P40"),
        (70, "70-real", (9, 0), (12, 9), "V100"),
        (75, "75-real", (10, 0), None, "RTX 20, T4"),
        (80, "80-real", (11, 0), None, "A100"),
        (86, "86-real", (11, 1), None, "RTX 30, A10, A40"),
        (87, "87-real", (11, 4), None, "Jetson Orin"),
        (89, "89-real", (11, 8), None, "RTX 40, L4, L40"),
        (90, "90-real", (11, 8), None, "H100, H200"),
        (100, "100a-real", (12, 8), None, "B100, B200"),
        (103, "103a-real", (12, 9), None, "B300"),
        (110, "110a-real", (13, 0), None, "Jetson Thor"),
        (120, "120a-real", (12, 8), None, "RTX 50, RTX PRO Blackwell"),
        (121, "121a-real", (12, 9), None, "GB10, DGX Spark"),
    )
)
_BY_NUMBER = {architecture.number: architecture for architecture in ARCHITECTURES}
_NAME = re.compile(r"(?:sm_?|compute_)?([0-9]{1,2})\.?([0-9])([af])?(?:-(real|virtual))?\Z")


def parse_arch(text: str) -> Architecture:
    """Return the architecture with a name such as `121`, `12.1`, `sm_121`, `121a` or `121a-real`.

    Raises `UsageError` for an unknown architecture, for PTX (`-virtual`), and for a suffix (`121f`) that patchstack
    does not use for the architecture.
    """
    match = _NAME.match(text.strip().lower())
    known = _BY_NUMBER.get(int(match.group(1) + match.group(2))) if match else None
    if match is None or known is None:
        names = [str(architecture.number) for architecture in ARCHITECTURES]
        digits = re.sub(r"\D", "", text)
        near = difflib.get_close_matches(digits, names, 1, 0.6) if digits else []
        hint = f"perhaps you meant {near[0]}; supported" if near else "supported"
        raise UnknownName(f"there is no CUDA architecture {text}", hint=f"{hint}: {', '.join(names)}")
    if match.group(4) == "virtual":
        raise BuildPlanRefused(f"{text} is PTX, not machine code", hint=f"use --arch {known.number} for {known.cmake}")
    if match.group(3) and match.group(3) not in known.real:
        raise BuildPlanRefused(
            f"{text} is not patchstack's value for {known.name}", hint=f"use --arch {known.number} for {known.cmake}"
        )
    return known


def toolkit_complaint(architecture: Architecture, cuda: tuple[int, int]) -> str | None:
    """Return the reason why a toolkit with this CUDA version cannot build for the architecture.

    Returns None if it can.
    """
    has = f"{cuda[0]}.{cuda[1]}"
    if cuda < architecture.since:
        need = f"{architecture.since[0]}.{architecture.since[1]}"
        return f"{architecture.name} needs CUDA {need} or newer; the toolkit is {has}"
    if architecture.until is not None and cuda[:1] > architecture.until[:1]:
        return f"CUDA {architecture.until[0]} was the last to support {architecture.name}; the toolkit is {has}"
    return None
