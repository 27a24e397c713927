"""Parse the record or summary at the end of a log line, including its tensor types and histograms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from patchstack.llama.traces.formats import FORMATS, SIGNED_KEYS, TEXT_KEYS, TYPE_KEYS, Format, bracketed

_BUCKET = re.compile(r"(\d{1,20})(?:-(\d{1,20})|(\+))?:(\d{1,20})")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """The values from `low` to `high`, both included. `high` is None if there is no upper limit."""

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of values in each bucket, in ascending order. Empty buckets are omitted."""

    buckets: tuple[tuple[Bucket, int], ...]

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(count for _, count in self.buckets)

    @property
    def zeros(self) -> int:
        """The number of values that are 0."""
        return sum(count for bucket, count in self.buckets if bucket == Bucket(0, 0))

    @property
    def least(self) -> int:
        """The smallest possible sum of the values."""
        return sum(bucket.low * count for bucket, count in self.buckets)

    @property
    def most(self) -> int | None:
        """The largest possible sum of the values. None if a bucket has no upper limit."""
        total = 0
        for bucket, count in self.buckets:
            if bucket.high is None:
                return None
            total += bucket.high * count
        return total

    def at_least(self, value: int) -> int:
        """Return the number of values that are certainly not less than `value`."""
        return sum(count for bucket, count in self.buckets if bucket.low >= value)

    def __str__(self) -> str:
        return ",".join(f"{bucket}:{count}" for bucket, count in self.buckets)


def read_histogram(text: str) -> Histogram | None:
    """Parse a histogram. Return None if the text is not a histogram, or if its buckets overlap or are out of order."""
    buckets: list[tuple[Bucket, int]] = []
    end = -1
    for part in text.split(","):
        found = _BUCKET.fullmatch(part)
        if found is None:
            return None
        low, count = int(found[1]), int(found[4])
        high = None if found[3] else int(found[2] or low)
        if low <= end or (high is not None and high < low) or (buckets and buckets[-1][0].high is None):
            return None
        end = low if high is None else high
        buckets.append((Bucket(low, high), count))
    return Histogram(tuple((bucket, count) for bucket, count in buckets if count))


def power_bucket(value: int) -> Bucket:
    """Return the bucket of a value in the traces of this series.

    The buckets are 0, 1, and the ranges between powers of two.
    """
    if value <= 1:
        return Bucket(max(value, 0), max(value, 0))
    low = 1 << (value.bit_length() - 1)
    return Bucket(low, 2 * low - 1)


def power_histogram(values: Iterable[tuple[int, int]]) -> Histogram:
    """Return the histogram of values, with the buckets of this series' traces.

    `values` contains each value with its number of occurrences.
    """
    counts: dict[Bucket, int] = {}
    for value, count in values:
        bucket = power_bucket(value)
        counts[bucket] = counts.get(bucket, 0) + count
    return of_counts(counts)


def of_counts(counts: Mapping[Bucket, int]) -> Histogram:
    """Return the histogram with these counts. The buckets must not overlap."""
    return Histogram(tuple((bucket, counts[bucket]) for bucket in sorted(counts, key=_edge) if counts[bucket]))


