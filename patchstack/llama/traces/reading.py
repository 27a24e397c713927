"""What one pass over a log found: counts of records, summaries, and llama.cpp's own figures. Values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from patchstack.llama.traces.formats import Format
from patchstack.llama.traces.graphs import Graphs
from patchstack.llama.traces.log_lines import Acceptance
from patchstack.llama.traces.records import Summary, Value

MORE = "(more)"
"""Stands for every shape and tensor of the records that came after the table was full."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Equal records: their values, in the order of the trace's `keys`, and how many there are. Those of a graph that
    the limit cut are in `left_out`, and not in `calls`."""

    values: tuple[Value, ...]
    calls: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Lines that name a record and hold none that can be read, the first of them in `line`."""

    why: str
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Steps:
    """The numbers of steps: how many, their sum, the sum of their squares, and the largest."""

    count: int
    total: int
    squares: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Values over time: `counts` are how many moments each point sums up, `values` the sums, one tuple a point."""

    columns: tuple[str, ...]
    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All of one kind of record. `keys` are those that records are counted by.

    `overflowed` records came after the table of shapes was full: their routes and types are counted, their shapes are
    not. `odd` graphs seem to hold a line twice, or one that was cut. `mixed`: records lie between summaries in another
    order than one process after the other. `sums` are what the events of a cache count, `last` the last values by
    place.
    """

    format: Format
    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    records: int
    cut: int = 0
    unreadable: tuple[Problem, ...] = ()
    summaries: tuple[Summary, ...] = ()
    graphs: Graphs | None = None
    mixed: bool = False
    odd: int = 0
    overflowed: int = 0
    steps: Steps | None = None
    points: Points | None = None
    sums: Mapping[str, int] = field(default_factory=dict)
    last: Mapping[tuple[Value, ...], Mapping[str, Value]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the trace is called."""
        return self.format.name

    @property
    def unread(self) -> int:
        """How many lines named a record and held none."""
        return sum(one.count for one in self.unreadable)

    @property
    def dropped(self) -> int:
        """How many records the summaries say were not written."""
        return sum(one.dropped for one in self.summaries)

    @property
    def bounded(self) -> bool:
        """Whether there may have been more records than were written: a limit was reached, or nothing says."""
        return self.dropped > 0 or not self.summaries or not self.format.counted

    def by(self, *keys: str, left_out: bool = False) -> dict[tuple[Value, ...], int]:
        """Return how many calls there were by the values of those keys; `left_out`: with those of a cut graph. A key
        that the trace does not have is `-`."""
        places = [self.keys.index(key) if key in self.keys else None for key in keys]
        counts: dict[tuple[Value, ...], int] = {}
        for cell in self.cells:
            value = tuple("-" if place is None else cell.values[place] for place in places)
            counts[value] = counts.get(value, 0) + cell.calls + (cell.left_out if left_out else 0)
        return {value: count for value, count in counts.items() if count}

    def numbers(self, key: str) -> Iterable[tuple[int, int]]:
        """Return the values of a key that are numbers, each with how many records have it, cut graphs with them."""
        for (value,), count in self.by(key, left_out=True).items():
            if isinstance(value, int):
                yield value, count


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSum:
    """Times of one kind: how many lines, milliseconds and tokens in all."""

    lines: int
    milliseconds: float
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSeen:
    """A buffer: how often it was reported, the last size and the largest, in MiB."""

    lines: int
    last: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsSeen:
    """Checkpoints of state of one event: how many, and the MiB and tokens of all of them."""

    lines: int
    mib: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """llama.cpp's own figures. `times` by what and whether of requests; `requests` is the acceptance of all requests
    together, `runs` the lines that speak of a whole run; `settings` are the words for the model and sizes."""

    times: Mapping[tuple[str, bool], TimeSum]
    reused_last: int | None
    reused_largest: int | None
    reused: Points | None
    requests: Acceptance | None
    runs: tuple[Acceptance, ...]
    disagreeing: tuple[str, ...]
    buffers: Mapping[tuple[str, str], BufferSeen]
    checkpoints: Mapping[str, CheckpointsSeen]
    settings: Mapping[str, tuple[str, ...]]

    @property
    def empty(self) -> bool:
        """Whether nothing of llama.cpp's own was found."""
        return not (
            self.times
            or self.reused_last is not None
            or self.requests
            or self.runs
            or self.buffers
            or self.checkpoints
            or self.settings
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One log, or several as one. `overlong` lines had more bytes than are kept, so that only their end was looked at;
    `torn` of them hold the name of a record in what was not kept. `unended` is the name of the record that the last
    line, which has no end, begins: it may be cut, so it is not counted."""

    traces: tuple[Trace, ...]
    log: Log
    lines: int
    size: int
    overlong: int = 0
    torn: int = 0
    unended: str | None = None
    has_unended: bool = False
    other_names: int = 0

    def trace(self, name: str) -> Trace | None:
        """Return the trace of that name."""
        return next((one for one in self.traces if one.name == name), None)

    @property
    def empty(self) -> bool:
        """Whether nothing that is known was found."""
        return not self.traces and self.log.empty
