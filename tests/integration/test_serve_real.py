"""`bench serve` on real servers: llama-server with a tiny model (PATCHSTACK_LLAMA_BIN), and a running vLLM
(PATCHSTACK_VLLM_URL). The client's sums must be the server's, exactly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchstack.bench.serving.figures import LoadTerms, Served, figures_of
from patchstack.bench.serving.record import read_record
from tests.conftest import RunCli
from tests.support.llama_server import llama_server
from tests.support.scripted import a_plan, run_client, start_client
from tests.support.tiny_gguf import need_gguf, write_model

BIN = os.environ.get("PATCHSTACK_LLAMA_BIN", "")
VLLM = os.environ.get("PATCHSTACK_VLLM_URL", "")
needs_llama = pytest.mark.skipif(
    not (Path(BIN) / "llama-server").is_file(), reason="PATCHSTACK_LLAMA_BIN names no directory with llama-server"
)
needs_vllm = pytest.mark.skipif(not VLLM, reason="PATCHSTACK_VLLM_URL names no vLLM that runs")

pytestmark = pytest.mark.local_server


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need_gguf()
    directory = tmp_path_factory.mktemp("llama")
    model = write_model(directory / "llama.gguf", "llama")
    options = ("--metrics", "-np", "8", "-c", "8192")
    with llama_server(Path(BIN), model, directory / "log", *options, threads=1) as server:
        yield server.url


@pytest.fixture(params=[pytest.param("llama", marks=needs_llama), pytest.param("vllm", marks=needs_vllm)])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("llama")) if request.param == "llama" else VLLM


def measured(directory: Path, url: str, **changes: Any) -> Served:
    """Return a run. Callers ignore problems that a busy machine causes in the client."""
    fields: dict[str, Any] = {"model": "", "prompt_tokens": (300,), "max_tokens": (24,), "requests": 8, **changes}
    plan = a_plan(url, **fields)
    run_client(directory, plan)
    record = read_record((directory / "record.json.gz").read_bytes())
    return figures_of(
        record,
        LoadTerms(arrivals=plan.arrivals, concurrency=plan.concurrency, prefix=plan.prefix, slo={}, compared=True),
    )


def own(served: Served) -> list[str]:
    """Return the problems that this machine does not cause."""
    return [one for one in served.problems if "bottleneck" not in one]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("arrivals", "rate"), [("closed", 0.0), ("poisson", 20.0)])
def test_the_clients_sums_are_the_servers(tmp_path: Path, url: str, chat: bool, arrivals: str, rate: float) -> None:
    more = {"chat": chat, "arrivals": arrivals, "rate": rate, "seed": time.time_ns() % 2**32}
    served = measured(tmp_path, url, concurrency=0 if rate else 4, **more)
    assert own(served) == [] and served.marks == ()
    assert (served.tokens, served.prompt) == (8 * 24, 8 * 300)
    assert served.crossed.agree is True
    assert served.itl is not None and 8 * 16 <= served.itl.n <= 8 * 23  # a first chunk may have several tokens


def test_a_warm_prefix_cache_is_seen(tmp_path: Path, url: str) -> None:
    seed = time.time_ns() % 2**32
    assert own(measured(tmp_path / "cold", url, seed=seed, concurrency=2, requests=4)) == []
    warm = own(measured(tmp_path / "warm", url, seed=seed, concurrency=2, requests=4))
    assert len(warm) == 1 and "the prefix cache was warm" in warm[0]
    shared = measured(tmp_path / "shared", url, seed=seed + 1, concurrency=2, prefix=150)
    assert own(shared) == []


def test_a_second_client_is_seen(tmp_path: Path, url: str) -> None:
    plan = a_plan(url, model="", requests=400, concurrency=2, prompt_tokens=(8,), max_tokens=(256,))
    other = start_client(tmp_path / "other", plan)
    assert other.stdout is not None
    while b"running" not in other.stdout.readline():
        pass
    try:
        served = measured(tmp_path / "own", url, concurrency=2, max_tokens=(64,), seed=5)
    finally:
        other.kill()
        other.communicate()
    assert any("another client used the server" in one for one in own(served)), served.problems


@needs_llama
def test_a_server_of_a_build_is_started_measured_and_gone(run_patchstack: RunCli, tmp_path: Path) -> None:
    need_gguf()
    model = write_model(tmp_path / "llama.gguf", "llama")
    load = ("--concurrency", "4", "--requests", "8", "--prompt-tokens", "64", "--max-tokens", "32")
    more = ("--env", "LLAMA_SERVING_TRACE=1", "--server-arg=-t", "--server-arg=1", "--allow", "cpu-load")
    ran = run_patchstack("bench", "serve", "--server", BIN, "--model", model, *load, *more, "--json")
    document = ran.document
    assert document["counters"]["agree"] is True and document["tokens"] == 8 * 32, ran
    trace = document["server"]["trace"]
    if trace is not None:  # a build of the series: all tokens but the first of each request
        assert trace["decode_tokens"] == 8 * 31


@needs_llama
def test_a_server_that_does_not_start_says_why(run_patchstack: RunCli, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really")
    ran = run_patchstack(
        "bench", "serve", "--server", BIN, "--model", tmp_path / "bad.gguf", "--concurrency", "1", "--allow", "cpu-load"
    )
    assert ran.code == 3 and "the server" in ran.stderr, ran
