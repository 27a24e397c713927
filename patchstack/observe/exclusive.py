"""Check that a machine is suitable for gates, and lock its GPU while gates run."""

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
    """The machine is not suitable for gates, because the results of its runs could not be judged."""

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
    """Yield the identity of the machine, as one line for the keys of observations.

    With `gpus`, the machine must pass all checks except those in `allow`, and its GPUs are locked while the body runs.

    Raises `NotFit` if the machine fails a check, `GpuTaken` if another process holds the lock of the GPU, and
    `MissingError` if the machine does not answer.
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
                f"the machine is not fit for gates: {flight.reason}",
                hint="wait until the machine is idle, or list the check under allow: in the suite; "
                "run 'patchstack gpu status' to show the checks",
            )
        yield flight.hardware.identity()
        held.check()
