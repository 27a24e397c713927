"""Measure a server under a load of requests.

The server already runs at a URL, or it is started from a build. A started server runs on the same machine as its
client.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.bench.serving.figures import LoadTerms, Served, figures_of
from patchstack.bench.serving.record import ServeRecord, read_record, unpacked
from patchstack.causes import BadValue, ServingFailed, ServingRecordDamaged
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Ending
from patchstack.evidence.outputs import Outputs
from patchstack.files.places import cache_places
from patchstack.llama.client.arrivals import BURST, CLOSED, CONSTANT, FILE, POISSON, STAGGERED
from patchstack.llama.client.plan import Plan, target_of
from patchstack.llama.serving import RECORD, client_beside, record_of, reused_graphs, server_arguments, trace_of
from patchstack.observe.beside import ask
from patchstack.observe.protocol import Invocation, Model
from patchstack.tasks import doing, task
from patchstack.workflow.bench import Where, programs_named
from patchstack.workflow.machine import open_runner

KINDS = (CLOSED, POISSON, CONSTANT, BURST, STAGGERED, FILE)
_SLO = ("ttft", "tpot", "e2e")
_SPARE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWanted:
    """A load as the user describes it.

    `arrivals` is a kind of arrivals or `file:PATH`. If it is None, arrivals are `poisson` with a `rate`, and `closed`
    without one. `concurrency` and `requests` are 0 if they were not given. With a file, the number of requests is the
    number of its entries. Otherwise, the default of `requests` is `concurrency`, or 1 if that was not given either.
    `prefix` is `nonce` or `shared:N`. `slo` contains limits in milliseconds, for example `ttft=500,tpot=50`.
    """

    chat: bool
    model: str
    arrivals: str | None
    requests: int
    concurrency: int
    rate: float
    stagger: float
    prompt_tokens: int
    max_tokens: int
    seed: int | None
    prefix: str
    prompts: str
    ignore_eos: bool
    chunk_counts: bool
    timeout: float
    ready: float
    cacert: Path | None
    slo: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """A server that was started for a run, with values from the server's final output.

    `trace` contains the totals of the server's admission trace. It is None if the trace was not requested.
    `graphs_reused` is None if the server did not report it.
    """

    programs: str
    key: str | None
    args: tuple[str, ...]
    env: Mapping[str, str]
    engine: str
    trace: Mapping[str, float] | None
    graphs_reused: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRun:
    """A run, with its plan, record and figures. `digest` is the sha256 of the stored record file."""

    plan: Plan
    terms: LoadTerms
    record: ServeRecord
    served: Served
    digest: str
    server: ServerRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWanted:
    """A server to start.

    `what` names the programs: a build's key or a directory. `args` are additional arguments. `seconds` is the time
    limit. `client_image` is the image of the client. None means the image of the programs.
    """

    what: str
    model: Path
    args: tuple[str, ...]
    env: Mapping[str, str]
    client_image: str | None
    seconds: float


def plan_of(wanted: LoadWanted, url: str) -> tuple[Plan, LoadTerms]:
    """Return the plan of a load, and the inputs of its figures. Raises `UsageError` with all problems."""
    problems: list[str] = []
    kind, times, prompts, most = _arrivals(wanted, problems)
    requests = len(times) or wanted.requests or wanted.concurrency
    concurrency = wanted.concurrency or (1 if kind in (CLOSED, STAGGERED) else 0)
    requests = requests or 1
    prefix, slo = _prefix(wanted, problems), _slo(wanted, problems)
    if kind in (POISSON, CONSTANT) and wanted.rate <= 0:
        problems.append(f"arrivals {kind} need --rate")
    if wanted.rate > 0 and kind not in (POISSON, CONSTANT):
        problems.append(f"--rate is for an open loop, but the arrivals are {kind}")
    if kind == STAGGERED and wanted.stagger <= 0:
        problems.append("arrivals staggered need --stagger")
    if prefix >= min(prompts):
        problems.append(f"the shared prefix has {prefix} tokens, but the shortest prompt has {min(prompts)}")
    try:
        target_of(url.replace("{address}", "127.0.0.1:1"), chat=wanted.chat)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise BadValue("the load cannot be used", problems=problems)
    plan = Plan(
        url=url,
        chat=wanted.chat,
        model=wanted.model,
        arrivals=kind,
        requests=requests,
        concurrency=concurrency,
        rate=wanted.rate,
        stagger=wanted.stagger,
        times=times,
        prompt_tokens=prompts,
        max_tokens=most,
        seed=secrets.randbits(32) if wanted.seed is None else wanted.seed,
        prefix=prefix,
        prompts=wanted.prompts,
        ignore_eos=wanted.ignore_eos,
        chunk_counts=wanted.chunk_counts,
        counters=True,
        timeout=wanted.timeout,
        ready=wanted.ready,
        cacert=str(wanted.cacert.absolute()) if wanted.cacert is not None else "",
    )
    return plan, LoadTerms(arrivals=kind, concurrency=concurrency, prefix=prefix, slo=slo)


def serve_url(plan: Plan, terms: LoadTerms, key: str) -> ServeRun:
    """Measure the server at a URL from this machine. Raises `MissingError` if the server cannot be measured."""
    engine = HostEngine(cache_places().engine)
    with task("measuring"):
        found = ask(engine, client_beside(plan, key=key, stoppable=True), "", doing)
    content = found.files.get(RECORD)
    if content is None and found.stopped:
        raise KeyboardInterrupt
    if content is None:
        raise _unmeasured(found.said, found.outcome.ending)
    return _run(plan, terms, content, None)


def serve_build(plan: Plan, terms: LoadTerms, wanted: ServerWanted, where: Where) -> ServeRun:
    """Start a server of a build, measure it with a client on the same machine, and stop it.

    Raises the errors of `open_runner`, and `MissingError` for a server that does not start.
    """
    programs = programs_named(wanted.what, where)
    model = Model(name="model", path=str(wanted.model.expanduser().absolute()))
    args = server_arguments("model", plan.concurrency or plan.requests, wanted.args)
    invocation = Invocation(
        what="serve",
        program="llama-server",
        args=args,
        env=wanted.env,
        models=(model,),
        beside=client_beside(plan, image=wanted.client_image, stoppable=True),
        seconds=wanted.seconds,
    )
    with open_runner(
        where.connection,
        programs,
        observations=where.observations.directory,
        purpose="patchstack bench serve",
        kind="bench serve/1",
        allow=where.allow,
    ) as runner:
        seen = runner.look(invocation)
    content = record_of(seen)
    if isinstance(content, str) and seen.files.get("stopped"):
        raise KeyboardInterrupt
    if isinstance(content, str):
        raise ServingFailed(content, hint="run the server without patchstack to see why")
    server = ServerRun(
        programs=programs.name,
        key=programs.key,
        args=args,
        env=wanted.env,
        engine=where.connection.engine.about().spec,
        trace=trace_of(seen.stderr),
        graphs_reused=reused_graphs(seen.stderr),
    )
    return _run(plan, terms, content, server)


def _run(plan: Plan, terms: LoadTerms, content: bytes, server: ServerRun | None) -> ServeRun:
    record = read_record(content)
    return ServeRun(
        plan=plan,
        terms=terms,
        record=record,
        served=figures_of(record, terms),
        digest=Outputs(cache_places().outputs).keep(unpacked(content)),
        server=server,
    )


def _unmeasured(said: str, ending: Ending) -> Exception:
    """Return the error for a client that wrote no record."""
    last = next((line for line in reversed(said.splitlines()) if line.startswith("failed ")), "")
    if last:
        return ServingFailed(last.removeprefix("failed "))
    if ending is Ending.TIMED_OUT:
        return ServingFailed("the run exceeded its time limit and was stopped")
    return ServingRecordDamaged(f"the client wrote no record: {said.strip()[-300:] or 'it printed nothing'}")


def _arrivals(
    wanted: LoadWanted, problems: list[str]
) -> tuple[str, tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the kind of arrivals, the times from a file, and the token counts of prompts and answers."""
    usual = POISSON if wanted.rate > 0 else CLOSED
    kind = wanted.arrivals or usual
    prompts, most = (wanted.prompt_tokens,), (wanted.max_tokens,)
    if kind.startswith("file:"):
        rows = _read_file(Path(kind.removeprefix("file:")), wanted, problems)
        if rows:
            times, prompts, most = (tuple(column) for column in zip(*rows, strict=True))
            return FILE, times, prompts, most
        return FILE, (), prompts, most
    if kind not in KINDS or kind == FILE:
        known = ", ".join(one for one in KINDS if one != FILE)
        problems.append(f"arrivals {kind!r} are unknown: use one of {known}, file:PATH")
        return CLOSED, (), prompts, most
    return kind, (), prompts, most


