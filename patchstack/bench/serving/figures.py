"""Compute the figures of a run against a server, and check whether they are valid. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from patchstack.bench.serving.record import RequestRecord, ServeRecord
from patchstack.llama.client.arrivals import CLOSED, STAGGERED
from patchstack.llama.client.counters import LLAMA, grown
from patchstack.llama.client.prompts import BY_CHANCE
from patchstack.stats.serving import (
    NS,
    Notebook,
    Spread,
    Steady,
    Stream,
    meets,
    notebook,
    spread,
    steady,
)

FAILED_SHARE = 0.01
"""A run with a larger share of failed requests is INVALID."""
LAG_MS = 2.0
LAG_OF_GAP = 0.1
LAG_MOST_MS = 4.0
"""The limit for the client's lag at p99 is a tenth of the median gap between tokens, but at least 2 ms and at most
4 ms. In tests with these limits, the error of a measured time was at most 5 ms at p99, even with slow tokens."""
LAG_MEDIAN_MS = 1.5
FULL_CORE = 0.95
_NAMED = 5
_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTerms:
    """The inputs of the figures, apart from the record.

    `arrivals` is the kind of arrivals. `concurrency` is the maximum number of requests in flight; 0 means no limit.
    `prefix` is the length of the prompts' shared prefix in tokens. `slo` contains the goodput limits in ms. `compared`
    is true if the run belongs to a comparison. In such a run, no request may fail, and the server's counters may be
    missing only if `no_counters` is set.
    """

    arrivals: str
    concurrency: int
    prefix: int
    slo: Mapping[str, float]
    compared: bool = False
    no_counters: bool = False

    @property
    def open_loop(self) -> bool:
        """Whether latencies are measured from the planned times of the requests."""
        return self.arrivals not in (CLOSED, STAGGERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """The client's sums and the increases of the server's counters. Each is None if unknown.

    `server` is the kind of server. `agree` is true if the sums equal the increases, and None if one of them is unknown.
    """

    server: str
    prompt: int | None
    prompt_counted: float | None
    tokens: int | None
    tokens_counted: float | None
    agree: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A summary of a run. Latencies are in ms. A value is None if it is unknown.

    `problems` lists the reasons why the run is INVALID; it is empty if the run is valid. `marks` lists notes for the
    reader. `good` is the number of requests that meet the goodput limits, and `goodput` is this number per second.
    `wall` is in seconds. `more` contains further figures of the server, by name.
    """

    problems: tuple[str, ...]
    marks: tuple[str, ...]
    answered: int
    failed: tuple[RequestRecord, ...]
    streams: tuple[Stream, ...]
    ttft: Spread | None
    icl: Spread | None
    itl: Spread | None
    tpot: Spread | None
    e2e: Spread | None
    queue: Spread | None
    connect: Spread | None
    tokens_per_chunk: float | None
    tokens: int | None
    prompt: int | None
    cached: int | None
    wall: float | None
    tps: float | None
    steady: Steady | None
    notebook: Notebook | None
    goodput: float | None
    good: int | None
    lag_limit_ms: float
    crossed: Crossed
    more: Mapping[str, float]


def figures_of(record: ServeRecord, terms: LoadTerms) -> Served:
    """Return the figures of a run. They are computed even if the run is not valid; see `problems`."""
    answered = [one for one in record.requests if not one.failure]
    failed = tuple(one for one in record.requests if one.failure)
    streams = tuple(stream_of(one, open_loop=terms.open_loop) for one in answered)
    icl = spread([gap for one in streams for gap in one.gaps], _MS)
    gaps = [one.token_gaps for one in streams]
    itl = spread([gap for one in gaps if one is not None for gap in one], _MS)
    row = notebook(streams)
    limit = lag_limit(itl or icl)
    crossed = cross_checked(record)
    good = sum(meets(one, terms.slo) for one in streams) if terms.slo else None
    wall = row.wall if row is not None else _wall(streams)
    chunks = sum(len(one.times) for one in streams)
    return Served(
        problems=tuple(_problems(record, terms, answered, failed, limit, crossed)),
        marks=tuple(_marks(answered, streams, crossed)),
        answered=len(answered),
        failed=failed,
        streams=streams,
        ttft=spread([one.ttft for one in streams], _MS),
        icl=icl,
        itl=itl,
        tpot=spread([one.tpot for one in streams if one.tpot is not None], _MS),
        e2e=spread([one.e2e for one in streams], _MS),
        queue=spread([one.queued for one in streams], _MS),
        connect=spread([(one.connected or 0) - (one.began or 0) for one in answered], _MS),
        tokens_per_chunk=sum(one.tokens or 0 for one in streams) / chunks if row is not None and chunks else None,
        tokens=_sum([one.tokens for one in answered]),
        prompt=_sum([one.prompt for one in answered]),
        cached=_known([one.cached for one in answered]),
        wall=wall,
        tps=row.agg_tps if row is not None else None,
        steady=_steady(record, streams, terms),
        notebook=row,
        goodput=good / wall if good is not None and wall else None,
        good=good,
        lag_limit_ms=limit,
        crossed=crossed,
        more=_more(record, answered),
    )


