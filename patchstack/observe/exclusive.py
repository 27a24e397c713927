"""The machine that gates run on: what it is, whether it is fit to be judged on, and that its GPU is ours meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from patchstack.engine.protocol import Engine
from patchstack.errors import Exit, PatchstackError
from patchstack.machine.ask import reach
from patchstack.machine.gpu.lock import gpu_lock
from patchstack.machine.gpu.preflight import Wanted, allowed, preflight
from patchstack.machine.hardware import hardware


class NotFit(PatchstackError):
    """The machine is not fit: what would be seen there could not be judged."""

    code = "PS0716"
    exit_code = Exit.INVALID


@contextlib.contextmanager
def fit_machine(
    engine: Engine,
    open_another: Callable[[], Engine],
    *,
    gpus: bool,
    image: str | None,
    allow: Sequence[str],
    purpose: str,
    wait: float,
    tell: Callable[[str], None],
) -> Iterator[str]:
    """What the machine is, in one line for the keys of observations. For programs that use GPUs, they are locked for
    the time of the block, and the machine must be calm but for the checks in `allow`.

    Raises `NotFit` if it is not, `GpuTaken` if somebody has the GPU and keeps it, `MissingError` where the
    machine does not answer.
    """
    permitted = allowed(tuple(allow))
    reached = reach(engine, open_another, image=image, gpus=gpus)
    if not gpus:
        yield hardware(reached.ask).identity()
        return
    with gpu_lock(reached.ask, purpose, places=reached.places, wait=wait, tell=tell) as held:
        flight = preflight(reached.ask, Wanted(gpu=True, allow=permitted), places=reached.places, held=held, tell=tell)
        if not flight.ok:
            raise NotFit(
                f"the machine is not fit to be judged on: {flight.reason}",
                hint="wait until it is calm, or allow a check by its name (allow: in the suite); "
                "patchstack gpu status shows them",
            )
        yield flight.hardware.identity()
        held.check()
