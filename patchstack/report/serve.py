"""Print the results of a benchmark run against a server, from its document."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from patchstack.report.documents.serve import ServeDocument, ServeSpread
from patchstack.report.streams import paint_words
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable

TITLES = ("ms", "mean", "p50", "p90", "p99", "max", "n")
"""The column titles of the latency table."""
_MOST = 5


def print_serve(document: ServeDocument) -> None:
    """Print the load, the latencies, the rates, and whether the run is valid."""
    print(printable("\n".join(about_lines(document))))
    print()
    if document.answered:
        print_table(Table(titles=TITLES, rows=list(latency_rows(document)), styles={}))
        print()
        print_table(
            Table(titles=("rate", "", "from"), rows=list(rate_rows(document)), styles={}, gives={"from": Give.FOLD})
        )
        print()
    for line in outcome_lines(document):
        print(paint_words(printable(line), sys.stdout))


def about_lines(document: ServeDocument) -> Iterator[str]:
    """Yield lines that describe the server and the requests."""
    yield f"{document.model or 'the model'} at {document.url}"
    if document.server is not None:
        env = "".join(f" {name}={value}" for name, value in document.server.env.items())
        yield f"  server    {document.server.programs}{env}, on {document.server.engine}"
    yield f"  load      {load_words(document)}"
    prompts = f"shared start of {document.prefix}" if document.prefix else "each its own"
    yield f"  requests  {_range(document.prompt_tokens)} prompt tokens as {document.prompts}, {prompts}"
    yield f"            {_range(document.max_tokens)} tokens to make; seed {document.seed}"


def load_words(document: ServeDocument) -> str:
    """Return a phrase that says how many requests are sent, and when."""
    requests = counted(document.requests, "request")
    cap = f", at most {document.concurrency} in flight" if document.concurrency else ""
    match document.arrivals:
        case "closed":
            return f"{requests}, {document.concurrency} in flight (closed loop)"
        case "staggered":
            return f"{requests}, {document.concurrency} in flight, started one after the other"
        case "burst":
            return f"{requests} at once"
        case "file":
            return f"{requests} at the times of a file{cap}"
        case kind:
            return f"{requests}, {document.rate:g} a second ({kind}, open loop){cap}"


def latency_rows(document: ServeDocument) -> Iterator[list[str]]:
    """Yield the rows of the latency table."""
    shown: tuple[tuple[str, ServeSpread | None], ...] = (
        ("TTFT", document.ttft_ms),
        ("ICL", document.icl_ms),
        ("ITL", document.itl_ms),
        ("TPOT", document.tpot_ms),
        ("E2E", document.e2e_ms),
        ("queue", document.queue_ms),
        ("connect", document.connect_ms),
    )
    for name, spread in shown:
        if spread is not None:
            tails = [_ms(spread.mean), _ms(spread.p50), _ms(spread.p90), _ms(spread.p99), _ms(spread.max)]
            yield [name, *tails, f"{spread.n:,}"]


def rate_rows(document: ServeDocument) -> Iterator[list[str]]:
    """Yield the rows of the rate table."""
    if document.tps is not None:
        yield ["all", _tps(document.tps), f"{document.tokens:,} tokens in {document.wall_s:.3f} s"]
    if (window := document.steady) is not None:
        if window.problem:
            yield ["steady", "INVALID", window.problem]
        else:
            bounds = f"{window.tokens:,} tokens while all streams decoded, {window.begin:.3f} to {window.end:.3f} s"
            yield ["steady", _tps(window.tps), bounds]
    if (row := document.notebook) is not None:
        yield ["agg_tps", _number(row.agg_tps), "tokens / wall"]
        yield ["decode_agg_tps", _number(row.decode_agg_tps), f"tokens / (wall - ttft_max); {row.caveat}"]
        yield ["decode_perseq_tps", _number(row.decode_perseq_tps), "mean of (tokens - 1) / (last - first)"]
        yield ["prefill_tps", _number(row.prefill_tps), f"{document.prompt or 0:,} prompt tokens / ttft_max"]
    if document.goodput is not None:
        bounds = ", ".join(f"{name} {value:g} ms" for name, value in document.slo.items())
        yield ["goodput", f"{document.goodput:.3f} req/s", f"{document.good} of {document.requests} met {bounds}"]
    for name, value in document.more.items():
        yield [name, f"{value:,.0f}", "reported by the server"]
    if document.server is not None and document.server.graphs_reused is not None:
        yield ["graphs reused", f"{document.server.graphs_reused:,}", "reported by the server"]


def outcome_lines(document: ServeDocument) -> Iterator[str]:
    """Yield the failures, the cross-check, the warnings, the load of the client, and whether the run is valid.

    The cross-check compares the client's totals with the counters of the server.
    """
    for failure in document.failures[:_MOST]:
        yield f"request {failure.number} failed: {failure.failure}"
    if len(document.failures) > _MOST:
        yield f"{len(document.failures) - _MOST} more requests failed"
    counters = document.counters
    if counters.agree:
        sums = f"{counters.prompt:,} prompt and {counters.tokens:,} generated tokens"
        yield f"cross-checked: {sums}, as the counters of {counters.server} say"
    yield from document.marks
    client = document.client
    lag = f"late by {client.lag_p99_ms:.1f} ms at p99 ({client.lag_limit_ms:.1f} allowed)"
    yield f"client: {lag}, {100 * client.busiest_second:.0f}% of a core at most"
    yield f"every chunk's time: {document.record}"
    for problem in document.problems:
        yield f"INVALID: {problem}"
    if document.valid:
        yield "valid"


def _range(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 1000 else f"{value:,.0f}"


def _tps(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f} t/s"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"
