"""Show the checks of a machine as a table, and its hardware as lines for a file."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.machine.gpu.preflight import Preflight
from patchstack.machine.hardware import Gpu, Hardware
from patchstack.report.streams import VERDICTS
from patchstack.report.table import Give, Table
from patchstack.verdict import Verdict


def preflight_table(flight: Preflight) -> Table:
    """Return a table with a row for each check."""
    return Table(
        titles=("check", "verdict", "what was seen"),
        rows=[(check.name, _told(check.verdict, check.allowed), check.words) for check in flight.checks],
        styles=VERDICTS,
        gives={"what was seen": Give.FOLD},
    )


def _told(verdict: Verdict, allowed: bool) -> str:
    return f"{verdict.value}, allowed" if allowed else verdict.value


def hardware_lines(machine: Hardware) -> Iterator[str]:
    """Yield lines that describe the machine, in the form that serving harnesses write to hardware.txt.

    Most lines have the form `name=value`. The conclusions come last, as notes.
    """
    yield f"host={machine.host}"
    yield f"platform={machine.platform}"
    yield f"kernel={machine.kernel}"
    yield f"cpu={machine.cpu}, {machine.cpus if machine.cpus is not None else 'unknown'} CPUs"
    yield f"memory={_size(machine.memory)}"
    for gpu in machine.gpus:
        yield f"GPU {gpu.index}: {gpu.name}{_cut(gpu)}"
        yield f"driver={gpu.driver}"
        yield f"compute_cap={gpu.capability or 'unknown'}"
        yield f"gpu_memory={_size(gpu.memory) if gpu.memory is not None else 'no separate memory reported'}"
        yield f"power_limit={'unknown' if gpu.power_limit is None else f'{gpu.power_limit:g} W'}"
    if machine.gpu_problem:
        yield f"gpu_problem={machine.gpu_problem}"
    yield f"hardware_class={machine.kind.value}"
    yield f"identity={machine.identity()}"
    for sentence in machine.conclusions:
        yield f"note: {sentence}"


def _size(count: int | None) -> str:
    return "unknown" if count is None else f"{count / (1 << 30):.1f} GiB"


def _cut(gpu: Gpu) -> str:
    return f" (MIG: {', '.join(gpu.mig) or 'no instances'})" if gpu.mig_mode else ""