def _read_file(path: Path, wanted: LoadWanted, problems: list[str]) -> list[tuple[float, int, int]]:
    """Return the entries of an arrivals file, in order of time.

    Each line contains the time in seconds. The number of prompt tokens and the maximum number of generated tokens may
    follow it. If the file cannot be used, add the problem to `problems` and return no entries.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path} cannot be read: {error}")
        return []
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            more = [int(word) for word in words[1:3]]
            at = float(words[0])
            if not 0 <= at < 1e6 or min(more, default=1) < 1 or len(words) > 3:
                raise ValueError
        except ValueError:
            form = "SECONDS [PROMPT_TOKENS [MAX_TOKENS]]"
            problems.append(f"{path}, line {number}: expected {form}, found {line[:60]!r}")
            return []
        rows.append((at, more[0] if more else wanted.prompt_tokens, more[1] if len(more) > 1 else wanted.max_tokens))
    if not rows:
        problems.append(f"{path} contains no arrivals")
    return sorted(rows)


def _prefix(wanted: LoadWanted, problems: list[str]) -> int:
    if wanted.prefix == "nonce":
        return 0
    found = re.fullmatch(r"shared:([1-9][0-9]{0,6})", wanted.prefix)
    if found is None:
        problems.append(f"--prefix {wanted.prefix}: must be nonce or shared:N")
        return 0
    return int(found[1])


def _slo(wanted: LoadWanted, problems: list[str]) -> dict[str, float]:
    found = {}
    for word in (wanted.slo or "").split(",") if wanted.slo else ():
        name, equals, value = word.partition("=")
        try:
            bound = float(value)
            if not equals or name not in _SLO or not 0 < bound < 1e9:
                raise ValueError
        except ValueError:
            problems.append(f"--slo {word}: must be one of {', '.join(f'{one}=MS' for one in _SLO)}")
            continue
        found[name] = bound
    return found


def interrupted(run: ServeRun) -> bool:
    """Return whether the user stopped the run."""
    return run.record.interrupted
