"""How far a build is: ninja's and make's output, as it comes, as events with an estimate of the time that is left."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace

_STEP = re.compile(r"\[(\d{1,9})/(\d{1,9})\] (.*)\Z")
_PERCENT = re.compile(r"\[ *(\d{1,3})%\] (.*)\Z")
_PHASE = re.compile(r"-- (\S.*)\Z")
_ESCAPES = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_BREAK = re.compile(rb"[\r\n]")
_LINE = 1000  # bytes of a line that can matter; a link command may have a hundred thousand
_RECENT = 20  # steps
_FEW = 3  # steps, before which there is nothing to estimate from


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` steps are done, `what` the last of them (`Building CXX object …`). make tells percent: then
    `total` is 100. `elapsed` is the seconds since the build began, `remaining` an estimate of those left, None where
    there is nothing yet to estimate from."""

    done: int
    total: int
    what: str
    elapsed: float
    remaining: float | None

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A line in which CMake says what it is doing (`Configuring done`)."""

    what: str
    elapsed: float


Event = Progress | Phase


class ProgressReader:
    """Takes the output of cmake, ninja and make in chunks of any size, and gives events: the same ones however the
    bytes are cut. Time is told to it, not measured."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._estimate = _Estimate()

    def feed(self, chunk: bytes, elapsed: float) -> tuple[Progress, ...]:
        """Return the steps of a chunk that came `elapsed` seconds after the build began."""
        return tuple(event for event in self.read(chunk, elapsed) if isinstance(event, Progress))

    def read(self, chunk: bytes, elapsed: float) -> tuple[Event, ...]:
        """Steps and phases of a chunk."""
        events = []
        *ended, rest = _BREAK.split(chunk)
        for piece in ended:
            self._keep(piece)
            event = self._event(elapsed)
            if event is not None:
                events.append(event)
            self._line.clear()
        self._keep(rest)
        return tuple(events)

    def finish(self, elapsed: float) -> tuple[Event, ...]:
        """Return the event of a last line without a line break."""
        return self.read(b"\n", elapsed)

    def _keep(self, piece: bytes) -> None:
        self._line += piece[: _LINE - len(self._line)]

    def _event(self, elapsed: float) -> Event | None:
        if not self._line.lstrip(b"\x1b").startswith((b"[", b"-- ")):
            return None
        line = _ESCAPES.sub("", self._line.decode("utf-8", "replace"))
        if match := _STEP.match(line):
            return self._step(int(match[1]), int(match[2]), match[3], elapsed)
        if match := _PERCENT.match(line):
            return self._step(int(match[1]), 100, match[2], elapsed)
        if match := _PHASE.match(line):
            return Phase(what=match[1], elapsed=elapsed)
        return None

    def _step(self, done: int, total: int, what: str, elapsed: float) -> Progress | None:
        if done > total:
            return None
        remaining = self._estimate.after(done, total, elapsed)
        return Progress(done=done, total=total, what=what, elapsed=elapsed, remaining=remaining)


class _Estimate:
    """Seconds a step, half from the whole run and half from the last steps: a build's steps differ (CUDA files take a
    hundred times as long as others), and one slow step must not make the figure jump."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque()

    def after(self, done: int, total: int, elapsed: float) -> float | None:
        """Return the seconds left when `done` of `total` steps are done."""
        if self._steps and done < self._steps[-1][0]:
            # Another ninja began: a nested one (FetchContent), or the build after a new configuration.
            self._steps.clear()
        self._steps.append((done, elapsed))
        if len(self._steps) > _RECENT + 1:
            # The first stays: it is where the whole run is measured from.
            del self._steps[1]
        if done == total:
            return 0.0
        first_done, first_at = self._steps[0]
        if done - first_done < _FEW or elapsed <= first_at:
            return None
        whole = (elapsed - first_at) / (done - first_done)
        recent_done, recent_at = self._steps[1]
        recent = (elapsed - recent_at) / (done - recent_done) if done > recent_done else whole
        return (total - done) * (whole + recent) / 2


class Pulse:
    """Which steps a plain log (CI) gets a line for: the first and the last, one after each `share` of the whole or
    `seconds`, whichever is first, and the first of another build."""

    def __init__(self, *, seconds: float = 30.0, share: float = 0.05) -> None:
        self._seconds = seconds
        self._share = share
        self._printed: Progress | None = None

    def due(self, now: Progress, elapsed: float | None = None) -> bool:
        """Return whether the step is to be printed; if so, it counts as printed. `elapsed` is the time at hand, where
        that is not the step's own."""
        if elapsed is not None:
            now = replace(now, elapsed=elapsed)
        due = worth_a_line(self._printed, now, seconds=self._seconds, share=self._share)
        if due:
            self._printed = now
        return due


def worth_a_line(printed: Progress | None, now: Progress, *, seconds: float, share: float) -> bool:
    """Return whether a step is to be printed, given the last one that was."""
    if printed is None or now.done < printed.done:
        return True
    if now.done == printed.done:
        return False
    # Whole numbers, but for the share: 0.05 is a little more than a twentieth.
    far = (now.done - printed.done) * (1 + 1e-9) >= share * now.total
    return now.done == now.total or far or now.elapsed - printed.elapsed >= seconds
