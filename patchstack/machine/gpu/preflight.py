"""Check whether a machine is ready for measurements.

A machine is ready if its GPU is idle and not throttled, its CPUs are idle, no other containers run, and the GPU's lock
is free. A machine that is not ready makes a gate INVALID and never FAIL, because these checks are not about the build.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from patchstack.causes import BadValue
from patchstack.engine.docker.owner import own_label
from patchstack.machine.ask import PLACES, Ask, Place
from patchstack.machine.gpu.activity import Activity, Container, read_activity
from patchstack.machine.gpu.lock import Held, Holder, Standing, look
from patchstack.machine.hardware import Hardware, read_hardware
from patchstack.machine.probe import probe
from patchstack.tasks import task
from patchstack.verdict import Verdict

GPU_CHECKS = ("gpu", "gpu-apps", "gpu-load", "throttle", "lock")
NAMES = (*GPU_CHECKS, "containers", "cpu-load")
_SETTLING = ("gpu-apps", "gpu-load", "throttle", "cpu-load")
"""The checks that may soon pass without action, for example after a build has ended."""
_HIDDEN_MEMORY = 1024.0
"""The limit for used GPU memory, in MiB, if the processes that use it are not visible.

A larger value means that another program uses the GPU. A CUDA context alone uses a few hundred MiB.
"""
_POLL = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requirements of a run.

    `gpu` is whether the run needs a GPU. `allow` contains the names of checks that may fail. `apps` contains patterns
    of programs that may use the GPU, for example `*/Xorg`. `containers` contains patterns of names or images of
    containers that may run. `gpu_load` is the largest allowed load of a GPU, in percent. `cpu_load` is the largest
    allowed share of busy CPUs (0 to 1). `settle` is the time to wait for checks that may soon pass, in seconds.
    """

    gpu: bool = True
    allow: frozenset[str] = frozenset()
    apps: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    gpu_load: float = 5.0
    cpu_load: float = 0.25
    settle: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check.

    FAIL means that the requirement is not met. INVALID means that the state could not be read. `words` describe the
    state. `allowed` is whether the user allows the check to fail.
    """

    name: str
    verdict: Verdict
    words: str
    allowed: bool = False

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.PASS or self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The results of all checks, and the hardware. `waited` is the time in seconds for which checks were repeated."""

    checks: tuple[Check, ...]
    hardware: Hardware
    waited: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """PASS if a gate can run on the machine, otherwise INVALID."""
        return Verdict.PASS if self.ok else Verdict.INVALID

    @property
    def reason(self) -> str:
        """The reason why the machine is not ready, in one line, or an empty string if it is ready."""
        return "; ".join(f"{check.name}: {check.words}" for check in self.checks if not check.ok)


def allowed(names: tuple[str, ...]) -> frozenset[str]:
    """Return the names as a set. Raises `UsageError` if a name is not the name of a check."""
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            perhaps = f"perhaps you meant {near[0]}; " if near else ""
            raise BadValue(
                f"{name!r} is not a check of the machine", hint=f"{perhaps}the checks are: {', '.join(NAMES)}"
            )
    return frozenset(names)


@task("checking whether the GPU is idle")
def preflight(
    ask: Ask,
    wanted: Wanted,
    *,
    places: tuple[Place, ...] = PLACES,
    held: Held | None = None,
    tell: Callable[[str], None] | None = None,
) -> Preflight:
    """Check whether the machine is ready, and return the results of all checks.

    If every failed check may soon pass, the checks are repeated for up to `wanted.settle` seconds. `held` is the lock
    that the caller has, if any. `tell` receives a message before the first wait. Raises `UsageError` if `wanted.allow`
    contains an unknown name, and `MissingError` if the machine does not answer.
    """
    allowed(tuple(wanted.allow))
    began = time.monotonic()
    looks = 0
    while True:
        parts = probe(ask, state=True)
        machine = read_hardware(parts)
        holders = look(ask, places, tokens=(held.token,) if held is not None else ()) if wanted.gpu else ()
        checks = preflight_checks(machine, read_activity(parts), holders, wanted, own=own_label())
        waited = time.monotonic() - began
        bad = [check.name for check in checks if not check.ok]
        lasting = [each for each in checks if not each.ok and not _may_settle(each)]
        if not bad or lasting or waited + _POLL > wanted.settle:
            return Preflight(checks=_timed(checks, waited) if looks else checks, hardware=machine, waited=waited)
        if tell is not None and not looks:
            tell(f"the machine is not idle yet ({', '.join(bad)}): waiting up to {wanted.settle:g} s")
        looks += 1
        time.sleep(_POLL)


