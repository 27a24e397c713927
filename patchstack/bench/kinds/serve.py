"""`serve`: measure a llama-server under load with a client. Higher rates and lower latencies are better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from patchstack.bench.serving.figures import LoadTerms, Served, figures_of
from patchstack.bench.serving.record import read_record
from patchstack.bench.workload import Figures, Workload, WorkloadKind, workload_models
from patchstack.errors import NotHeldError
from patchstack.llama.client.arrivals import BURST, CLOSED, CONSTANT, POISSON
from patchstack.llama.client.plan import Plan
from patchstack.llama.serving import RECORD, URL, client_beside, record_of, server_arguments
from patchstack.llama.settings import ARGS, ENV, FLASH_ATTENTION, GPU_LAYERS, MODEL, SECONDS, TRIES
from patchstack.observe.declared import Flag, Number, Setting, Text, Values, Whole
from patchstack.observe.protocol import Beside, Observation
from patchstack.stats.serving import Spread

PROGRAM = "llama-server"
_TAILS = ("mean", "p50", "p90", "p99", "max")
_LATENCIES = ("ttft", "icl", "itl", "tpot", "e2e")
_KINDS = (CLOSED, BURST, POISSON, CONSTANT)

_RATES: Mapping[str, Callable[[Served], float | None]] = {
    "tps": lambda served: served.tps,
    "steady": lambda served: served.steady.rate if served.steady is not None and not served.steady.problem else None,
    "agg_tps": lambda served: served.notebook.agg_tps if served.notebook is not None else None,
    "decode_agg_tps": lambda served: served.notebook.decode_agg_tps if served.notebook is not None else None,
    "decode_perseq_tps": lambda served: served.notebook.decode_perseq_tps if served.notebook is not None else None,
    "prefill_tps": lambda served: served.notebook.prefill_tps if served.notebook is not None else None,
}
METRICS = (*_RATES, *(f"{name}_{tail}" for name in _LATENCIES for tail in _TAILS))
"""The names of the metrics that can be compared."""


def _metric_problem(text: str) -> str | None:
    metrics = text.split(",")
    if unknown := [one for one in metrics if one not in METRICS]:
        return f"{unknown[0]!r} is not one of {', '.join(METRICS)}"
    if len(set(metrics)) < len(metrics):
        return f"{text!r} names a metric twice"
    if len({one in _RATES for one in metrics}) > 1:
        return f"{text!r} mixes rates and latencies; a comparison needs either rates or latencies"
    return None


def _arrivals_problem(text: str) -> str | None:
    return None if text in _KINDS else f"{text!r} is not one of {', '.join(_KINDS)}"


METRIC = Setting[str](
    name="metric",
    form=Text(written="metrics such as steady or itl_p50, separated by commas", check=_metric_problem),
    default="steady",
    metavar="NAME",
    help="Metrics to compare, separated by commas: rates (steady, tps, …) or latencies (ttft_p50, itl_p99, …).",
)
CONCURRENCY = Setting[int](
    name="concurrency", form=Whole(1, 4096), default=8, metavar="N", help="Maximum number of concurrent streams."
)
REQUESTS = Setting[int](
    name="requests",
    form=Whole(0, 1_000_000),
    default=0,
    metavar="M",
    help="Number of requests; 0 means three for each stream.",
)
PROMPT_TOKENS = Setting[int](
    name="prompt_tokens", form=Whole(1, 1 << 20), default=64, metavar="P", help="Tokens in each prompt."
)
MAX_TOKENS = Setting[int](
    name="max_tokens", form=Whole(1, 1 << 20), default=64, metavar="G", help="Tokens to generate for each request."
)
ARRIVALS = Setting[str](
    name="arrivals",
    form=Text(written="closed, burst, poisson or constant", check=_arrivals_problem),
    default=CLOSED,
    metavar="KIND",
    help="When requests are sent: closed loop, burst, Poisson or constant rate.",
)
RATE = Setting[float](
    name="rate",
    form=Number(written="a number, 0 or more", holds=lambda value: 0 <= value <= 1e6, problem="is not a rate"),
    default=0.0,
    metavar="R",
    help="Requests per second in an open loop.",
)
SEED = Setting[int](
    name="seed",
    form=Whole(0, 1 << 32),
    default=1,
    metavar="N",
    help="The seed for prompts; both sides get the same prompts.",
)
CHAT = Setting[bool](name="chat", form=Flag(), default=False, help="Request chat completions.")
NO_COUNTERS = Setting[bool](
    name="no_counters", form=Flag(), default=False, help="Compare servers even if they have no counters."
)
CLIENT_IMAGE = Setting[str](
    name="client_image",
    form=Text(),
    default="",
    metavar="NAME",
    help="The container image for the client; it must have Python.",
)


def make(name: str, values: Values) -> Workload:
    """Return the workload that the settings describe. Complain if the rate does not fit the arrivals."""
    model, own, env, streams = values[MODEL], values[ARGS], values[ENV], values[CONCURRENCY]
    arrivals, rate = values[ARRIVALS], values[RATE]
    if (arrivals in (POISSON, CONSTANT)) is not (rate > 0):
        values.complain("rate", "set a rate only for the arrivals poisson and constant, which need one")
    metrics = tuple(values[METRIC].split(","))
    rate_metric = metrics[0] in _RATES
    loading = ("-ngl", str(values[GPU_LAYERS]), "-fa", values[FLASH_ATTENTION])
    return Workload(
        name=name,
        kind=KIND.name,
        program=PROGRAM,
        args=server_arguments(model.name, streams, (*loading, *own.args)),
        env=dict(env),
        models=workload_models([model, *(one for one in own.models if one != model)]),
        sentinel=None,
        seconds=values[SECONDS],
        tries=values[TRIES],
        rows=metrics,
        unit="t/s" if rate_metric else "ms",
        better="higher" if rate_metric else "lower",
        reading={
            "metric": ",".join(metrics),
            "concurrency": streams,
            "requests": values[REQUESTS] or 3 * streams,
            "prompt_tokens": values[PROMPT_TOKENS],
            "max_tokens": values[MAX_TOKENS],
            "arrivals": arrivals,
            "rate": rate,
            "seed": values[SEED],
            "chat": values[CHAT],
            "no_counters": values[NO_COUNTERS],
            "client_image": values[CLIENT_IMAGE],
        },
    )


def beside(workload: Workload) -> Beside:
    """Return the client that measures the server. Both sides get the same requests."""
    reading = workload.reading
    plan = Plan(
        url=URL,
        chat=bool(reading["chat"]),
        model="",
        arrivals=str(reading["arrivals"]),
        requests=int(reading["requests"]),
        concurrency=_in_flight(reading),
        rate=float(reading["rate"]),
        stagger=0.0,
        times=(),
        prompt_tokens=(int(reading["prompt_tokens"]),),
        max_tokens=(int(reading["max_tokens"]),),
        seed=int(reading["seed"]),
        prefix=0,
        prompts="auto",
        ignore_eos=True,
        chunk_counts=True,
        counters=True,
        timeout=float(workload.seconds),
        ready=float(workload.seconds),
        cacert="",
    )
    return client_beside(plan, image=str(reading["client_image"]) or None)


def read(workload: Workload, seen: Observation) -> Figures | str:
    """Return the metrics of a run, or the reason why the run is not valid."""
    content = record_of(seen)
    if isinstance(content, str):
        return content
    reading = workload.reading
    try:
        record = read_record(seen.files[RECORD])
    except NotHeldError as error:
        return error.message
    terms = LoadTerms(
        arrivals=str(reading["arrivals"]),
        concurrency=_in_flight(reading),
        prefix=0,
        slo={},
        compared=True,
        no_counters=bool(reading["no_counters"]),
    )
    served = figures_of(record, terms)
    if served.problems:
        return served.problems[0]
    found: dict[str, float] = {}
    for metric in str(reading["metric"]).split(","):
        value = metric_of(served, metric)
        if value is None or value <= 0:
            return f"the run has no {metric}{_why(served, metric)}"
        found[metric] = value
    return found


def metric_of(served: Served, metric: str) -> float | None:
    """Return the named metric of a run, in tokens per second or ms. Return None if the run lacks this metric."""
    if metric in _RATES:
        return _RATES[metric](served)
    name, _, tail = metric.rpartition("_")
    spread: Spread | None = getattr(served, name)
    value: float | None = getattr(spread, tail) if spread is not None else None
    return value


def _why(served: Served, metric: str) -> str:
    if metric == "steady" and served.steady is not None:
        return f": {served.steady.problem}"
    return ": too few values" if metric.endswith(("p90", "p99")) else ""


def _in_flight(reading: Mapping[str, Any]) -> int:
    return int(reading["concurrency"]) if reading["arrivals"] == CLOSED else 0


KIND = WorkloadKind(
    name="serve",
    version=1,
    settings=(
        *(MODEL, METRIC, CONCURRENCY, REQUESTS, PROMPT_TOKENS, MAX_TOKENS, ARRIVALS, RATE, SEED, CHAT),
        *(NO_COUNTERS, CLIENT_IMAGE, GPU_LAYERS, FLASH_ATTENTION, ARGS, ENV, SECONDS, TRIES),
    ),
    make=make,
    read=read,
    beside=beside,
)
