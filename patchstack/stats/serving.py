"""Compute latencies and rates of a server from the times of its streams.

The formulas are in docs/guides/serve.md. Times are whole nanoseconds since the start of the run, from one clock. Token
counts come from the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

NS = 1_000_000_000
STEADY_TOKENS = 20
"""The minimum number of tokens per stream in a steady window."""
STEADY_SHARE = 0.25
"""The minimum share of the wall time that a steady window must cover."""
_TAILS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LEAST = {"p50": 1, "p90": 10, "p99": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The times and token counts of an answered request.

    `sent` is the time at which the client sent the request. Latencies are measured from `start`: the planned time in an
    open loop, and `sent` otherwise. `times` contains the arrival time of each chunk with content. It is never empty.
    `counts` contains, for each of these chunks, the total number of tokens so far, as reported by the server. `ended`
    is the time at which the response ended. `tokens` is the number of generated tokens, and `prompt` is the number of
    prompt tokens. A number that the server did not report is None.
    """

    start: int
    sent: int
    times: tuple[int, ...]
    counts: tuple[int | None, ...]
    ended: int
    tokens: int | None
    prompt: int | None

    @property
    def ttft(self) -> int:
        """Time to first token (TTFT): from the start to the first chunk with content, in ns."""
        return self.times[0] - self.start

    @property
    def e2e(self) -> int:
        """End-to-end latency (E2E): from the start to the last chunk with content, in ns."""
        return self.times[-1] - self.start

    @property
    def queued(self) -> int:
        """The time for which the request waited in the client, in ns."""
        return self.sent - self.start

    @property
    def decoding(self) -> int:
        """The time from the first to the last chunk with content, in ns."""
        return self.times[-1] - self.times[0]

    @property
    def tpot(self) -> float | None:
        """Time per output token (TPOT), in ns: `decoding` / (`tokens` − 1).

        None if the stream has fewer than two tokens, or if the number of tokens is unknown.
        """
        return self.decoding / (self.tokens - 1) if self.tokens is not None and self.tokens > 1 else None

    @property
    def gaps(self) -> tuple[int, ...]:
        """Inter-chunk latencies (ICL), in ns: the time between consecutive chunks with content."""
        return tuple(later - earlier for earlier, later in pairwise(self.times))

    @property
    def chunk_tokens(self) -> tuple[int, ...] | None:
        """The number of tokens in each chunk, from the server's counts.

        If a count is missing and there are as many chunks as tokens, each chunk has one token. None if the numbers
        cannot be determined.
        """
        known = [count for count in self.counts if count is not None]
        if len(known) == len(self.times):
            found = (known[0], *(later - earlier for earlier, later in pairwise(known)))
            return found if min(found) > 0 else None
        return (1,) * len(self.times) if self.tokens == len(self.times) else None

    @property
    def token_gaps(self) -> tuple[float, ...] | None:
        """Inter-token latencies (ITL), in ns.

        Each inter-chunk latency is divided by the number of tokens in the later chunk. The result occurs once for each
        of these tokens. None if the number of tokens in a chunk is unknown.
        """
        counts = self.chunk_tokens
        if counts is None:
            return None
        return tuple(gap / count for gap, count in zip(self.gaps, counts[1:], strict=True) for _ in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A summary of `n` values. A percentile is None if there are too few values: p90 needs 10 and p99 needs 100."""

    mean: float
    p50: float | None
    p90: float | None
    p99: float | None
    max: float
    n: int


def spread(values: Sequence[float], unit: float = 1.0) -> Spread | None:
    """Return a summary of values, each divided by `unit`. Return None if there are no values."""
    if not values:
        return None
    ordered = sorted(value / unit for value in values)
    tails = {
        name: percentile(ordered, share) if len(ordered) >= _LEAST[name] else None for name, share in _TAILS.items()
    }
    return Spread(mean=fmean(ordered), max=ordered[-1], n=len(ordered), **tails)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, with linear interpolation. `share` is between 0 and 1."""
    place = share * (len(ordered) - 1)
    below = int(place)
    rest = place - below
    return ordered[below] + rest * (ordered[below + 1] - ordered[below]) if rest else ordered[below]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """The rates and times of a run, with the names and formulas of one fork's notebook.

    Rates are in tokens per second, times in seconds. `decode_agg_tps` can exceed the highest rate that the streams
    reached together, because it counts all tokens but its window begins only when the last prefill ends.
    """

    agg_tps: float
    decode_agg_tps: float | None
    decode_perseq_tps: float | None
    prefill_tps: float | None
    ttft_mean: float
    ttft_max: float
    wall: float


def decode_agg(tokens: int, wall: float, ttft_max: float) -> float:
    """Return `decode_agg_tps`: tokens / (wall − ttft_max). Times are in seconds.

    Raises `ValueError` if `wall` is not greater than `ttft_max`.
    """
    if not wall > ttft_max:
        raise ValueError("the largest TTFT must be less than the wall time")
    return tokens / (wall - ttft_max)


def wall_of(streams: Sequence[Stream]) -> float:
    """Return the wall time in seconds, from the earliest start of a stream to the latest end of a stream."""
    return (max(one.ended for one in streams) - min(one.start for one in streams)) / NS


def notebook(streams: Sequence[Stream]) -> Notebook | None:
    """Return the rates and times of a run from its streams (see `Notebook`).

    Return None if there are no streams, or if a number of generated tokens is unknown.
    """
    if not streams or any(one.tokens is None for one in streams):
        return None
    tokens = sum(one.tokens or 0 for one in streams)
    wall, firsts = wall_of(streams), [one.ttft / NS for one in streams]
    per = [((one.tokens or 0) - 1) * NS / one.decoding for one in streams if (one.tokens or 0) > 1 and one.decoding > 0]
    prompts = [one.prompt for one in streams]
    known = sum(one for one in prompts if one is not None) if None not in prompts else None
    return Notebook(
        agg_tps=tokens / wall,
        decode_agg_tps=decode_agg(tokens, wall, max(firsts)) if wall > max(firsts) else None,
        decode_perseq_tps=fmean(per) if per else None,
        prefill_tps=known / max(firsts) if known is not None and max(firsts) > 0 else None,
        ttft_mean=fmean(firsts),
        ttft_max=max(firsts),
        wall=wall,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The window in which all streams decode.

    `begin` and `end` are in ns. `tokens` is the number of tokens in the window. `rate` is in tokens per second; it is
    None if it cannot be computed. `problem` is the reason why the rate must not be used; it is empty if the rate is
    valid.
    """

    begin: int
    end: int
    tokens: int
    rate: float | None
    problem: str


def steady(streams: Sequence[Stream], at_once: int) -> Steady:
    """Return the steady window of streams. `at_once` is the number of streams that are in flight at the same time.

    The window begins when each of the first `at_once` streams has its first token. It ends when a stream ends and no
    new stream replaces it. In a burst, that is when the first stream ends. Tokens that arrive exactly at the beginning
    of the window are not counted; tokens that arrive exactly at its end are counted.
    """
    if len(streams) < at_once or at_once < 1:
        return Steady(begin=0, end=0, tokens=0, rate=None, problem=f"fewer than {at_once} streams were answered")
    ordered = sorted(streams, key=lambda one: one.sent)
    begin = max(one.times[0] for one in ordered[:at_once])
    end = sorted(one.times[-1] for one in streams)[len(streams) - at_once]
    if end <= begin:
        return Steady(begin=begin, end=end, tokens=0, rate=None, problem="there is no time at which all streams decode")
    tokens = 0
    for one in streams:
        if one.chunk_tokens is None:
            return Steady(
                begin=begin, end=end, tokens=0, rate=None, problem="the number of tokens in a chunk is unknown"
            )
        tokens += sum(count for time, count in zip(one.times, one.chunk_tokens, strict=True) if begin < time <= end)
    seconds, wall = (end - begin) / NS, wall_of(streams)
    problem = ""
    if tokens < STEADY_TOKENS * at_once:
        problem = f"the window has {tokens / at_once:.1f} tokens per stream, but at least {STEADY_TOKENS} are needed"
    elif seconds < STEADY_SHARE * wall:
        problem = f"the window is {seconds:.2f} s long, less than a quarter of the wall time ({wall:.2f} s)"
    return Steady(begin=begin, end=end, tokens=tokens, rate=tokens / seconds, problem=problem)


def meets(stream: Stream, slo: Mapping[str, float]) -> bool:
    """Return whether a stream meets all bounds of `slo`.

    The bounds are in ms, for `ttft`, `tpot` or `e2e`. An unknown latency does not meet its bound.
    """
    own = {"ttft": stream.ttft, "tpot": stream.tpot, "e2e": stream.e2e}
    return all((value := own[name]) is not None and value <= bound * 1e6 for name, bound in slo.items())


def in_flight(streams: Sequence[Stream]) -> tuple[tuple[int, int, int], ...]:
    """Return the numbers of waiting and decoding streams over time, as (time in ns, waiting, decoding).

    There is one entry for each time at which a request is sent, or the first or last token of a stream arrives. A
    waiting stream has no token yet. A decoding stream has its first token, but not its last.
    """
    changes: dict[int, list[int]] = {}
    for one in streams:
        for time, waiting, decoding in ((one.sent, 1, 0), (one.times[0], -1, 1), (one.times[-1], 0, -1)):
            change = changes.setdefault(time, [0, 0])
            change[0] += waiting
            change[1] += decoding
    found, now, then = [], 0, 0
    for time in sorted(changes):
        now, then = now + changes[time][0], then + changes[time][1]
        found.append((time, now, then))
    return tuple(found)