def preflight_checks(
    machine: Hardware, activity: Activity, holders: tuple[Holder, ...], wanted: Wanted, *, own: str
) -> tuple[Check, ...]:
    """Return the results of all checks for a probed state. `own` is the owner label of this process's containers."""
    checks = [_containers(activity, wanted, own), _cpu(activity, wanted)]
    if wanted.gpu:
        checks = [_gpu(machine), *(_running(machine, activity, wanted) if machine.gpus else ()), *checks]
        checks.append(_lock(holders))
    return tuple(
        replace(check, allowed=check.verdict is not Verdict.PASS and check.name in wanted.allow) for check in checks
    )


def _gpu(machine: Hardware) -> Check:
    if machine.gpu_problem:
        return _check("gpu", Verdict.INVALID, machine.gpu_problem)
    if not machine.gpus:
        return _check("gpu", Verdict.FAIL, f"{machine.host} has no NVIDIA GPU")
    return _check("gpu", Verdict.PASS, machine.identity())


def _running(machine: Hardware, activity: Activity, wanted: Wanted) -> list[Check]:
    return [_apps(machine, activity, wanted), _load(machine, activity, wanted), _throttle(activity)]


def _apps(machine: Hardware, activity: Activity, wanted: Wanted) -> Check:
    if activity.apps is None:
        return _check("gpu-apps", Verdict.INVALID, "nvidia-smi does not list the compute processes")
    strange = [app for app in activity.apps if not any(fnmatchcase(app.name, pattern) for pattern in wanted.apps)]
    if strange:
        words = ", ".join(f"{app.name} (pid {app.pid})" for app in strange[:4])
        more = f" and {len(strange) - 4} more" if len(strange) > 4 else ""
        return _check("gpu-apps", Verdict.FAIL, f"{_count(len(strange), 'compute process')}: {words}{more}")
    if activity.contained is None:
        return _check(
            "gpu-apps", Verdict.PASS, "no compute processes" if not activity.apps else "only allowed processes"
        )
    # Inside a container, nvidia-smi does not list processes outside it, but counts their GPU memory.
    used = [gpu.memory for gpu in activity.gpus or ()]
    known = [memory for memory in used if memory is not None]
    if any(memory > _HIDDEN_MEMORY for memory in known):
        return _check(
            "gpu-apps",
            Verdict.FAIL,
            f"{max(known):g} MiB are in use by processes that are not visible from inside {activity.contained}",
        )
    if known and len(known) == len(machine.gpus):
        return _check("gpu-apps", Verdict.PASS, f"none seen from inside {activity.contained}, and no memory in use")
    return _check("gpu-apps", Verdict.INVALID, f"compute processes cannot be seen from inside {activity.contained}")


def _load(machine: Hardware, activity: Activity, wanted: Wanted) -> Check:
    loads = [gpu.load for gpu in activity.gpus or ()]
    known = [load for load in loads if load is not None]
    if any(load > wanted.gpu_load for load in known):
        return _check("gpu-load", Verdict.FAIL, f"the GPU is {max(known):g}% busy; the limit is {wanted.gpu_load:g}%")
    if len(known) < len(machine.gpus):
        cut = [gpu for gpu in machine.gpus if gpu.mig_mode]
        why = "a GPU with MIG instances reports no load" if cut else "nvidia-smi reports none"
        return _check("gpu-load", Verdict.INVALID, f"the GPU's load cannot be read: {why}")
    return _check("gpu-load", Verdict.PASS, f"{max(known):g}% busy")


