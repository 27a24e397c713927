"""Add up the figures in llama.cpp's own lines, and store values over time in limited memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

from patchstack.llama.traces.log_lines import Acceptance, Buffer, Checkpoint, LogLine, Reused, Setting, Time
from patchstack.llama.traces.reading import BufferSeen, CheckpointsSeen, Log, Points, TimeSum

LIMIT = 512


@dataclass(slots=True)
class Series:
    """Values over time, in at most `LIMIT` points.

    Each point is the sum of `width` values. The last point may have fewer values. `open` is the number of values in the
    last point. If `LIMIT` points are full, pairs of points are combined, and `width` doubles.
    """

    columns: int
    width: int = 1
    open: int = 0
    points: list[list[int]] = field(default_factory=list)

    def add(self, *values: int) -> None:
        """Add the next values, one for each column."""
        if not self.points or self.open == self.width:
            if len(self.points) == LIMIT:
                pairs = zip(self.points[::2], self.points[1::2], strict=True)
                self.points = [[a + b for a, b in zip(one, other, strict=True)] for one, other in pairs]
                self.width *= 2
            self.points.append([0] * self.columns)
            self.open = 0
        last = self.points[-1]
        for column, value in enumerate(values):
            last[column] += value
        self.open += 1

    def counts(self) -> list[int]:
        """Return the number of values in each point."""
        return [self.width] * (len(self.points) - 1) + [self.open] if self.points else []


_MOST = 1000  # the maximum number of buffers, and of acceptance lines for a whole run
_SHOWN = 20  # the maximum number of values of a setting, and of lines that contradict themselves


class LogFigures:
    """Adds up the figures in llama.cpp's lines. `log` returns the result."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, bool], TimeSum] = {}
        self._reused: Series | None = None
        self._last: int | None = None
        self._largest: int | None = None
        self._accepted = self._generated = self._requests = 0
        self._runs: list[Acceptance] = []
        self._disagreeing: list[str] = []
        self._buffers: dict[tuple[str, str], BufferSeen] = {}
        self._checkpoints: dict[str, CheckpointsSeen] = {}
        self._settings: dict[str, dict[str, None]] = {}

    def add(self, line: LogLine) -> None:
        """Add a line."""
        match line:
            case Time():
                self._time(line)
            case Reused():
                self._last = line.count
                self._largest = max(line.count, self._largest or 0)
                if self._reused is None:
                    self._reused = Series(1)
                self._reused.add(line.count)
            case Acceptance():
                self._acceptance(line)
            case Buffer():
                name = (line.device, line.what)
                seen = self._buffers.get(name)
                if seen is not None or len(self._buffers) < _MOST:
                    largest = max(line.mib, seen.largest if seen else 0.0)
                    self._buffers[name] = BufferSeen(
                        lines=1 + (seen.lines if seen else 0), last=line.mib, largest=largest
                    )
            case Checkpoint():
                before = self._checkpoints.get(line.event) or CheckpointsSeen(lines=0, mib=0.0, tokens=0)
                self._checkpoints[line.event] = CheckpointsSeen(
                    lines=before.lines + 1,
                    mib=before.mib + (line.mib or 0.0),
                    tokens=before.tokens + (line.tokens or 0),
                )
            case Setting():
                values = self._settings.setdefault(line.name, {})
                if len(values) < _SHOWN:
                    values[line.value] = None

    def _time(self, line: Time) -> None:
        if not math.isfinite(line.milliseconds):
            return
        name = (line.what, line.of_request)
        before = self._times.get(name) or TimeSum(lines=0, milliseconds=0.0, tokens=0)
        tokens = None if line.tokens is None or before.tokens is None else before.tokens + line.tokens
        self._times[name] = TimeSum(
            lines=before.lines + 1, milliseconds=before.milliseconds + line.milliseconds, tokens=tokens
        )
        rate = line.per_second
        if line.tokens and rate is not None and math.isfinite(rate) and line.milliseconds > 1:
            told = 1000 * line.tokens / line.milliseconds
            # The tolerance covers the rounding: both figures are printed with two decimals.
            if abs(told - rate) > 0.006 + 0.006 * told / line.milliseconds:
                self._disagree(
                    f"{line.what}: {line.tokens} tokens in {line.milliseconds} ms are {told:.2f} a second, not {rate}"
                )

    def _acceptance(self, line: Acceptance) -> None:
        for problem in acceptance_problems(line):
            self._disagree(problem)
        if line.of_request:
            self._accepted += line.accepted
            self._generated += line.generated
            self._requests += 1
        elif len(self._runs) < _MOST:
            self._runs.append(line)

    def _disagree(self, problem: str) -> None:
        if len(self._disagreeing) < _SHOWN:
            self._disagreeing.append(problem)

    def log(self) -> Log:
        """Return the figures of all lines."""
        series = self._reused
        return Log(
            times=dict(self._times),
            reused_last=self._last,
            reused_largest=self._largest,
            reused=None
            if series is None
            else Points(
                columns=("reused",),
                counts=tuple(series.counts()),
                values=tuple(tuple(point) for point in series.points),
            ),
            requests=Acceptance(
                accepted=self._accepted,
                generated=self._generated,
                ratio=None,
                mean=None,
                rates=(),
                of_request=True,
            )
            if self._requests
            else None,
            runs=tuple(self._runs),
            disagreeing=tuple(self._disagreeing),
            buffers=dict(self._buffers),
            checkpoints=dict(self._checkpoints),
            settings={name: tuple(values) for name, values in self._settings.items()},
        )


def mean_length(rates: tuple[str, ...]) -> float:
    """Return the mean number of tokens from a verify step.

    It is 1, for the sampled token, plus the sum of the acceptance rates of the drafted tokens.
    """
    return float(1 + sum((Decimal(rate) for rate in rates), Decimal(0)))


def acceptance_problems(line: Acceptance) -> list[str]:
    """Return the contradictions between the figures of a line. Rounding differences are ignored."""
    problems = []
    if line.accepted > line.generated:
        problems.append(f"draft acceptance: {line.accepted} accepted of {line.generated} generated")
    try:
        if line.ratio is not None and line.generated:
            digits = len(line.ratio.partition(".")[2])
            told = line.accepted / line.generated
            if abs(told - float(line.ratio)) > 0.6 * 10**-digits + 1e-6:
                problems.append(
                    f"draft acceptance: {line.accepted} of {line.generated} is {told:.{digits}f}, not {line.ratio}"
                )
        if line.mean is not None and line.rates:
            digits = len(line.mean.partition(".")[2])
            told = mean_length(line.rates)
            # The tolerance also covers the rounding of the rates.
            if abs(told - float(line.mean)) > 0.51 * 10**-digits + 0.00051 * len(line.rates) + 1e-9:
                problems.append(f"mean acceptance length: 1 + {' + '.join(line.rates)} is {told:g}, not {line.mean}")
    except (ValueError, ArithmeticError):
        problems.append(f"draft acceptance: {line.ratio} {line.mean} {', '.join(line.rates)} are not numbers")
    return problems