def stream_of(one: RequestRecord, *, open_loop: bool) -> Stream:
    """Return the stream of an answered request. In an open loop, the stream starts at the planned time of
    the request."""
    sent = one.sent or 0
    return Stream(
        start=one.planned if open_loop and one.planned is not None else sent,
        sent=sent,
        times=one.times,
        counts=one.counts,
        ended=one.ended or 0,
        tokens=one.tokens,
        prompt=one.prompt,
    )


def lag_limit(gaps: Spread | None) -> float:
    """Return the limit for the client's lag at p99, in ms."""
    tenth = LAG_OF_GAP * gaps.p50 if gaps is not None and gaps.p50 is not None else 0.0
    return min(LAG_MOST_MS, max(LAG_MS, tenth))


def cross_checked(record: ServeRecord) -> Crossed:
    """Compare the client's sums with the increases of the server's counters.

    llama-server counts only the prompt tokens that it computed, so tokens from its cache are subtracted from the
    client's sum. vLLM counts all prompt tokens.
    """
    counters = record.counters
    tokens = _sum([one.tokens for one in record.requests])
    prompts = [one.prompt for one in record.requests]
    if counters.server == LLAMA:
        prompts = [None if one.prompt is None else one.prompt - (one.cached or 0) for one in record.requests]
    prompt, grew = _sum(prompts), grown(counters.before, counters.after)
    prompt_grew, tokens_grew = grew.get("prompt"), grew.get("generated")
    agree = None
    if prompt_grew is not None and tokens_grew is not None and None not in (prompt, tokens):
        agree = (prompt_grew, tokens_grew) == (prompt, tokens)
    return Crossed(
        server=counters.server,
        prompt=prompt,
        prompt_counted=prompt_grew,
        tokens=tokens,
        tokens_counted=tokens_grew,
        agree=agree,
    )


def _problems(
    record: ServeRecord,
    terms: LoadTerms,
    answered: Sequence[RequestRecord],
    failed: Sequence[RequestRecord],
    limit: float,
    crossed: Crossed,
) -> Iterator[str]:
    if record.interrupted:
        yield "the run was interrupted"
    if len(failed) > (0 if terms.compared else FAILED_SHARE * len(record.requests)):
        yield f"{len(failed)} of {len(record.requests)} requests failed: {_first(failed)}"
    watch = record.watch
    if not watch.samples:
        yield "the run was too short for the client to measure itself"
    if watch.lag_p99_ms > limit or watch.lag_p50_ms > LAG_MEDIAN_MS:
        late = f"it was late by {watch.lag_p50_ms:.1f} ms at p50 and {watch.lag_p99_ms:.1f} ms at p99"
        yield f"the client was the bottleneck: {late}; the limits are {LAG_MEDIAN_MS:g} ms and {limit:.1f} ms"
    if watch.busiest_second > FULL_CORE:
        yield f"the client was the bottleneck: it used {100 * watch.busiest_second:.0f}% of a core for a second"
    yield from _others(record, terms, crossed)
    yield from _cached(record, terms, answered)


def _others(record: ServeRecord, terms: LoadTerms, crossed: Crossed) -> Iterator[str]:
    """Yield a problem if other clients used the server.

    In a comparison without `no_counters`, also yield a problem if the counters to check this are missing.
    """
    busy = record.counters.before.get("busy", 0.0) + record.counters.before.get("waiting", 0.0)
    if busy:
        yield f"the server was in use: {busy:g} requests were under way before the run began"
    if crossed.agree is False:
        sums = f"{crossed.prompt} prompt and {crossed.tokens} generated tokens"
        counted = f"{_shown(crossed.prompt_counted)} and {_shown(crossed.tokens_counted)}"
        yield f"another client used the server: this client got {sums}, but the server counted {counted}"
    if terms.compared and crossed.agree is None and not terms.no_counters:
        yield "the server has no counters to check the client: start llama-server with --metrics, or set no_counters"


