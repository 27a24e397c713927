"""Read the hardware of a machine from the output of the probe. Only `hardware` runs the probe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.machine.ask import Ask, Reply
from patchstack.machine.gpu.classes import GpuClass, classify, conclusions, of_all
from patchstack.machine.probe import GPU_FIELDS, GPU_FIELDS_OF_OLD, Parts, number, probe, rows

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# Source: Linux, arch/arm64/include/asm/cputype.h
_ARM = {
    "0xd85": "Cortex-X925",
    "0xd87": "Cortex-A725",
    "0xd0c": "Neoverse-N1",
    "0xd49": "Neoverse-N2",
    "0xd40": "Neoverse-V1",
    "0xd4f": "Neoverse-V2",
    "0xd84": "Neoverse-V3",
    "0xd42": "Cortex-A78AE",
}
_MIG = re.compile(r"^\s+MIG (\S+)\s+Device", re.MULTILINE)
_LISTED = re.compile(r"^GPU (\d+): (.*?)(?: \(UUID: ([^)]+)\))?\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU.

    `memory` is in bytes, or None if the GPU has no memory of its own (a GB10 shares the machine's memory). `capability`
    is the compute capability, for example `12.1`, or None if the driver is too old to report it. `power_limit` is in
    watts. `mig_mode` is whether MIG is on. `mig` lists the profiles of the MIG instances, for example `1g.10gb`.
    """

    index: int
    name: str
    uuid: str
    driver: str
    memory: int | None = None
    capability: str | None = None
    power_limit: float | None = None
    mig_mode: bool = False
    mig: tuple[str, ...] = ()

    @property
    def kind(self) -> GpuClass:
        return classify(self.name, self.capability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The hardware of a machine.

    `platform` has the format of container platforms, for example `linux/amd64`. `cpu` is the processor's model.
    `memory` is in bytes. `boot` is the boot id. `contained` is the kind of container in which the probe ran, for
    example `docker`, or None outside a container. `gpu_problem` is the reason why the machine's GPUs could not be
    listed. It is empty if they were listed, or if the machine has no GPU.
    """

    host: str
    platform: str
    kernel: str
    cpu: str
    cpus: int | None
    memory: int | None
    boot: str | None
    contained: str | None
    gpus: tuple[Gpu, ...]
    gpu_problem: str = ""

    @property
    def kind(self) -> GpuClass:
        return GpuClass.UNKNOWN if self.gpu_problem else of_all([gpu.kind for gpu in self.gpus])

    @property
    def driver(self) -> str | None:
        return self.gpus[0].driver if self.gpus else None

    @property
    def conclusions(self) -> tuple[str, ...]:
        """Sentences that say what a test on this machine proves about a GB10."""
        return conclusions(self.kind, frozenset(gpu.capability for gpu in self.gpus if gpu.capability is not None))

    def identity(self) -> str:
        """Return one line that is the same on all machines with comparable results.

        The line is part of the keys of observations. It contains the platform, the processor, the driver, and the GPUs
        with their capabilities and MIG instances. If the GPUs cannot be listed, it contains `gpu unreadable` instead of
        the driver and the GPUs.
        """
        if self.gpu_problem:
            gpus = ["gpu unreadable"]
        elif not self.gpus:
            gpus = ["no gpu"]
        else:
            counts = Counter(_named(gpu) for gpu in self.gpus)
            gpus = [f"driver {self.driver}", *(f"{count}x {name}" for name, count in sorted(counts.items()))]
        return "; ".join([self.platform, self.cpu, *gpus])


def hardware(ask: Ask) -> Hardware:
    """Probe a machine and return its hardware.

    Raises `MissingError` if the machine does not answer, or if the output of the probe is incomplete.
    """
    return read_hardware(probe(ask))


def read_hardware(parts: Parts) -> Hardware:
    """Return the hardware from the parts of a probe's output."""
    system, _, rest = _line(parts, "kernel").partition(" ")
    release, _, machine = rest.partition(" ")
    gpus, problem = read_gpus(parts)
    cpus = _line(parts, "cpus")
    memory = number(_line(parts, "memory").partition(":")[2])
    return Hardware(
        host=_line(parts, "host") or "unknown",
        platform=f"{system.lower() or 'unknown'}/{_MACHINES.get(machine, machine or 'unknown')}",
        kernel=f"{system} {release}".strip(),
        cpu=_cpu(parts.get("cpu")),
        cpus=int(cpus) if cpus.isdecimal() else None,
        memory=None if memory is None else int(memory) * 1024,
        boot=_line(parts, "boot") or None,
        contained=_line(parts, "contained") or None,
        gpus=gpus,
        gpu_problem=problem,
    )


def read_gpus(parts: Parts) -> tuple[tuple[Gpu, ...], str]:
    """Return the GPUs, and the reason why they could not be listed.

    The reason is empty if the GPUs were listed, or if the machine has no GPU. If the driver does not answer, a reason
    is returned, because the machine may have a GPU.
    """
    smi = parts.get("smi")
    if smi is None or not smi.ok:
        module = parts.get("driver")
        if module is not None and module.ok and module.text.strip():
            return (), "NVIDIA's driver is loaded, but nvidia-smi was not found"
        return (), ""
    asked = parts.get("gpus")
    table = rows(asked, len(GPU_FIELDS))
    if table is None:
        table = rows(parts.get("old"), len(GPU_FIELDS_OF_OLD))
        if table is not None:
            table = [[*row[:4], "", "", "", row[4]] for row in table]
    if table is None:
        return (), _complaint(parts.get("old") or asked)
    if not table:
        return (), ""
    instances = _instances(parts.get("list"))
    found = []
    for index, uuid, driver, memory, capability, power, mig, name in table:
        if not index.isdecimal() or not name or name.startswith("["):
            return (), f"unexpected output of nvidia-smi: {' '.join(', '.join((index, uuid, name)).split())[:120]}"
        size = number(memory)
        found.append(
            Gpu(
                index=int(index),
                name=name,
                uuid=uuid,
                driver=driver,
                memory=None if size is None else int(size) << 20,
                capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
                power_limit=number(power),
                mig_mode=mig == "Enabled" or bool(instances.get(int(index))),
                mig=instances.get(int(index), ()),
            )
        )
    return tuple(found), ""


def _instances(listed: Reply | None) -> Mapping[int, tuple[str, ...]]:
    """Return the MIG profiles of each GPU by its index, from the output of `nvidia-smi -L`."""
    found: dict[int, tuple[str, ...]] = {}
    current = -1
    for line in listed.text.splitlines() if listed is not None else ():
        if match := _LISTED.match(line):
            current = int(match[1])
        elif match := _MIG.match(line):
            found[current] = (*found.get(current, ()), match[1])
    return found


def _complaint(said: Reply | None) -> str:
    """Return the reason why nvidia-smi printed no rows.

    Include a remedy if one is known. Source: nvidia-smi(1), RETURN VALUE.
    """
    if said is None:
        return "nvidia-smi was not asked"
    words = " ".join(said.text.split())[:300]
    if said.code in (124, 137):
        return "nvidia-smi does not answer within 20 s: is a GPU hanging?"
    if "No devices were found" in said.text:
        return "nvidia-smi finds no devices, although a driver is loaded"
    if "version mismatch" in said.text:
        return f"{words}: the driver was updated while it was loaded; restart the machine"
    if "couldn't communicate" in said.text:
        return f"{words} (nvidia-smi's exit code {said.code})"
    return f"nvidia-smi fails with exit code {said.code}{': ' if words else ''}{words}"


def _cpu(said: Reply | None) -> str:
    models = []
    for line in said.text.splitlines() if said is not None else ():
        what, _, value = line.partition(":")
        if what.strip() == "model name":
            models.append(" ".join(value.split()))
        elif what.strip() == "CPU part":
            models.append(_ARM.get(value.strip().lower(), f"arm {value.strip()}"))
    return "+".join(sorted(set(filter(None, models)))) or "unknown cpu"


def _named(gpu: Gpu) -> str:
    capability = f"sm_{gpu.capability.replace('.', '')}" if gpu.capability is not None else "sm unknown"
    cut = f" MIG {'+'.join(sorted(gpu.mig)) or 'without instances'}" if gpu.mig_mode else ""
    return f"{gpu.name} {capability}{cut}"


def _line(parts: Parts, name: str) -> str:
    """Return the only line of a part. Return an empty string if the part does not exist or failed."""
    said = parts.get(name)
    return " ".join(said.text.split()) if said is not None and said.ok else ""
