"""Histograms as logs print them: `0:63,1-64:1,513+:12`. Each keeps its own edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

_BUCKET = re.compile(r"(\d{1,20})(?:-(\d{1,20})|(\+))?:(\d{1,20})")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """The values from `low` to `high`, both included. `high` is None if there is no upper edge."""

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values fell into each bucket, in rising order. A bucket with none is left out."""

    buckets: tuple[tuple[Bucket, int], ...]

    @property
    def total(self) -> int:
        """How many values there were."""
        return sum(count for _, count in self.buckets)

    @property
    def zeros(self) -> int:
        """How many values were 0."""
        return sum(count for bucket, count in self.buckets if bucket == Bucket(0, 0))

    @property
    def least(self) -> int:
        """The smallest sum that the values can have."""
        return sum(bucket.low * count for bucket, count in self.buckets)

    @property
    def most(self) -> int | None:
        """The largest sum that the values can have, None if there is no upper edge."""
        total = 0
        for bucket, count in self.buckets:
            if bucket.high is None:
                return None
            total += bucket.high * count
        return total

    def at_least(self, value: int) -> int:
        """How many values are surely that large."""
        return sum(count for bucket, count in self.buckets if bucket.low >= value)

    def __str__(self) -> str:
        return ",".join(f"{bucket}:{count}" for bucket, count in self.buckets)


def read_histogram(text: str) -> Histogram | None:
    """Return the histogram that a text says; None for a text that is none, or whose edges overlap or fall."""
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
    """Return the bucket of this series' traces that a value falls into: 0, 1, and the powers of two."""
    if value <= 1:
        return Bucket(max(value, 0), max(value, 0))
    low = 1 << (value.bit_length() - 1)
    return Bucket(low, 2 * low - 1)


def power_histogram(values: Iterable[tuple[int, int]]) -> Histogram:
    """Return the histogram of values, each with how often it occurs, with the edges of this series' traces."""
    counts: dict[Bucket, int] = {}
    for value, count in values:
        bucket = power_bucket(value)
        counts[bucket] = counts.get(bucket, 0) + count
    return of_counts(counts)


def of_counts(counts: Mapping[Bucket, int]) -> Histogram:
    """Return the histogram of buckets that do not overlap."""
    return Histogram(tuple((bucket, counts[bucket]) for bucket in sorted(counts, key=_edge) if counts[bucket]))


def merged(histograms: Iterable[Histogram]) -> Histogram | None:
    """Return the sum of histograms with the same edges; None if their buckets overlap without being the same."""
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
