"""Read the progress of a build from the output of ninja and make, and estimate the remaining time."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace

_STEP = re.compile(r"\[(\d{1,9})/(\d{1,9})\] (.*)\Z")
_PERCENT = re.compile(r"\[ *(\d{1,3})%\] (.*)\Z")
_PHASE = re.compile(r"-- (\S.*)\Z")
_ESCAPES = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_BREAK = re.compile(rb"[\r\n]")
_LINE = 1000  # how many bytes of a line are read; a link command may have 100,000
_RECENT = 20  # how many of the last steps the estimate uses separately
_FEW = 3  # the minimum number of steps for an estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step of a build.

    `done` of `total` steps are finished, and `what` is the last finished step (`Building CXX object …`). For make,
    which prints percentages, `total` is 100. `elapsed` is the time since the build began, `remaining` the estimated
    time until its end, both in seconds. `remaining` is None if no estimate is possible yet.
    """

    done: int
    total: int
    what: str
    elapsed: float
    remaining: float | None

    @property
    def share(self) -> float:
        """The share of finished steps, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A progress line of CMake (`Configuring done`). `elapsed` is in seconds since the build began."""

    what: str
    elapsed: float


Event = Progress | Phase


class ProgressReader:
    """Converts the output of cmake, ninja and make to events.

    The output may arrive in chunks of any size. The caller passes the time at which each chunk arrived.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._estimate = _Estimate()

    def feed(self, chunk: bytes, elapsed: float) -> tuple[Progress, ...]:
        """Return the steps in a chunk that arrived `elapsed` seconds after the build began."""
        return tuple(event for event in self.read(chunk, elapsed) if isinstance(event, Progress))

    def read(self, chunk: bytes, elapsed: float) -> tuple[Event, ...]:
        """Return the steps and phases in a chunk that arrived `elapsed` seconds after the build began."""
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
        """Return the event of the last line, if it has no line break."""
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
    """Estimates the remaining time from the mean duration of a step.

    The estimate uses the average of two means: over the whole run, and over the last steps. CUDA files take a hundred
    times as long as others, and one slow step must not make the estimate jump.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque()

    def after(self, done: int, total: int, elapsed: float) -> float | None:
        """Return the estimated seconds until the end, after `done` of `total` steps.

        Returns None if no estimate is possible.
        """
        if self._steps and done < self._steps[-1][0]:
            # A new ninja run began: a nested build (FetchContent), or the build after a new configuration.
            self._steps.clear()
        self._steps.append((done, elapsed))
        if len(self._steps) > _RECENT + 1:
            # Keep the first step, because the whole run is measured from it.
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
    """Selects the steps to print in a plain log (CI).

    The first and the last step of a build are selected. In between, a step is selected after each `share` of all steps
    or after `seconds`, whichever comes first.
    """

    def __init__(self, *, seconds: float = 30.0, share: float = 0.05) -> None:
        self._seconds = seconds
        self._share = share
        self._printed: Progress | None = None

    def due(self, now: Progress, elapsed: float | None = None) -> bool:
        """Return whether to print the step. If so, store it as the last printed step.

        `elapsed` is the current time, if it is not the time of the step.
        """
        if elapsed is not None:
            now = replace(now, elapsed=elapsed)
        due = worth_a_line(self._printed, now, seconds=self._seconds, share=self._share)
        if due:
            self._printed = now
        return due


def worth_a_line(printed: Progress | None, now: Progress, *, seconds: float, share: float) -> bool:
    """Return whether to print a step. `printed` is the last printed step, or None before the first one."""
    if printed is None or now.done < printed.done:
        return True
    if now.done == printed.done:
        return False
    # The factor corrects rounding errors: as a float, 0.05 is a little more than one twentieth.
    far = (now.done - printed.done) * (1 + 1e-9) >= share * now.total
    return now.done == now.total or far or now.elapsed - printed.elapsed >= seconds
