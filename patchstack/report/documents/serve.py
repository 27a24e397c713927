"""`patchstack.serve/1`: the result of a benchmark run against a server."""

from __future__ import annotations

from patchstack.bench.serving.figures import Served
from patchstack.bench.serving.record import RequestRecord
from patchstack.document import Document, Part
from patchstack.stats.serving import NS, Notebook, Spread, Steady, in_flight
from patchstack.workflow.serve import ServeRun

CAVEAT = (
    "decode_agg_tps counts tokens that were made while other streams were in prefill, over a window that begins when "
    "the last prefill ends: it can exceed what the streams ever made together"
)


class ServeSpread(Part, frozen=True, kw_only=True):
    """Summary statistics in ms.

    A percentile is null if there are too few values: p90 needs 10 values, and p99 needs 100.
    """

    mean: float
    p50: float | None
    p90: float | None
    p99: float | None
    max: float
    n: int


class ServeSteady(Part, frozen=True, kw_only=True):
    """The window in which all streams decode.

    Times are in seconds since the run began. `tps` is in tokens per second. `problem` is the reason why the rate must
    not be used; it is empty if the rate is valid.
    """

    begin: float
    end: float
    tokens: int
    tps: float | None
    problem: str


class ServeNotebook(Part, frozen=True, kw_only=True):
    """The rates and times of the run, with the names and formulas of the client in one fork's notebook.

    Rates are in tokens per second, times in seconds. `caveat` explains the limits of `decode_agg_tps`.
    """

    agg_tps: float
    decode_agg_tps: float | None
    decode_perseq_tps: float | None
    prefill_tps: float | None
    ttft_mean: float
    ttft_max: float
    wall: float
    caveat: str


class ServeFailure(Part, frozen=True, kw_only=True):
    """A failed request.

    `number` is the number of the request, counted from 0. `failure` is the reason. `status` is the HTTP status; it is 0
    if there was no response. `chunks` is the number of chunks with content that arrived before the failure.
    """

    number: int
    failure: str
    status: int
    chunks: int


class ServeRequest(Part, frozen=True, kw_only=True):
    """An answered request.

    Times are in seconds since the run began. `queue` is how long the request waited in the client, in seconds.
    """

    number: int
    start: float
    sent: float
    first: float
    last: float
    queue: float
    prompt: int | None
    tokens: int | None
    chunks: int


class ServeClient(Part, frozen=True, kw_only=True):
    """The load of the client itself.

    `lag_limit_ms` is the largest `lag_p99_ms` that a valid run may have. `busiest_second` is the share of a CPU core
    that the client used in its busiest second.
    """

    python: str
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    lag_limit_ms: float
    cpu_seconds: float
    busiest_second: float
    waited_for_cpu_ms: float
    descriptors: int
    descriptors_allowed: int


class ServeCounters(Part, frozen=True, kw_only=True):
    """The totals that the client and the server counted.

    `agree` is null if the server has no counters, or if a response has no token count.
    """

    server: str
    prompt: int | None
    prompt_counted: float | None
    tokens: int | None
    tokens_counted: float | None
    agree: bool | None


class ServeLoad(Part, frozen=True, kw_only=True):
    """The number of streams that wait for their first token, and the number that decode.

    `at` is the time from which these numbers apply, in seconds since the run began.
    """

    at: float
    waiting: int
    decoding: int


class ServeServer(Part, frozen=True, kw_only=True):
    """A server that was started for the run.

    `args` and `env` contain its arguments and environment variables. `trace` is the server's final summary of its
    steps, or null if it was not requested. `graphs_reused` is null if unknown.
    """

    programs: str
    key: str | None
    args: tuple[str, ...]
    env: dict[str, str]
    engine: str
    trace: dict[str, float] | None
    graphs_reused: int | None


class ServeDocument(Document, frozen=True, kw_only=True, tag="patchstack.serve/1"):
    """A benchmark run against a server.

    `valid` is false if `problems` has entries. `marks` contains warnings. Latencies are in ms: `ttft_ms` to the first
    content, `icl_ms` between chunks, `itl_ms` between tokens, `tpot_ms` per token, `e2e_ms` to the last content,
    `queue_ms` in the client, and `connect_ms` for the connection. `tps` is the number of tokens divided by `wall_s`.
    `slo` contains the limits in ms. `goodput` is the number of requests per second that met all limits. `record` is the
    sha256 of the record, which contains the time of every chunk. The compressed record is stored under this name.
    """

    url: str
    model: str
    api: str
    began: str
    arrivals: str
    rate: float | None
    concurrency: int
    requests: int
    prompt_tokens: tuple[int, ...]
    max_tokens: tuple[int, ...]
    prefix: int
    prompts: str
    seed: int
    valid: bool
    problems: tuple[str, ...]
    marks: tuple[str, ...]
    answered: int
    failed: int
    ttft_ms: ServeSpread | None
    icl_ms: ServeSpread | None
    itl_ms: ServeSpread | None
    tpot_ms: ServeSpread | None
    e2e_ms: ServeSpread | None
    queue_ms: ServeSpread | None
    connect_ms: ServeSpread | None
    tokens_per_chunk: float | None
    tokens: int | None
    prompt: int | None
    cached: int | None
    wall_s: float | None
    tps: float | None
    steady: ServeSteady | None
    notebook: ServeNotebook | None
    slo: dict[str, float]
    good: int | None
    goodput: float | None
    more: dict[str, float]
    client: ServeClient
    counters: ServeCounters
    failures: tuple[ServeFailure, ...]
    answers: tuple[ServeRequest, ...]
    load: tuple[ServeLoad, ...]
    server: ServeServer | None
    record: str


