"""Read the activity on a machine from the output of the probe.

All functions are pure. A value that could not be read is None.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from patchstack.machine.ask import Reply
from patchstack.machine.probe import APP_FIELDS, STATE_FIELDS, Parts, number, rows

# Source: nvml.h, nvmlClocksEventReasons
_REASONS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""The bits that report reduced clocks because of heat or lack of power.

Other bits mean a setting or an idle GPU. The power cap is not included, because a GPU under load normally reaches it,
and some idle GPUs report it too.
"""
_CAP = 0x4


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A compute process on a GPU, as nvidia-smi lists it. `memory` is in MiB."""

    pid: str
    name: str
    memory: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """The state of a GPU.

    `load` is in percent. `memory` is the used memory in MiB. `temperature` is in degrees Celsius, and `power` is in
    watts. `slowed` lists the reasons (heat or power) for low clocks, or is None if the driver does not report them.
    `capped` is whether the GPU is at its power limit.
    """

    index: int
    load: float | None
    memory: float | None
    temperature: float | None
    power: float | None
    slowed: tuple[str, ...] | None
    capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A running container.

    `owner` and `job` are the labels of patchstack's containers. They are empty for other containers.
    """

    id: str
    name: str
    image: str
    owner: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The activity on a machine.

    `contained` is the kind of container in which the probe ran, or None outside a container. `busy` is the mean number
    of busy CPUs over about half a second. `load` is the one-minute load average. If containers cannot be listed,
    `containers` is None and `containers_problem` is the reason.
    """

    contained: str | None
    cpus: int | None
    gpus: tuple[GpuState, ...] | None
    apps: tuple[App, ...] | None
    busy: float | None
    load: float | None
    containers: tuple[Container, ...] | None
    containers_problem: str = ""


def read_activity(parts: Parts) -> Activity:
    """Return the activity from the parts of a probe's output. The probe must have run with `state`."""
    contained = parts.get("contained")
    inside = contained.text.strip() if contained is not None else ""
    cpus = parts["cpus"].text.strip() if "cpus" in parts else ""
    containers, problem = _containers(parts, inside)
    count = int(cpus) if cpus.isdecimal() else None
    return Activity(
        contained=inside or None,
        cpus=count,
        gpus=_gpus(parts),
        apps=_apps(parts.get("apps")),
        busy=_busy(parts, count),
        load=number(parts["load"].text) if "load" in parts and parts["load"].ok else None,
        containers=containers,
        containers_problem=problem,
    )


def _gpus(parts: Parts) -> tuple[GpuState, ...] | None:
    table = rows(parts.get("state"), len(STATE_FIELDS) - 1)
    if table is None:
        return None
    reasons = _reasons(parts.get("reasons")) or _reasons(parts.get("reasons_of_old"))
    return tuple(_gpu(row, reasons.get(row[0])) for row in table if row[0].isdecimal())


def _gpu(row: list[str], reasons: int | None) -> GpuState:
    return GpuState(
        index=int(row[0]),
        load=number(row[1]),
        memory=number(row[2]),
        temperature=number(row[3]),
        power=number(row[4]),
        slowed=None if reasons is None else tuple(words for bit, words in _REASONS.items() if reasons & bit),
        capped=bool((reasons or 0) & _CAP),
    )


def _reasons(said: Reply | None) -> dict[str, int]:
    """Return the reasons for low clocks of each GPU as a bit mask, by the GPU's index."""
    found = {}
    for row in rows(said, 1) or ():
        with contextlib.suppress(ValueError):
            found[row[0]] = int(row[1], 16)
    return found


def _apps(said: Reply | None) -> tuple[App, ...] | None:
    table = rows(said, len(APP_FIELDS))
    if table is None:
        return None
    return tuple(App(pid=row[1], name=row[3], memory=number(row[2])) for row in table)


def _busy(parts: Parts, cpus: int | None) -> float | None:
    """Return the mean number of busy CPUs between two readings of /proc/stat.

    Return None if a reading is missing, or if `cpus` is None. The first fields of the `cpu` line are user, nice,
    system, idle, iowait, irq, softirq and steal, in ticks. Source: proc(5).
    """
    before, after = (_ticks(parts.get(name)) for name in ("stat", "stat_later"))
    if before is None or after is None or cpus is None or sum(after) <= sum(before):
        return None
    idle = (after[3] + after[4]) - (before[3] + before[4])
    return max(0.0, cpus * (1 - idle / (sum(after) - sum(before))))


def _ticks(said: Reply | None) -> list[int] | None:
    words = said.text.split() if said is not None and said.ok else []
    if len(words) < 9 or words[0] != "cpu" or not all(word.isdecimal() for word in words[1:9]):
        return None
    return [int(word) for word in words[1:9]]


def _containers(parts: Parts, inside: str) -> tuple[tuple[Container, ...] | None, str]:
    engines = [(name, parts[name]) for name in ("docker1", "docker2", "podman") if name in parts]
    found: dict[str, Container] = {}
    for name, said in engines:
        if not said.ok:
            words = " ".join(said.text.split())[:200] or f"exit code {said.code}"
            return None, f"{name.rstrip('12')} does not list its containers: {words}"
        for line in filter(str.strip, said.text.splitlines()):
            fields = line.split("\t")
            if len(fields) != 5:
                return None, f"{name.rstrip('12')} printed an unexpected line for a container: {line.strip()[:120]}"
            identity, owner, job, image, names = (field.strip() for field in fields)
            found[identity] = Container(id=identity, name=names, image=image, owner=owner, job=job)
    if inside and not engines:
        return None, f"other containers are not visible from inside a container ({inside})"
    return tuple(found.values()), ""
