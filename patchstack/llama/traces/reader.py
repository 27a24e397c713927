"""Read a log block by block, in limited memory.

Traces repeat: a model with 40 layers prints the same few thousand lines millions of times. Therefore each line is first
looked up in a table of parsed lines, and parsed only if it is not in this table. The sizes of all tables are limited.
Records that exceed a limit are counted and reported.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from patchstack.llama.traces import records
from patchstack.llama.traces.formats import (
    KV_PAGED,
    ROUTE_KEYS,
    SERVING,
    TENSOR_KEYS,
    TYPE_KEYS,
    Format,
    tokens_key,
)
from patchstack.llama.traces.graphs import UNKNOWN, Graphs, NamedGraphs, UnnamedGraphs, folded, joined, layer_of
from patchstack.llama.traces.log_figures import LogFigures, Series
from patchstack.llama.traces.log_lines import LogLine, read_log_line
from patchstack.llama.traces.reading import MORE, Cell, Points, Problem, Reading, Steps, Trace
from patchstack.llama.traces.records import Record, Summary, Unreadable, Value, plain, read_record

MAX_LINE: Final = 1 << 20
KEPT_TAIL: Final = 1 << 13
MAX_KNOWN_LINES: Final = 1 << 16
MAX_KNOWN_LENGTH: Final = 1200
MAX_CELLS: Final = 100_000
MAX_TRACES: Final = 64
MAX_RECENT: Final = 20_000
MAX_PLACES: Final = 10_000

_MEASURED = (SERVING.name, KV_PAGED.name)


@dataclass(slots=True)
class _Cell:
    calls: int = 0
    left_out: int = 0


@dataclass(slots=True)
class _Entry:
    """A parsed line, and the counters that it increases."""

    tally: _Tally
    cell: _Cell | None
    name: str | None
    layer: int | None
    tokens: int
    found: Record | Summary | Unreadable


@dataclass(slots=True)
class _Tally:
    """The counts of one kind of record."""

    format: Format
    keys: tuple[str, ...] = ()
    cells: dict[tuple[Value, ...], _Cell] = field(default_factory=dict)
    records: int = 0
    since: int = 0
    cut: int = 0
    unreadable: dict[str, Problem] = field(default_factory=dict)
    summaries: list[Summary] = field(default_factory=list)
    mixed: bool = False
    odd: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    parts: list[Graphs] = field(default_factory=list)
    named: NamedGraphs | None = None
    unnamed: UnnamedGraphs | None = None
    recent: deque[_Cell] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    steps: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    series: Series | None = None
    last: dict[tuple[Value, ...], dict[str, Value]] = field(default_factory=dict)

    def count(self, entry: _Entry) -> None:
        """Count one record."""
        cell = entry.cell
        if cell is None:
            return
        cell.calls += 1
        self.records += 1
        self.since += 1
        if entry.name is not None:
            if self.named is None:
                self.named = NamedGraphs()
            self.named.add(entry.name, entry.layer)
            if len(self.named.current) == 1:
                self.recent.clear()
            self.recent.append(cell)
        elif entry.tokens >= 0:
            if self.unnamed is None:
                self.unnamed = UnnamedGraphs()
            self.unnamed.add(entry.tokens)
            if self.unnamed.run == 1:
                self.recent.clear()
            self.recent.append(cell)

    def measure(self, record: Record) -> None:
        """Add up the values of a record that are not counted in cells.

        For the trace `serving`, these are the step and its tokens. For `kv_paged`, they are the events of a cache.
        """
        values = record.values
        if self.format is SERVING:
            step = values["step"]
            decode, prompt = values["decode_tokens"], values["prompt_tokens"]
            if isinstance(step, int) and isinstance(decode, int) and isinstance(prompt, int):
                self.steps[0] += 1
                self.steps[1] += step
                self.steps[2] += step * step
                self.steps[3] = max(self.steps[3], step)
                if self.series is None:
                    self.series = Series(2)
                self.series.add(decode, prompt)
        else:
            event, number = str(values["event"]), values.get("n")
            if isinstance(number, int) and (event in self.sums or len(self.sums) < MAX_TRACES):
                self.sums[event] = self.sums.get(event, 0) + number
            place = (values.get("cache", "-"), values.get("stream", "-"))
            if place in self.last or len(self.last) < MAX_PLACES:
                self.last[place] = dict(values)

    def end_process(self, summary: Summary | None) -> None:
        """Finish the counts of one process. `summary` is None at the end of a file."""
        if summary is not None:
            self.summaries.append(summary)
            if self.format.counted and summary.lines != self.since:
                self.mixed = True
        if self.since:
            self._end_graphs(bounded=summary is None or summary.dropped > 0)
        self.since = 0
        self.named = self.unnamed = None
        self.recent.clear()

    def _end_graphs(self, *, bounded: bool) -> None:
        follower = self.named or self.unnamed
        if follower is None:
            return
        if self.named is not None and not self.mixed:
            # Operations that CUDA replays are not recorded, so a graph may have only one record.
            self.odd += self.named.odd(alone=self.format.tokens is None)
        part = follower.end()
        if not bounded:
            # No record was dropped, so the records after the last complete graph are not a truncated graph.
            part = Graphs(whole=part.whole, calls=part.calls, cut=0, known=part.known and part.cut == 0)
        self.parts.append(part)
        if part.known and part.cut and part.cut <= len(self.recent):
            for cell in list(self.recent)[-part.cut :]:
                cell.calls -= 1
                cell.left_out += 1

    def trace(self) -> Trace:
        """Return the counts as a trace."""
        graphs = UNKNOWN if self.mixed and self.parts else joined(self.parts)
        cells = tuple(
            Cell(values, cell.calls + cell.left_out, 0) if self.mixed else Cell(values, cell.calls, cell.left_out)
            for values, cell in self.cells.items()
        )
        count, total, squares, largest = self.steps
        return Trace(
            format=self.format,
            keys=self.keys,
            cells=cells,
            records=self.records,
            cut=self.cut,
            unreadable=tuple(self.unreadable.values()),
            summaries=tuple(self.summaries),
            graphs=graphs,
            mixed=self.mixed,
            odd=0 if self.mixed else self.odd,
            sums=dict(self.sums),
            overflowed=sum(cell.calls + cell.left_out for values, cell in self.cells.items() if MORE in values),
            steps=Steps(count, total, squares, largest) if self.format is SERVING and count else None,
            points=None
            if self.series is None
            else Points(
                columns=("decode_tokens", "prompt_tokens"),
                counts=tuple(self.series.counts()),
                values=tuple(tuple(point) for point in self.series.points),
            ),
            last=dict(self.last),
        )


class Reader:
    """Reads a log block by block. `feed` reads bytes, `next_file` ends a file, and `reading` returns the result."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Entry | LogLine | None] = {}
        self._tallies: dict[str, _Tally] = {}
        self._figures = LogFigures()
        self._carry = b""
        self._skipped = False  # whether the beginning of the line in `_carry` was discarded
        self._cells = 0
        self._lines = 0
        self._size = 0
        self._overlong = 0
        self._torn = 0
        self._unended: str | None = None
        self._has_unended = False
        self._others = 0

    def feed(self, block: bytes) -> None:
        """Read the next bytes of the log."""
        self._size += len(block)
        lines = block.split(b"\n")
        if len(lines) == 1:
            self._keep(self._carry + block)
            return
        lines[0] = self._carry + lines[0]
        carry = lines.pop()
        if self._skipped:
            self._overlong += 1
            self._skipped = False
        self._carry = b""
        known = self._known
        for line in lines:
            self._lines += 1
            try:
                entry = known[line]
            except KeyError:
                entry = self._learn(line)
            if entry is None:
                continue
            if type(entry) is _Entry:
                if type(entry.found) is Record:
                    entry.tally.count(entry)
                    if entry.cell is None or entry.tally.format.name in _MEASURED or entry.found.was_cut:
                        self._count_slowly(entry)
                else:
                    self._count_slowly(entry)
            else:
                self._figures.add(entry)  # type: ignore[arg-type]  # the other type is a line of llama.cpp
        self._keep(carry)

    def _keep(self, carry: bytes) -> None:
        """Store an incomplete line until its end arrives. If the line is too long, store only its last part."""
        if len(carry) > MAX_LINE:
            cut = len(carry) - KEPT_TAIL
            self._torn += sum(found.start() < cut for found in records.names_in(carry))
            carry = carry[cut:]
            self._skipped = True
        self._carry = carry

    def next_file(self) -> None:
        """End a file. A last line without a newline may be incomplete, so it is reported but not counted."""
        if self._carry or self._skipped:
            self._has_unended = True
            self._overlong += self._skipped
            found = records.names_in(plain(self._carry))
            if found:
                entry = read_record(plain(self._carry))
                self._unended = entry.format.name if entry is not None else None
            self._carry = b""
            self._skipped = False
        for tally in self._tallies.values():
            if tally.since:
                tally.end_process(None)

    def reading(self) -> Reading:
        """Return the result. Do not call `feed` afterwards."""
        self.next_file()
        return Reading(
            traces=tuple(tally.trace() for tally in self._tallies.values()),
            log=self._figures.log(),
            lines=self._lines,
            size=self._size,
            overlong=self._overlong,
            torn=self._torn,
            unended=self._unended,
            has_unended=self._has_unended,
            other_names=self._others,
        )

    def _learn(self, line: bytes) -> _Entry | LogLine | None:
        entry = self._parse(line)
        if len(line) <= MAX_KNOWN_LENGTH:
            if len(self._known) >= MAX_KNOWN_LINES:
                self._known.clear()
            self._known[line] = entry
        return entry

    def _parse(self, line: bytes) -> _Entry | LogLine | None:
        text = plain(line)
        found = read_record(text)
        if found is None:
            return read_log_line(text)
        tally = self._tallies.get(found.format.name)
        if tally is None:
            if len(self._tallies) >= MAX_TRACES:
                self._others += 1
                return None
            tally = self._tallies[found.format.name] = _Tally(found.format)
        if not isinstance(found, Record):
            return _Entry(tally, None, None, None, -1, found)
        if not tally.keys:
            tally.keys = tuple(found.values) if found.format.open else found.format.by
        # Use the layer of the destination, because a later layer may read the output of an earlier layer.
        names = [str(found.values[key]) for key in ("dst", "src0") if found.values.get(key, "-") != "-"][:1]
        tokens = found.values.get(tokens_key(found.format, tally.keys) or "", -1)
        return _Entry(
            tally,
            self._cell(tally, found),
            names[0] if names else None,
            layer_of(*names),
            tokens if isinstance(tokens, int) else -1,
            found,
        )

    def _cell(self, tally: _Tally, record: Record) -> _Cell:
        values = tuple(
            folded(str(record.values[key]))
            if key in TENSOR_KEYS and key in record.values
            else record.values.get(key, "-")
            for key in tally.keys
        )
        cell = tally.cells.get(values)
        if cell is None:
            if self._cells >= MAX_CELLS:
                kept = ROUTE_KEYS | TYPE_KEYS if self._cells < MAX_CELLS + MAX_PLACES else frozenset()
                values = tuple(value if key in kept else MORE for key, value in zip(tally.keys, values, strict=True))
                cell = tally.cells.get(values)
            if cell is None:
                cell = tally.cells[values] = _Cell()
                self._cells += 1
        return cell

    def _count_slowly(self, entry: _Entry) -> None:
        tally, found = entry.tally, entry.found
        if isinstance(found, Record):
            tally.cut += found.was_cut
            if tally.format.name in _MEASURED:
                tally.measure(found)
        elif isinstance(found, Summary):
            tally.end_process(found)
        else:
            seen = tally.unreadable.get(found.why)
            if seen is None and len(tally.unreadable) >= MAX_TRACES:
                found = Unreadable(found.format, "further reasons")
                seen = tally.unreadable.get(found.why)
            tally.unreadable[found.why] = Problem(
                found.why, 1 + (seen.count if seen else 0), seen.line if seen else self._lines
            )
            # The summary of the trace also counts this line.
            tally.since += tally.format.counted
