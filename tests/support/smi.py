"""Fake nvidia-smi and docker programs for PATH, which print the output of real ones."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Smi:
    """The answers of an nvidia-smi to each query: text and exit status."""

    gpus: str = ""
    old: str = ""
    listed: str = ""
    state: str = ""
    reasons: str = ""
    reasons_of_old: str = ""
    apps: str = ""
    code: int = 0
    unknown: tuple[str, ...] = ()


# One NVIDIA H200, driver 580.159.04, idle and under a matrix product: captured (the UUID is not the real one).
H200 = Smi(
    gpus="0, GPU-00000000-59dd-66bf-44bc-88d6a1a758dc, 580.159.04, 143771, 9.0, 700.00, Disabled, NVIDIA H200\n",
    listed="GPU 0: NVIDIA H200 (UUID: GPU-00000000-59dd-66bf-44bc-88d6a1a758dc)\n",
    state="0, 0, 0, 39, 117.36, P0, 375\n",
    reasons="0, 0x0000000000000001\n",
)
H200_BUSY = replace(
    H200,
    state="0, 97, 883, 61, 692.46, P0, 1515\n",
    reasons="0, 0x0000000000000004\n",
    apps="GPU-00000000-59dd-66bf-44bc-88d6a1a758dc, 499, 874, python3\n",
)
# A DGX Spark has no separate memory and no power limit (fields as in public reports of driver 580.159.03).
GB10 = Smi(
    gpus="0, GPU-00000000-5853-1036-cbfc-b54eac6acda1, 580.159.03, [N/A], 12.1, [N/A], [N/A], NVIDIA GB10\n",
    listed="GPU 0: NVIDIA GB10 (UUID: GPU-00000000-5853-1036-cbfc-b54eac6acda1)\n",
    state="0, 0, [N/A], 36, 3.47, P8, 208\n",
    reasons="0, 0x0000000000000001\n",
)
RTX_4090 = Smi(
    gpus="0, GPU-00000000-0000-0000-0000-000000004090, 550.54.15, 24564, 8.9, 450.00, [N/A], NVIDIA GeForce RTX 4090\n",
    listed="GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-00000000-0000-0000-0000-000000004090)\n",
    state="0, 1, 421, 41, 21.30, P8, 210\n",
    reasons="0, 0x0000000000000001\n",
)
# A driver that knows neither compute_cap nor MIG nor the new name of the reasons.
OLD_DRIVER = Smi(
    old="0, GPU-00000000-0000-0000-0000-00000000f100, 418.87.00, 16130, Tesla V100-SXM2-16GB\n",
    listed="GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-00000000-0000-0000-0000-00000000f100)\n",
    state="0, 0, 0, 31, 38.55, P0, 135\n",
    reasons_of_old="0, 0x0000000000000001\n",
    unknown=("compute_cap", "clocks_event_reasons.active"),
)
MIG = Smi(
    gpus="0, GPU-00000000-0000-0000-0000-0000000a100, 535.104.05, 81559, 9.0, 700.00, Enabled, NVIDIA H100 80GB HBM3\n",
    listed=(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-0000000a100)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-8d6a4f2e-0000-0000-0000-000000000005)\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-8d6a4f2e-0000-0000-0000-000000000007)\n"
    ),
    state="0, [N/A], 87, 33, 71.20, P0, 345\n",
    reasons="0, 0x0000000000000001\n",
)
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"
NO_DEVICES = "No devices were found\n"


def failing(text: str, code: int) -> Smi:
    """Return an nvidia-smi that answers every query with an error."""
    return Smi(gpus=text, old=text, listed=text, state=text, reasons=text, reasons_of_old=text, apps=text, code=code)


def install(directory: Path, smi: Smi) -> dict[str, str]:
    """Put it first on a PATH: the environment to use."""
    answers = {
        "*query-gpu=index,uuid,driver_version,memory.total,compute_cap,*": smi.gpus,
        "*query-gpu=index,uuid,driver_version,memory.total,name*": smi.old or smi.gpus,
        "*query-gpu=index,utilization.gpu,*": smi.state,
        "*query-gpu=index,clocks_event_reasons.active*": smi.reasons,
        "*query-gpu=index,clocks_throttle_reasons.active*": smi.reasons_of_old or smi.reasons,
        "*query-compute-apps=gpu_uuid,pid,used_memory,process_name*": smi.apps,
        "-L*": smi.listed,
    }
    lines = ["#!/bin/sh", 'case "$*" in']
    for field in smi.unknown:
        words = f'Field "{field}" is not a valid field to query.\n\n'
        lines.append(f"*{field}*) printf %s {shlex.quote(words)}; exit 2 ;;")
    lines += [f"{pattern}) printf %s {shlex.quote(text)}; exit {smi.code} ;;" for pattern, text in answers.items()]
    lines += ['*) echo "Invalid combination of input arguments."; exit 2 ;;', "esac"]
    return program(directory, "nvidia-smi", "\n".join(lines))


def program(directory: Path, name: str, script: str) -> dict[str, str]:
    """Put a program first on a PATH: the environment to use."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def only(directory: Path, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return a PATH with these programs of this machine, and no others."""
    directory.mkdir(exist_ok=True)
    for name in names:
        found = next((p for root in ("/usr/bin", "/bin") if (p := Path(root, name)).exists()), None)
        assert found is not None, name
        (directory / name).symlink_to(found)
    return {"PATH": str(directory)}
