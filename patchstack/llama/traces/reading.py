"""Define the data types for the result of reading a log.

The result contains the number of records, the summaries, and the figures that llama.cpp itself logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from patchstack.llama.traces.formats import Format
from patchstack.llama.traces.graphs import Graphs
from patchstack.llama.traces.log_lines import Acceptance
from patchstack.llama.traces.records import Summary, Value

MORE = "(more)"
"""The placeholder for the shapes and tensors of records that were read after the table was full."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The number of records with equal values.

    `values` are the values, in the order of the trace's `keys`. `left_out` is the number of records in an incomplete
    last graph. `calls` is the number of all other records.
    """

    values: tuple[Value, ...]
    calls: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Lines that name a record but cannot be parsed, for the same reason.

    `why` is the reason. `count` is the number of lines, and `line` is the line number of the first.
    """

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
    """Values over time, in points that combine several samples.

    `counts` contains the number of samples in each point. `values` contains the sums of each point, one per column.
    """

    columns: tuple[str, ...]
    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All records of one kind.

    - `keys`: the keys by which records are counted.
    - `cut`: the number of records that were truncated at the maximum length of a record.
    - `overflowed`: the number of records that exceeded the table of shapes. Only their routes and types are counted.
    - `odd`: the number of graphs that seem to have a duplicate or damaged line.
    - `mixed`: whether the records of several processes are mixed between the summaries.
    - `sums`: the total of `n` for each event of a cache.
    - `last`: the last values for each cache and stream.
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
        """The name of the trace, as in its format."""
        return self.format.name

    @property
    def unread(self) -> int:
        """The number of lines that name a record but cannot be parsed."""
        return sum(one.count for one in self.unreadable)

    @property
    def dropped(self) -> int:
        """The number of records that were not written, according to the summaries."""
        return sum(one.dropped for one in self.summaries)

    @property
    def bounded(self) -> bool:
        """Whether some calls may have no record, because the trace reached its limit or may have reached it."""
        return self.dropped > 0 or not self.summaries or not self.format.counted

    def by(self, *keys: str, left_out: bool = False) -> dict[tuple[Value, ...], int]:
        """Return the number of calls for each combination of values of these keys.

        With `left_out`, calls of an incomplete last graph are included. A key that the trace does not have gets the
        value `-`.
        """
        places = [self.keys.index(key) if key in self.keys else None for key in keys]
        counts: dict[tuple[Value, ...], int] = {}
        for cell in self.cells:
            value = tuple("-" if place is None else cell.values[place] for place in places)
            counts[value] = counts.get(value, 0) + cell.calls + (cell.left_out if left_out else 0)
        return {value: count for value, count in counts.items() if count}

    def numbers(self, key: str) -> Iterable[tuple[int, int]]:
        """Yield each numeric value of a key, with the number of records that have this value.

        Records of an incomplete last graph are included.
        """
        for (value,), count in self.by(key, left_out=True).items():
            if isinstance(value, int):
                yield value, count


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSum:
    """The total of the reported times of one kind.

    `lines` is the number of lines that report them. `tokens` is None if one of these lines has no token count.
    """

    lines: int
    milliseconds: float
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSeen:
    """The reported sizes of a buffer.

    `lines` is the number of lines that report it. `last` and `largest` are its last and its largest size, in MiB.
    """

    lines: int
    last: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsSeen:
    """The events of one kind that concern state checkpoints.

    `lines` is the number of events. `mib` and `tokens` are the sums of the sizes that the events report.
    """

    lines: int
    mib: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """llama.cpp's own figures.

    A key of `times` is the kind of time, and whether it is the time of a request. `requests` is the total acceptance of
    all requests. `runs` are the acceptance lines for the whole run. `settings` describe the model and the context.
    `disagreeing` describes contradictions between the figures of one line.
    """

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
    """The result for a log, or for several logs together.

    `overlong` is the number of lines that were too long, so that only their end was read. `torn` is the number of
    record names in the parts that were not read. `unended` is the name of the record in the last line, if this line has
    no newline. Such a line may be incomplete and is not counted.
    """

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
        """Return the trace with this name. Return None if the log does not have it."""
        return next((one for one in self.traces if one.name == name), None)

    @property
    def empty(self) -> bool:
        """Whether the log has no known record and no figures of llama.cpp."""
        return not self.traces and self.log.empty
