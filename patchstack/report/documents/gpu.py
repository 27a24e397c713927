"""`patchstack.gpu/1`: a machine, the checks of the machine, and the holders of its GPU lock."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from patchstack.document import Document, Part
from patchstack.machine.gpu.lock import Holder
from patchstack.machine.gpu.preflight import Preflight
from patchstack.machine.hardware import Gpu, Hardware


class GpuEntry(Part, frozen=True, kw_only=True):
    """A GPU.

    `memory` is in bytes; it is null for a GPU without separate memory. `power_limit` is in watts. `mig` lists the
    profiles of the GPU's MIG instances, or is null if MIG is off.
    """

    index: int
    name: str
    uuid: str
    driver: str
    memory: int | None
    capability: str | None
    power_limit: float | None
    mig: tuple[str, ...] | None
    kind: str = msgspec.field(name="class")


class HardwareEntry(Part, frozen=True, kw_only=True):
    """A machine.

    `memory` is in bytes, or null if unknown. Results from machines with the same `identity` can be compared.
    """

    host: str
    platform: str
    kernel: str
    cpu: str
    cpus: int | None
    memory: int | None
    boot: str | None
    contained: str | None
    driver: str | None
    gpus: tuple[GpuEntry, ...]
    gpu_problem: str | None
    kind: str = msgspec.field(name="class")
    conclusions: tuple[str, ...]
    identity: str


class CheckEntry(Part, frozen=True, kw_only=True):
    """A check of the machine. `allowed` is true if the user allows this check to fail."""

    name: str
    verdict: str
    words: str
    allowed: bool


class PreflightEntry(Part, frozen=True, kw_only=True):
    """The results of all checks.

    `verdict` is PASS or INVALID. It is never FAIL, because these checks do not judge a build. `waited` is in seconds.
    """

    verdict: str
    reason: str
    waited: float
    checks: tuple[CheckEntry, ...]


class OwnerEntry(Part, frozen=True, kw_only=True):
    """The process that holds a lock.

    `since` is in seconds since 1970, by the clock of the machine with the GPU.
    """

    user: str
    host: str
    pid: int
    purpose: str
    since: float


class HolderEntry(Part, frozen=True, kw_only=True):
    """A directory of the GPU lock, and the process that holds the lock there.

    `place` is the path of the directory. `owner` is null if no owner is known.
    """

    place: str
    standing: str
    words: str
    owner: OwnerEntry | None


class GpuDocument(Document, frozen=True, kw_only=True, tag="patchstack.gpu/1"):
    """A machine and its lock. `machine` describes how the machine was reached."""

    machine: str
    hardware: HardwareEntry
    preflight: PreflightEntry
    lock: tuple[HolderEntry, ...]


def gpu_document(machine: str, flight: Preflight, holders: Iterable[Holder]) -> GpuDocument:
    """Convert the checks and the lock holders of a machine to the JSON document."""
    return GpuDocument(
        machine=machine,
        hardware=hardware_entry(flight.hardware),
        preflight=preflight_entry(flight),
        lock=tuple(map(_holder, holders)),
    )


def hardware_entry(machine: Hardware) -> HardwareEntry:
    """Convert a machine to a part of a document."""
    return HardwareEntry(
        host=machine.host,
        platform=machine.platform,
        kernel=machine.kernel,
        cpu=machine.cpu,
        cpus=machine.cpus,
        memory=machine.memory,
        boot=machine.boot,
        contained=machine.contained,
        driver=machine.driver,
        gpus=tuple(map(_gpu, machine.gpus)),
        gpu_problem=machine.gpu_problem or None,
        kind=machine.kind.value,
        conclusions=tuple(machine.conclusions),
        identity=machine.identity(),
    )


def preflight_entry(flight: Preflight) -> PreflightEntry:
    """Convert the checks of a machine to a part of a document."""
    return PreflightEntry(
        verdict=flight.verdict.value,
        reason=flight.reason,
        waited=round(flight.waited, 1),
        checks=tuple(
            CheckEntry(name=check.name, verdict=check.verdict.value, words=check.words, allowed=check.allowed)
            for check in flight.checks
        ),
    )


def _gpu(gpu: Gpu) -> GpuEntry:
    return GpuEntry(
        index=gpu.index,
        name=gpu.name,
        uuid=gpu.uuid,
        driver=gpu.driver,
        memory=gpu.memory,
        capability=gpu.capability,
        power_limit=gpu.power_limit,
        mig=tuple(gpu.mig) if gpu.mig_mode else None,
        kind=gpu.kind.value,
    )


def _holder(holder: Holder) -> HolderEntry:
    owner = holder.owner
    return HolderEntry(
        place=holder.place.path,
        standing=holder.standing.value,
        words=holder.words,
        owner=None
        if owner is None
        else OwnerEntry(user=owner.user, host=owner.host, pid=owner.pid, purpose=owner.purpose, since=owner.since),
    )
