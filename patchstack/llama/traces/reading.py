"""The result of reading a log: counts of records, summaries, and llama.cpp's own figures. Only data types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from patchstack.llama.traces.formats import Format
from patchstack.llama.traces.graphs import Graphs
from patchstack.llama.traces.log_lines import Acceptance
from patchstack.llama.traces.records import Summary, Value

MORE = "(more)"
"""Replaces the shapes and tensors of records that came after the table was full."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Equal records: their values, in the order of the trace's `keys`, and their number. Records of a graph that the
    limit cut are counted in `left_out`, not in `calls`."""

    values: tuple[Value, ...]
    calls: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Lines that name a record but cannot be read; `line` is the number of the first."""

    why: str
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Steps:
    """Statistics of step numbers: count, sum, sum of squares, and maximum."""

    count: int
    total: int
    squares: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Values over time: `counts` are the numbers of samples in each point, `values` the sums, one tuple for each
    point."""

    columns: tuple[str, ...]
    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All records of one kind. `keys` are those by which records are counted.

    `overflowed` records came after the table of shapes was full: their routes and types are counted, their shapes are
    not. `odd` graphs seem to have a duplicate or cut line. `mixed` is whether the records of several processes are
    mixed between the summaries. `sums` are the counts of a cache's events, `last` the last values by place.
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
        """The name of the trace."""
        return self.format.name

    @property
    def unread(self) -> int:
        """The number of lines that name a record but cannot be read."""
        return sum(one.count for one in self.unreadable)

    @property
    def dropped(self) -> int:
        """The number of records that were not written, by the summaries."""
        return sum(one.dropped for one in self.summaries)

    @property
    def bounded(self) -> bool:
        """Whether there may have been more records than were written: a limit was reached, or it is unknown."""
        return self.dropped > 0 or not self.summaries or not self.format.counted

    def by(self, *keys: str, left_out: bool = False) -> dict[tuple[Value, ...], int]:
        """Return the number of calls by the values of those keys, with `left_out` including a cut graph. The value of a
        key that the trace does not have is `-`."""
        places = [self.keys.index(key) if key in self.keys else None for key in keys]
        counts: dict[tuple[Value, ...], int] = {}
        for cell in self.cells:
            value = tuple("-" if place is None else cell.values[place] for place in places)
            counts[value] = counts.get(value, 0) + cell.calls + (cell.left_out if left_out else 0)
        return {value: count for value, count in counts.items() if count}

    def numbers(self, key: str) -> Iterable[tuple[int, int]]:
        """Return the numeric values of a key, each with the number of records that have it, including cut graphs."""
        for (value,), count in self.by(key, left_out=True).items():
            if isinstance(value, int):
                yield value, count


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSum:
    """Times of one kind: the number of lines, and total milliseconds and tokens."""

    lines: int
    milliseconds: float
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSeen:
    """A buffer: how often it was reported, and its last and largest size in MiB."""

    lines: int
    last: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsSeen:
    """Events of one kind on state checkpoints: their number, and their total MiB and tokens."""

    lines: int
    mib: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """llama.cpp's own figures. `times` are by kind and whether of requests; `requests` is the total acceptance of all
    requests, `runs` are the lines about a whole run; `settings` describe the model and sizes."""

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
        """Whether no figures of llama.cpp were found."""
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
    """One log, or several as one. `overlong` lines had too many bytes, so that only their end was read; `torn` of them
    have the name of a record in the part that was not read. `unended` is the record named in a last line without a
    newline, which may be incomplete and is not counted."""

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
        """Whether nothing known was found."""
        return not self.traces and self.log.empty