def _throttle(activity: Activity) -> Check:
    gpus = activity.gpus or ()
    heat = ", ".join(f"{gpu.temperature:g} °C" for gpu in gpus if gpu.temperature is not None)
    power = ", ".join(f"{gpu.power:g} W" for gpu in gpus if gpu.power is not None)
    power += " (at its power cap)" if any(gpu.capped for gpu in gpus) else ""
    state = "; ".join(filter(None, (heat, power)))
    slowed = [f"GPU {gpu.index}: {', '.join(gpu.slowed)}" for gpu in gpus if gpu.slowed]
    if slowed:
        return _check("throttle", Verdict.FAIL, f"clocks are reduced ({'; '.join(slowed)}){_after(state)}")
    if not gpus or any(gpu.slowed is None for gpu in gpus):
        return _check("throttle", Verdict.INVALID, f"it is unknown whether clocks are reduced{_after(state)}")
    return _check("throttle", Verdict.PASS, f"clocks are not reduced{_after(state)}")


def _containers(activity: Activity, wanted: Wanted, own: str) -> Check:
    if activity.containers is None:
        return _check("containers", Verdict.INVALID, activity.containers_problem)
    strange = [each for each in activity.containers if not _ours(each, own) and not _permitted(each, wanted)]
    if strange:
        words = ", ".join(_called(each) for each in strange[:4])
        more = f" and {len(strange) - 4} more" if len(strange) > 4 else ""
        verb = "runs" if len(strange) == 1 else "run"
        return _check("containers", Verdict.FAIL, f"{_count(len(strange), 'other container')} {verb}: {words}{more}")
    return _check("containers", Verdict.PASS, "only patchstack's own" if activity.containers else "none")


def _ours(container: Container, own: str) -> bool:
    return bool(container.owner) and container.owner == own


def _permitted(container: Container, wanted: Wanted) -> bool:
    return any(fnmatchcase(text, p) for p in wanted.containers for text in (container.name, container.image))


def _called(container: Container) -> str:
    """Return the name of a container for a message.

    The name is followed by the container's job if another patchstack process runs the container. For other containers,
    the name of the image is added if the image has one.
    """
    if container.job:
        return f"{container.name} (a patchstack job: {container.job})"
    return container.name if container.image.startswith("sha256:") else f"{container.name} ({container.image})"


def _cpu(activity: Activity, wanted: Wanted) -> Check:
    """Check the current CPU load.

    The one-minute load average is only a fallback, because it still includes a build that has just ended.
    """
    average = f"; load average {activity.load:g}" if activity.load is not None else ""
    busy = activity.busy if activity.busy is not None else activity.load
    if busy is None or activity.cpus is None:
        return _check("cpu-load", Verdict.INVALID, "the load of the CPUs cannot be read")
    words = f"{busy:.1f} of {activity.cpus} CPUs busy{average}"
    if busy > wanted.cpu_load * activity.cpus:
        return _check("cpu-load", Verdict.FAIL, f"{words}; the limit is {wanted.cpu_load * activity.cpus:.1f}")
    return _check("cpu-load", Verdict.PASS, words)


def _lock(holders: tuple[Holder, ...]) -> Check:
    taken = [holder for holder in holders if holder.standing in (Standing.LIVE, Standing.FOREIGN)]
    if taken:
        return _check("lock", Verdict.FAIL, "; ".join(holder.words for holder in taken))
    unclear = [holder for holder in holders if holder.standing is Standing.UNREADABLE]
    if unclear:
        return _check("lock", Verdict.INVALID, "; ".join(holder.words for holder in unclear))
    if not holders:
        return _check("lock", Verdict.INVALID, "no directory is given for the lock")
    return _check("lock", Verdict.PASS, "; ".join(holder.words for holder in holders))


def _may_settle(check: Check) -> bool:
    return check.name in _SETTLING and check.verdict is Verdict.FAIL


def _timed(checks: tuple[Check, ...], waited: float) -> tuple[Check, ...]:
    """Return the checks, with the waiting time added to the words of those in `_SETTLING`."""
    return tuple(
        replace(check, words=f"{check.words} (after {waited:.0f} s)") if check.name in _SETTLING else check
        for check in checks
    )


def _check(name: str, verdict: Verdict, words: str) -> Check:
    return Check(name=name, verdict=verdict, words=words)


def _count(number: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"1 {what}" if number == 1 else f"{number} {plural}"


def _after(words: str) -> str:
    return f"; {words}" if words else ""
