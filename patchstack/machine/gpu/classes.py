"""Determine the class of a machine's GPUs, and what their results prove about a GB10.

All functions are pure.
"""

from __future__ import annotations

import re
from enum import StrEnum


class GpuClass(StrEnum):
    """Classes of GPUs. Results of different classes must not be mixed.

    The first two names are also used in the file hardware.txt of the serving harnesses.
    """

    GB10_OR_WORKSTATION_BLACKWELL = "gb10_or_workstation_blackwell"
    DATACENTER_BLACKWELL = "datacenter_blackwell"
    OTHER_DATACENTER = "other_datacenter"
    OTHER = "other"
    MIXED = "mixed"
    NONE = "none"
    UNKNOWN = "unknown"


_DATACENTER = re.compile(
    r"\b(?:A100|A800|A30|A40|A16|A10G?|A2|L40S?|L20|L4|L2|T4G?|V100S?|P100|P40|P4|H100|H200|H800|H20|GH200|PG\d+)\b"
)
_BY_NAME = (
    (re.compile(r"\bGB10\b|\bRTX PRO \d+|\bRTX 50\d0\b"), GpuClass.GB10_OR_WORKSTATION_BLACKWELL),
    (re.compile(r"\b(?:GB200|GB300|B100|B200|B300)\b"), GpuClass.DATACENTER_BLACKWELL),
    (_DATACENTER, GpuClass.OTHER_DATACENTER),
    (re.compile(r"\b(?:GeForce|Quadro|TITAN|RTX|GTX|Orin|Xavier|Thor)\b"), GpuClass.OTHER),
)


def classify(name: str, capability: str | None) -> GpuClass:
    """Return the class of a GPU, from its compute capability.

    The name is used if the capability is unknown, or if datacenter and consumer chips have the same capability. Source:
    CUDA C++ Programming Guide, compute capabilities.
    """
    if capability is None:
        return next((kind for pattern, kind in _BY_NAME if pattern.search(name)), GpuClass.UNKNOWN)
    if capability in ("12.0", "12.1"):
        return GpuClass.GB10_OR_WORKSTATION_BLACKWELL
    if capability in ("10.0", "10.3"):
        return GpuClass.DATACENTER_BLACKWELL
    if capability in ("9.0", "8.0", "7.0", "6.0") and "TITAN" not in name:
        return GpuClass.OTHER_DATACENTER
    return GpuClass.OTHER_DATACENTER if _DATACENTER.search(name) else GpuClass.OTHER


def of_all(classes: list[GpuClass]) -> GpuClass:
    """Return the class of a machine from the classes of its GPUs."""
    if not classes:
        return GpuClass.NONE
    return classes[0] if len(set(classes)) == 1 else GpuClass.MIXED


_NO_FP4 = (
    "ggml compiles its FP4 tensor core kernels only for compute capability 12.x: "
    "NVFP4 and MXFP4 took a different path here"
)
_NO_FIGURES = "throughput, latency and kernel profiles prove nothing about a GB10: measure them on a GB10"
_NO_DIGESTS = "transcript digests and op totals from a GB10 are not valid here; record references on this GPU"


def conclusions(kind: GpuClass, capabilities: frozenset[str]) -> tuple[str, ...]:
    """Return sentences that say what a test on a GPU class proves about a GB10.

    The most important sentence is first. Only compute capability 12.x has the FP4 kernels. Source:
    `BLACKWELL_MMA_AVAILABLE` in ggml-cuda/common.cuh.
    """
    if kind is GpuClass.GB10_OR_WORKSTATION_BLACKWELL:
        if capabilities == {"12.1"}:
            return (
                "this is the GPU that sm_121 builds are for: digests, op totals and figures hold for a GB10",
                "they do not apply to datacenter Blackwell (sm_100, sm_103): repeat the run there",
            )
        return (
            "the FP4 kernels of compute capability 12.x ran, built for sm_120: correctness also holds for a GB10, "
            "except in code with a branch for sm_121",
            _NO_FIGURES + " (other memory, other number of multiprocessors)",
        )
    if kind is GpuClass.DATACENTER_BLACKWELL:
        return (
            _NO_FP4 + ", though the chip has FP4",
            _NO_DIGESTS,
            "results of this GPU and of a GB10 do not apply to each other: repeat the run on the other GPU",
        )
    if kind in (GpuClass.OTHER_DATACENTER, GpuClass.OTHER):
        return (
            _NO_FP4,
            "this shows that the CUDA code builds, runs and agrees with the CPU outside the FP4 paths",
            _NO_DIGESTS,
            _NO_FIGURES,
        )
    if kind is GpuClass.NONE:
        return (
            "CPU only: this shows that programs, files and verdicts work; no CUDA kernel ran",
            _NO_FIGURES,
        )
    if kind is GpuClass.MIXED:
        return ("GPUs of several classes: it is unknown which GPU ran what; select one with CUDA_VISIBLE_DEVICES",)
    return ("this GPU is unknown: its results prove nothing about a GB10",)
