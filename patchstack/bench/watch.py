"""Sample the GPUs during runs, and decide which pairs are thrown away.

The decision uses only the two reference runs of a pair. It does not use the result, the order of the sides, or samples
from the sides' runs. So a side that makes the machine hot or slow cannot cause its own bad runs to be thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median

from patchstack.document import Part
from patchstack.errors import PatchstackError
from patchstack.machine.ask import Ask
from patchstack.machine.probe import number

LOW_CLOCK = 0.9
"""A pair is thrown away if the clock of a reference run is below this share of the machine's usual clock."""
_LOADED = 50.0  # percent
_EACH = 1.0  # seconds
# The bits of nvmlClocksEventReasons (nvml.h) for heat, power, and the brake of the power supply.
_SLOWED = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat (hardware)", 0x80: "power brake"}
_QUERY = """
nvidia-smi --query-gpu=clocks.sm,power.draw,temperature.gpu,utilization.gpu --format=csv,noheader,nounits || exit
echo --
nvidia-smi --query-gpu=clocks_event_reasons.active --format=csv,noheader 2>/dev/null ||
    nvidia-smi --query-gpu=clocks_throttle_reasons.active --format=csv,noheader
echo --
nvidia-smi --query-compute-apps=pid --format=csv,noheader
"""


class Watched(Part, frozen=True, kw_only=True):
    """The state of the GPU during a run. A value is null if the machine does not report it.

    `samples` is the number of samples, and `loaded` is the number of samples under load. `clock` is the median clock
    under load in MHz, and `power` is the median power under load in watts. `temperature` is the highest temperature in
    degrees Celsius. `slowed` lists the reasons for low clocks under load. `processes` is the largest number of compute
    processes at one time.
    """

    samples: int
    loaded: int
    clock: float | None
    power: float | None
    temperature: float | None
    slowed: tuple[str, ...]
    processes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The state of the GPUs at one moment. If the machine has several GPUs, `clock` is the lowest value of all GPUs,
    and each other figure is the highest."""

    clock: float | None
    power: float | None
    temperature: float | None
    load: float | None
    slowed: tuple[str, ...] = ()
    processes: int | None = None


@dataclass(slots=True)
class Watch:
    """Samples a machine's GPUs during a run, every `each` seconds. If `ask` is None, nothing is sampled."""

    ask: Ask | None
    each: float = _EACH
    _failed: int = field(default=0, init=False)

    @contextmanager
    def watching(self) -> Iterator[Callable[[], Watched | None]]:
        """Sample until the end of the block. Yield a function that returns the summary of the samples.

        The function is called after the block. It returns None if nothing is sampled.
        """
        if self.ask is None:
            yield lambda: None
            return
        samples: list[Sample] = []
        over = threading.Event()
        thread = threading.Thread(target=self._sample, args=(self.ask, samples, over), daemon=True)
        thread.start()
        try:
            yield lambda: summary(samples)
        finally:
            over.set()
            thread.join(timeout=30)

    def _sample(self, ask: Ask, samples: list[Sample], over: threading.Event) -> None:
        while not over.wait(self.each if samples else 0):
            with suppress(PatchstackError, OSError):
                code, text = ask(("sh", "-c", _QUERY))
                if code == 0 and (sample := read_sample(text)) is not None:
                    samples.append(sample)
                    continue
            self._failed += 1
            if self._failed > 3:
                return
            over.wait(self.each)


def read_sample(text: str) -> Sample | None:
    """Parse the output of `_QUERY`: figures, reasons for low clocks, and processes. Return None if the output has no
    figures."""
    parts = [part.strip() for part in text.split("--\n")]
    rows = [[number(word) for word in line.split(",")] for line in parts[0].splitlines() if line.count(",") == 3]
    if not rows:
        return None
    clocks, powers, temperatures, loads = ([row[at] for row in rows if row[at] is not None] for at in range(4))
    reasons = 0
    for line in parts[1].splitlines() if len(parts) > 1 else ():
        with suppress(ValueError):
            reasons |= int(line.strip(), 16)
    pids = [line for line in parts[2].splitlines() if line.strip().isdigit()] if len(parts) > 2 else None
    return Sample(
        clock=min((one for one in clocks if one is not None), default=None),
        power=max((one for one in powers if one is not None), default=None),
        temperature=max((one for one in temperatures if one is not None), default=None),
        load=max((one for one in loads if one is not None), default=None),
        slowed=tuple(words for bit, words in _SLOWED.items() if reasons & bit),
        processes=len(set(pids)) if pids is not None else None,
    )


def summary(samples: Sequence[Sample]) -> Watched:
    """Summarize samples. Clock and power are taken from samples under load, because an idle GPU lowers its clock."""
    loaded = [one for one in samples if one.load is not None and one.load >= _LOADED]

    def middle(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return median(known) if known else None

    hot = [one.temperature for one in samples if one.temperature is not None]
    counts = [one.processes for one in samples if one.processes is not None]
    return Watched(
        samples=len(samples),
        loaded=len(loaded),
        clock=middle([one.clock for one in loaded]),
        power=middle([one.power for one in loaded]),
        temperature=max(hot, default=None),
        slowed=tuple(sorted({reason for one in loaded for reason in one.slowed})),
        processes=max(counts, default=None),
    )


def thrown(
    speeds: tuple[float, float],
    watched: tuple[Watched | None, Watched | None],
    *,
    within: float,
    usual_clock: float | None,
) -> str:
    """Return the reason why a pair is thrown away. Return an empty string if the pair counts.

    The decision uses only the pair's two reference runs. `speeds` and `watched` are the speeds and GPU states of these
    runs. `within` is the largest allowed relative difference of the speeds. `usual_clock` is in MHz.
    """
    low, high = sorted(speeds)
    if high / low - 1 > within:
        return f"its reference runs differ by {100 * (high / low - 1):.0f}%"
    for one in filter(None, watched):
        if usual_clock is not None and one.clock is not None and one.clock < LOW_CLOCK * usual_clock:
            return f"a reference run had {one.clock:g} MHz; the usual clock is {usual_clock:g} MHz"
        if one.processes is not None and one.processes > 1:
            return f"other programs used the GPU in a reference run: {one.processes} compute processes"
    return ""