def merged(histograms: Iterable[Histogram]) -> Histogram | None:
    """Return the sum of several histograms. Return None if their buckets overlap without being equal."""
    counts: dict[Bucket, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.buckets:
            counts[bucket] = counts.get(bucket, 0) + count
    ordered = sorted(counts, key=_edge)
    for one, other in pairwise(ordered):
        if one.high is None or other.low <= one.high:
            return None
    return of_counts(counts)


def _edge(bucket: Bucket) -> tuple[int, int]:
    return bucket.low, -1 if bucket.high is None else bucket.high


@dataclass(frozen=True, slots=True)
class Type:
    """A tensor type. A block of `block` weights has `size` bytes."""

    number: int
    name: str
    block: int
    size: int


TYPES = tuple(
    Type(*row)
    for row in (
        (0, "f32", 1, 4),
        (1, "f16", 1, 2),
        (2, "q4_0", 32, 18),
        (3, "q4_1", 32, 20),
        (6, "q5_0", 32, 22),
        (7, "q5_1", 32, 24),
        (8, "q8_0", 32, 34),
        (9, "q8_1", 32, 36),
        (10, "q2_K", 256, 84),
        (11, "q3_K", 256, 110),
        (12, "q4_K", 256, 144),
        (13, "q5_K", 256, 176),
        (14, "q6_K", 256, 210),
        (15, "q8_K", 256, 292),
        (16, "iq2_xxs", 256, 66),
        (17, "iq2_xs", 256, 74),
        (18, "iq3_xxs", 256, 98),
        (19, "iq1_s", 256, 50),
        (20, "iq4_nl", 32, 18),
        (21, "iq3_s", 256, 110),
        (22, "iq2_s", 256, 82),
        (23, "iq4_xs", 256, 136),
        (24, "i8", 1, 1),
        (25, "i16", 1, 2),
        (26, "i32", 1, 4),
        (27, "i64", 1, 8),
        (28, "f64", 1, 8),
        (29, "iq1_m", 256, 56),
        (30, "bf16", 1, 2),
        (34, "tq1_0", 256, 54),
        (35, "tq2_0", 256, 66),
        (39, "mxfp4", 32, 17),
        (40, "nvfp4", 64, 36),
        (41, "q1_0", 128, 18),
    )
)
_BY_NUMBER = {str(one.number): one for one in TYPES}
_BY_NAME = {one.name.lower(): one for one in TYPES}


def type_of(text: str) -> Type | None:
    """Return the type with this name (in any case) or number. Return None if it is unknown."""
    return _BY_NAME.get(text.lower()) or _BY_NUMBER.get(text)


def type_name(text: str) -> str:
    """Return the canonical name of a type that is given by name or number. An unknown type is returned unchanged."""
    known = type_of(text)
    return known.name if known is not None else text


def row_bytes(type_text: str, weights: int) -> int | None:
    """Return the size of a row of weights in bytes, rounded up to whole blocks. Return None for an unknown type."""
    known = type_of(type_text)
    return None if known is None else -(-weights // known.block) * known.size


CUT_AT = 1023
"""The maximum length of a record in bytes.

The trace truncates longer records, because its buffer has 1,024 bytes, including one byte for the line end.
"""

_ANSI = re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_NUMBER = re.compile(r"\d{1,20}\Z")
_SIGNED = re.compile(r"-?\d{1,20}\Z")
_MAX_OPEN_KEYS = 64

_LISTED = {one.text.encode(): one for one in FORMATS}
_SUMMARIES = {one.summary.encode(): one for one in FORMATS if one.summary is not None}
# A logger may print a prefix, even a single letter, before the name of a record.
_NAME = re.compile(
    b"|".join(re.escape(text) for text in sorted({*_LISTED, *_SUMMARIES}, key=len, reverse=True))
    + rb"|\[LLAMA_[A-Z0-9_]{1,60}\] "
)
Value = int | str


@dataclass(frozen=True, slots=True)
class Record:
    """A record.

    `values` contains its values by key. Types are canonical names, and numbers are integers. `was_cut` is true if the
    trace truncated the record at its maximum length. The last pair is then omitted.
    """

    format: Format
    values: Mapping[str, Value]
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary with its counters and histograms. Each histogram has its own buckets."""

    format: Format
    counters: Mapping[str, int]
    histograms: Mapping[str, Histogram]

    @property
    def lines(self) -> int | None:
        """The number of records that were written. It is None if unknown."""
        return self.counters.get("lines")

    @property
    def dropped(self) -> int:
        """The number of records that were not written because of the limit on records."""
        return self.counters.get("dropped", 0)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that names a record but cannot be parsed. `why` is the reason."""

    format: Format
    why: str


def plain(line: bytes) -> bytes:
    """Return a line without its colours and without the line end."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    return line.rstrip(b"\r\n")


def names_in(line: bytes) -> list[re.Match[bytes]]:
    """Return the matches of record names in a line."""
    return list(_NAME.finditer(line))


def read_record(line: bytes) -> Record | Summary | Unreadable | None:
    """Return the record or summary at the end of a plain line. Return None if the line names no record."""
    first = _NAME.search(line)
    if first is None:
        return None
    kind = _format_of(first[0])
    if _NAME.search(line, first.end()) is not None:
        return Unreadable(kind, "two records in one line")
    summary = first[0] in _SUMMARIES
    text = line[first.start() :]
    body = text[len("kv_paged ") if kind.name == "kv_paged" else len(first[0]) :].rstrip(b" ")
    cut = kind.counted and not summary and len(text) >= CUT_AT
    try:
        pairs = _pairs((body.rpartition(b" ")[0] if cut else body).decode("utf-8"))
    except UnicodeDecodeError:
        return Unreadable(kind, "it is not UTF-8")
    if isinstance(pairs, str):
        return Unreadable(kind, pairs)
    if summary:
        return _summary(kind, pairs)
    return _record(kind, pairs, cut=cut)


@cache
def _format_of(name: bytes) -> Format:
    known = _SUMMARIES.get(name) or _LISTED.get(name)
    return known if known is not None else bracketed(name[1:-2].decode("ascii"))


def _pairs(text: str) -> dict[str, str] | str:
    pairs: dict[str, str] = {}
    for word in text.split(" "):
        key, equals, value = word.partition("=")
        if not equals or not key:
            return f"{word[:40]!r} is not key=value"
        if key in pairs:
            return f"{key} occurs twice"
        pairs[key] = value
    return pairs


def _record(kind: Format, pairs: Mapping[str, str], *, cut: bool) -> Record | Unreadable:
    keys = kind.keys if pairs.get("event") == "stock" else (*kind.keys, *kind.numbers)
    missing = [key for key in keys if key not in pairs]
    if missing and not cut:
        return Unreadable(kind, f"{missing[0]} is missing")
    if len(pairs) > _MAX_OPEN_KEYS:
        return Unreadable(kind, f"it has more than {_MAX_OPEN_KEYS} keys")
    values: dict[str, Value] = {}
    for key, text in pairs.items():
        value = _value(kind, key, text)
        if value is None:
            return Unreadable(kind, f"{key} is {text[:40]!r}")
        values[key] = value
    return Record(kind, values, cut)


def _value(kind: Format, key: str, text: str) -> Value | None:
    if key in TYPE_KEYS:
        return type_name(text) if text.isprintable() and text else None
    if key in TEXT_KEYS:
        return text if text.isprintable() and text and "=" not in text else None
    if (_SIGNED if key in SIGNED_KEYS else _NUMBER).match(text):
        return int(text)
    # Accept unknown keys, because a later version may add keys, and an open format has no known keys.
    known = key in kind.keys or key in kind.by or key in kind.numbers
    return text if not known and text.isprintable() and "=" not in text else None


def _summary(kind: Format, pairs: Mapping[str, str]) -> Summary | Unreadable:
    counters: dict[str, int] = {}
    histograms: dict[str, Histogram] = {}
    for key, text in pairs.items():
        if _NUMBER.match(text):
            counters[key] = int(text)
        elif ":" in text:
            histogram = read_histogram(text)
            if histogram is None:
                return Unreadable(kind, f"{key} is not a histogram: {text[:40]!r}")
            histograms[key] = histogram
        elif text == "" and key.endswith("_hist"):
            histograms[key] = Histogram(())
        elif not (kind.name == "kv_paged" and key == "event"):
            return Unreadable(kind, f"{key} is {text[:40]!r}")
    if kind.counted and not {"lines", "dropped"} <= counters.keys():
        return Unreadable(kind, "lines or dropped is missing")
    return Summary(kind, counters, histograms)