def _cached(record: ServeRecord, terms: LoadTerms, answered: Sequence[RequestRecord]) -> Iterator[str]:
    """Yield a problem if the server took parts of prompts from its cache although the run has no shared prefix."""
    if terms.prefix:
        return
    allowed = (record.shared or 0) + BY_CHANCE
    found = [one for one in answered if (one.cached or 0) > allowed]
    hits = grown(record.counters.before, record.counters.after).get("cached", 0.0)
    if hits > allowed * len(record.requests) and all(one.cached is None for one in answered):
        yield f"the prefix cache was warm: {hits:.0f} tokens of prompts were not computed, according to the counters"
    elif found:
        count = sum(one.cached or 0 for one in found)
        words = "prompt was" if len(found) == 1 else "prompts were"
        yield f"the prefix cache was warm: {count} tokens of {len(found)} {words} not computed"


def _marks(answered: Sequence[RequestRecord], streams: Sequence[Stream], crossed: Crossed) -> Iterator[str]:
    if crossed.agree is None:
        yield f"not cross-checked: {_why_not(crossed)}"
    if any(one.tokens is None for one in answered):
        yield "no throughput: the server does not report how many tokens it generated"
    yield from _named("made", "tokens", [(one.number, one.tokens, one.tokens_wanted) for one in answered])
    yield from _named("had a prompt of", "tokens", [(one.number, one.prompt, one.prompt_wanted) for one in answered])
    unknown = sum(one.chunk_tokens is None for one in streams)
    if unknown and any(one.tokens is not None for one in streams):
        yield f"no ITL of {unknown} of {len(streams)} streams: the number of tokens in a chunk is unknown"
    odd: dict[str, int] = {}
    for name, count in chain.from_iterable(one.odd.items() for one in answered):
        if name in ("no [DONE]", "after the end"):
            odd[name] = odd.get(name, 0) + count
    for name, count in sorted(odd.items()):
        yield f"{name}: {count} times in the streams"


def _why_not(crossed: Crossed) -> str:
    if not crossed.server:
        return "the server has no known counters (llama-server needs --metrics)"
    return "the server does not report the token counts of every request"


def _named(verb: str, unit: str, rows: Sequence[tuple[int, int | None, int]]) -> Iterator[str]:
    """Yield a note for each request whose token count differs from the requested count.

    After the first `_NAMED` notes, one more note states the number of remaining requests.
    """
    others = [(number, got, wanted) for number, got, wanted in rows if got is not None and got != wanted]
    for number, got, wanted in others[:_NAMED]:
        yield f"request {number} {verb} {got} {unit}, not {wanted}"
    if len(others) > _NAMED:
        yield f"{len(others) - _NAMED} more requests {verb} a different number of {unit}"


def _first(failed: Sequence[RequestRecord]) -> str:
    """Return the most frequent failure."""
    counts: dict[str, int] = {}
    for one in failed:
        counts[one.failure] = counts.get(one.failure, 0) + 1
    return max(counts, key=lambda words: counts[words])


def _steady(record: ServeRecord, streams: Sequence[Stream], terms: LoadTerms) -> Steady | None:
    """Return the steady window.

    Return None for an open loop other than a burst, because its number of streams varies.
    """
    if terms.arrivals == "burst":
        return steady(streams, len(record.requests))
    if terms.open_loop:
        return None
    return steady(streams, min(terms.concurrency, len(record.requests)))


def _more(record: ServeRecord, answered: Sequence[RequestRecord]) -> dict[str, float]:
    """Return the counts of drafted tokens, accepted tokens and preemptions, if known.

    Token counts from the responses take precedence over the server's counters.
    """
    grew = grown(record.counters.before, record.counters.after)
    found: dict[str, float] = {name: grew[name] for name in ("preemptions", "drafted", "accepted") if name in grew}
    for name in ("drafted", "accepted"):
        own = _known([getattr(one, name) for one in answered])
        if own is not None:
            found[name] = float(own)
    return found


def _wall(streams: Sequence[Stream]) -> float | None:
    if not streams:
        return None
    return (max(one.ended for one in streams) - min(one.start for one in streams)) / NS


def _sum(values: Sequence[int | None]) -> int | None:
    """Return the sum of the values. Return None if a value is unknown or there are no values."""
    known = [one for one in values if one is not None]
    return sum(known) if values and len(known) == len(values) else None


def _known(values: Sequence[int | None]) -> int | None:
    """Return the sum of the known values. Return None if no value is known."""
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def _shown(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"
