"""`patchstack.trace/1`: a log as `patchstack trace read` and `check` print it; and `patchstack.trace-comparison/1`."""

from __future__ import annotations

from patchstack.document import Document, Part


class TraceSource(Part, frozen=True, kw_only=True):
    """A log that was read: its name (`-` is standard input), its bytes, and how it changed meanwhile (or empty)."""

    name: str
    bytes: int
    changed: str


class TraceGraphs(Part, frozen=True, kw_only=True):
    """Graphs in the records: how many are whole, the calls of each if all have as many, and the calls of a graph that
    the limit cut. `known` is false if the records do not show where graphs end."""

    known: bool
    whole: int
    calls: int | None
    cut: int


class TraceBucket(Part, frozen=True, kw_only=True):
    """A bucket of a histogram: values from `low` to `high` (null: no upper edge), and how many there are."""

    low: int
    high: int | None
    count: int


class TraceCell(Part, frozen=True, kw_only=True):
    """Equal records. `values` by key, layers folded to `N`; `calls` in whole graphs, `left_out` in one that was cut;
    `operations` and `bytes` of all `calls` together, null if the shapes do not say."""

    values: dict[str, int | str]
    calls: int
    left_out: int
    operations: int | None
    bytes: int | None


class TraceSpread(Part, frozen=True, kw_only=True):
    """How calls spread: distinct values, entropy in bits, the most frequent value and its share (0 to 1)."""

    distinct: int
    entropy: float
    top: str
    top_share: float


class TracePoints(Part, frozen=True, kw_only=True):
    """Values over time. Each point sums up `counts` moments; `values` has a list of sums for each point."""

    columns: tuple[str, ...]
    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


class TraceRecords(Part, frozen=True, kw_only=True):
    """One kind of record. `bounded`: there may have been more records than were written. `invalid`: the records
    contradict the summary or themselves, and no count of them may be used. `counters` and `histograms` are those of the
    summaries of all processes together, `largest` their largest values. Calls for up to `decode_tokens` tokens are
    `decode_like`, others `prefill_like`: null for records that do not say for how many tokens they are."""

    name: str
    records: int
    unreadable: int
    cut_records: int
    summaries: int
    lines: int | None
    dropped: int | None
    bounded: bool
    invalid: bool
    shapes_not_kept: int
    graphs: TraceGraphs | None
    keys: tuple[str, ...]
    cells: tuple[TraceCell, ...]
    decode_tokens: int
    decode_like: int | None
    prefill_like: int | None
    routes_spread: TraceSpread | None
    shapes_spread: TraceSpread | None
    counters: dict[str, int]
    largest: dict[str, int]
    histograms: dict[str, tuple[TraceBucket, ...]]
    points: TracePoints | None


class TraceCheck(Part, frozen=True, kw_only=True):
    """One check: what must hold, both sides in words, and PASS, FAIL, or INVALID if the log does not show it. `spoils`
    is what may not be used after a FAIL: `records`, or keys of a summary."""

    trace: str
    what: str
    said: str
    found: str
    verdict: str
    spoils: tuple[str, ...]


class TraceFact(Part, frozen=True, kw_only=True):
    """A single figure as the screen shows it. `invalid` says why it may not be used, empty if it may."""

    trace: str
    name: str
    value: str
    note: str
    invalid: str


class TraceExpected(Part, frozen=True, kw_only=True):
    """An expectation and its answer: PASS, FAIL, or INVALID if the log does not show it."""

    text: str
    verdict: str
    count: int | None
    why: str


class TraceDocument(Document, frozen=True, kw_only=True, tag="patchstack.trace/1"):
    """One log, or several as one. `overlong_lines` are lines too long to keep whole; `unended`: the last line of a
    log had no end, so that it may be cut."""

    sources: tuple[TraceSource, ...]
    lines: int
    bytes: int
    overlong_lines: int
    unended: bool
    traces: tuple[TraceRecords, ...]
    figures: tuple[TraceFact, ...]
    reused_graphs: TracePoints | None
    checks: tuple[TraceCheck, ...]
    expected: tuple[TraceExpected, ...]
    verdict: str


class TraceEvidence(Part, frozen=True, kw_only=True):
    """What both logs say of their workload."""

    what: str
    first: str
    second: str
    same: bool


class TracePair(Part, frozen=True, kw_only=True):
    """Calls of one route (with types) and shape in both logs, with the work of all of them; `about` is empty for a row
    of a route. `change` is same, more, less, new, gone, or not seen (in records that were bounded)."""

    trace: str
    route: str
    about: str
    first: int
    second: int
    first_operations: int | None
    second_operations: int | None
    first_bytes: int | None
    second_bytes: int | None
    change: str


class TraceComparisonDocument(Document, frozen=True, kw_only=True, tag="patchstack.trace-comparison/1"):
    """Two logs of one workload. `same`: every route and shape is taken equally often; `same_kinds`: the same routes and
    shapes occur. `bounded` are traces of which not all records were kept. `replayed` is how many CUDA graphs each log
    replayed, null if one does not say: a graph that is replayed leaves no records."""

    first: tuple[TraceSource, ...]
    second: tuple[TraceSource, ...]
    workload: tuple[TraceEvidence, ...]
    routes: tuple[TracePair, ...]
    shapes: tuple[TracePair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    bounded: tuple[str, ...]
    replayed: tuple[int, int] | None
    same: bool
    same_kinds: bool
    contradictions: tuple[TraceCheck, ...]
    verdict: str
