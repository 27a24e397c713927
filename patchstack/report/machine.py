"""A machine and whether it is fit to be judged on: as a table, as lines for a file, and as documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from patchstack.machine.gpu.lock import Holder
from patchstack.machine.gpu.preflight import Preflight
from patchstack.machine.hardware import Gpu, Hardware
from patchstack.report.streams import VERDICTS
from patchstack.report.table import Give, Table
from patchstack.verdict import Verdict

SCHEMA = "patchstack.gpu/1"


def preflight_table(flight: Preflight) -> Table:
    """A row for each check."""
    return Table(
        titles=("check", "verdict", "what was seen"),
        rows=[(check.name, _told(check.verdict, check.allowed), check.words) for check in flight.checks],
        styles=VERDICTS,
        gives={"what was seen": Give.FOLD},
    )


def _told(verdict: Verdict, allowed: bool) -> str:
    return f"{verdict.value}, allowed" if allowed else verdict.value


def hardware_lines(machine: Hardware) -> Iterator[str]:
    """The machine as `name=value` lines, as serving harnesses write them to hardware.txt; conclusions come last."""
    yield f"host={machine.host}"
    yield f"platform={machine.platform}"
    yield f"kernel={machine.kernel}"
    yield f"cpu={machine.cpu}, {machine.cpus if machine.cpus is not None else 'unknown'} CPUs"
    yield f"memory={_size(machine.memory)}"
    for gpu in machine.gpus:
        yield f"GPU {gpu.index}: {gpu.name}{_cut(gpu)}"
        yield f"driver={gpu.driver}"
        yield f"compute_cap={gpu.capability or 'unknown'}"
        yield f"gpu_memory={_size(gpu.memory) if gpu.memory is not None else 'none of its own told'}"
        yield f"power_limit={'unknown' if gpu.power_limit is None else f'{gpu.power_limit:g} W'}"
    if machine.gpu_problem:
        yield f"gpu_problem={machine.gpu_problem}"
    yield f"hardware_class={machine.kind.value}"
    yield f"identity={machine.identity()}"
    for sentence in machine.conclusions:
        yield f"note: {sentence}"


def hardware_document(machine: Hardware) -> dict[str, Any]:
    """The machine as JSON. Sizes are in bytes, power in watts; null is what is not known, or not there."""
    return {
        "host": machine.host,
        "platform": machine.platform,
        "kernel": machine.kernel,
        "cpu": machine.cpu,
        "cpus": machine.cpus,
        "memory": machine.memory,
        "boot": machine.boot,
        "contained": machine.contained,
        "driver": machine.driver,
        "gpus": [
            {
                "index": gpu.index,
                "name": gpu.name,
                "uuid": gpu.uuid,
                "driver": gpu.driver,
                "memory": gpu.memory,
                "capability": gpu.capability,
                "power_limit": gpu.power_limit,
                "mig": list(gpu.mig) if gpu.mig_mode else None,
                "class": gpu.kind.value,
            }
            for gpu in machine.gpus
        ],
        "gpu_problem": machine.gpu_problem or None,
        "class": machine.kind.value,
        "conclusions": list(machine.conclusions),
        "identity": machine.identity(),
    }


def preflight_document(flight: Preflight) -> dict[str, Any]:
    """The checks as JSON. `verdict` is PASS or INVALID: a machine that is not fit is no failure of a build."""
    return {
        "verdict": flight.verdict.value,
        "reason": flight.reason,
        "waited": round(flight.waited, 1),
        "checks": [
            {"name": check.name, "verdict": check.verdict.value, "words": check.words, "allowed": check.allowed}
            for check in flight.checks
        ],
    }


def lock_document(holders: Iterable[Holder]) -> list[dict[str, Any]]:
    """The lock's places as JSON, each with who has it."""
    return [
        {
            "place": holder.place.path,
            "standing": holder.standing.value,
            "words": holder.words,
            "owner": None
            if holder.owner is None
            else {
                "user": holder.owner.user,
                "host": holder.owner.host,
                "pid": holder.owner.pid,
                "purpose": holder.owner.purpose,
                "since": holder.owner.since,
            },
        }
        for holder in holders
    ]


def gpu_document(machine: str, flight: Preflight, holders: Iterable[Holder]) -> dict[str, Any]:
    """The document `patchstack.gpu/1`. `machine` is how the machine was reached."""
    return {
        "schema": SCHEMA,
        "machine": machine,
        "hardware": hardware_document(flight.hardware),
        "preflight": preflight_document(flight),
        "lock": lock_document(holders),
    }


def _size(count: int | None) -> str:
    return "unknown" if count is None else f"{count / (1 << 30):.1f} GiB"


def _cut(gpu: Gpu) -> str:
    return f" (MIG: {', '.join(gpu.mig) or 'no instances'})" if gpu.mig_mode else ""