def serve_document(run: ServeRun) -> ServeDocument:
    """Convert a benchmark run to its JSON document."""
    record, served, plan = run.record, run.served, run.plan
    return ServeDocument(
        url=record.url,
        model=record.model,
        api="chat" if record.url.endswith("/chat/completions") else "completions",
        began=record.began,
        arrivals=plan.arrivals,
        rate=plan.rate or None,
        concurrency=plan.concurrency,
        requests=len(record.requests),
        prompt_tokens=plan.prompt_tokens,
        max_tokens=plan.max_tokens,
        prefix=plan.prefix,
        prompts=record.prompts,
        seed=plan.seed,
        valid=not served.problems,
        problems=served.problems,
        marks=served.marks,
        answered=served.answered,
        failed=len(served.failed),
        ttft_ms=_spread(served.ttft),
        icl_ms=_spread(served.icl),
        itl_ms=_spread(served.itl),
        tpot_ms=_spread(served.tpot),
        e2e_ms=_spread(served.e2e),
        queue_ms=_spread(served.queue),
        connect_ms=_spread(served.connect),
        tokens_per_chunk=_rounded(served.tokens_per_chunk),
        tokens=served.tokens,
        prompt=served.prompt,
        cached=served.cached,
        wall_s=_rounded(served.wall),
        tps=_rounded(served.tps),
        steady=_steady(served.steady),
        notebook=_notebook(served.notebook),
        slo=dict(run.terms.slo),
        good=served.good,
        goodput=_rounded(served.goodput),
        more=dict(served.more),
        client=_client(run),
        counters=_counters(served),
        failures=tuple(_failure(one) for one in served.failed),
        answers=tuple(_answers(run)),
        load=tuple(
            ServeLoad(at=_seconds(at), waiting=waiting, decoding=decoding)
            for at, waiting, decoding in in_flight(served.streams)
        ),
        server=_server(run),
        record=run.digest,
    )


def _answers(run: ServeRun) -> list[ServeRequest]:
    answered = [one for one in run.record.requests if not one.failure]
    return [
        ServeRequest(
            number=one.number,
            start=_seconds(stream.start),
            sent=_seconds(stream.sent),
            first=_seconds(stream.times[0]),
            last=_seconds(stream.times[-1]),
            queue=_seconds(stream.queued),
            prompt=one.prompt,
            tokens=one.tokens,
            chunks=len(one.times),
        )
        for one, stream in zip(answered, run.served.streams, strict=True)
    ]


def _client(run: ServeRun) -> ServeClient:
    watch = run.record.watch
    return ServeClient(
        python=run.record.python,
        lag_p50_ms=round(watch.lag_p50_ms, 3),
        lag_p99_ms=round(watch.lag_p99_ms, 3),
        lag_max_ms=round(watch.lag_max_ms, 3),
        lag_limit_ms=round(run.served.lag_limit_ms, 3),
        cpu_seconds=watch.cpu_seconds,
        busiest_second=watch.busiest_second,
        waited_for_cpu_ms=watch.waited_for_cpu_ms,
        descriptors=watch.descriptors,
        descriptors_allowed=watch.descriptors_allowed,
    )


def _counters(served: Served) -> ServeCounters:
    crossed = served.crossed
    return ServeCounters(
        server=crossed.server,
        prompt=crossed.prompt,
        prompt_counted=crossed.prompt_counted,
        tokens=crossed.tokens,
        tokens_counted=crossed.tokens_counted,
        agree=crossed.agree,
    )


def _server(run: ServeRun) -> ServeServer | None:
    one = run.server
    if one is None:
        return None
    return ServeServer(
        programs=one.programs,
        key=one.key,
        args=one.args,
        env=dict(one.env),
        engine=one.engine,
        trace=dict(one.trace) if one.trace is not None else None,
        graphs_reused=one.graphs_reused,
    )


def _failure(one: RequestRecord) -> ServeFailure:
    return ServeFailure(number=one.number, failure=one.failure, status=one.status, chunks=len(one.times))


def _spread(spread: Spread | None) -> ServeSpread | None:
    if spread is None:
        return None
    return ServeSpread(
        mean=round(spread.mean, 4),
        p50=_rounded(spread.p50),
        p90=_rounded(spread.p90),
        p99=_rounded(spread.p99),
        max=round(spread.max, 4),
        n=spread.n,
    )


def _steady(window: Steady | None) -> ServeSteady | None:
    if window is None:
        return None
    return ServeSteady(
        begin=_seconds(window.begin),
        end=_seconds(window.end),
        tokens=window.tokens,
        tps=_rounded(window.rate),
        problem=window.problem,
    )


def _notebook(row: Notebook | None) -> ServeNotebook | None:
    if row is None:
        return None
    return ServeNotebook(
        agg_tps=round(row.agg_tps, 4),
        decode_agg_tps=_rounded(row.decode_agg_tps),
        decode_perseq_tps=_rounded(row.decode_perseq_tps),
        prefill_tps=_rounded(row.prefill_tps),
        ttft_mean=round(row.ttft_mean, 6),
        ttft_max=round(row.ttft_max, 6),
        wall=round(row.wall, 6),
        caveat=CAVEAT,
    )


def _seconds(time: int) -> float:
    return round(time / NS, 6)


def _rounded(value: float | None) -> float | None:
    return round(value, 4) if value is not None else None
