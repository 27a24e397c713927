"""Logs of a real build of this series: every trace of a CPU build is read, and its figures add up.

PATCHSTACK_LLAMA_BIN names the programs of a build of the series, on any backend.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.reading import Reading
from patchstack.llama.traces.recount import summed
from tests.support.tiny_gguf import need_gguf, write_model
from tests.support.trace_logs import read_bytes

BIN = Path(os.environ.get("PATCHSTACK_LLAMA_BIN", "/nonexistent"))

pytestmark = [
    pytest.mark.local_server,
    pytest.mark.skipif(
        not (BIN / "test-kv-paged").exists() and not (BIN / "llama-server").exists(),
        reason="PATCHSTACK_LLAMA_BIN names no build of patches/paged",
    ),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_gguf()
    path: Path = tmp_path_factory.mktemp("model") / "qwen35moe.gguf"
    write_model(path, "qwen35moe")
    return path


def environment(**switches: str) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(BIN), "LLAMA_FLUSH_LOGS_AT_EXIT": "1", **switches}


def completion(model: Path, **switches: str) -> bytes:
    """Return llama-completion's output, in colours and with the logger's stamps."""
    options = [
        "-n",
        "12",
        "-c",
        "512",
        "-ngl",
        "0",
        "--temp",
        "0",
        "-no-cnv",
        "--perf",
        "-lv",
        "4",
        "--log-colors",
        "on",
    ]
    done = subprocess.run(
        [BIN / "llama-completion", "-m", model, "-p", "The capital of France is", *options],
        env=environment(**switches),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    return done.stdout


def served(model: Path, log: Path, **switches: str) -> bytes:
    """Return llama-server's output while it answers several requests at once."""
    command: list[str | Path] = [BIN / "llama-server", "-m", model, "-c", "2048", "-np", "3", "-b", "64", "-ub", "32"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "-ngl", "0", "-lv", "4", "--host", "127.0.0.1", "--port", "0"],
            env=environment(**switches),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            deadline = time.monotonic() + 120
            found = None
            while found is None:
                found = re.search(rb"listening on http://127\.0\.0\.1:(\d+)", log.read_bytes())
                assert server.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
                time.sleep(0.1)
            port = int(found[1])

            def ask(number: int) -> None:
                body = {"prompt": "word " * (3 + number % 5 * 9), "n_predict": 4 + number % 3, "temperature": 0}
                url = f"http://127.0.0.1:{port}/completion"
                headers = {"Content-Type": "application/json"}
                request = urllib.request.Request(url, json.dumps(body).encode(), headers)
                with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310  (our own server)
                    assert json.load(reply)["tokens_predicted"] > 0

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, range(8)))
        finally:
            server.terminate()
            assert server.wait(60) == 0
    return log.read_bytes()


def agreeing(log: bytes) -> Reading:
    reading = read_bytes(log)
    assert [one for one in findings(reading) if one.holds is not True] == []
    return reading


def test_a_complete_trace_gives_the_counts_of_its_summary(model: Path) -> None:
    reading = agreeing(completion(model, LLAMA_LAYOUT_TRACE="1000000"))
    trace = reading.trace("layout")
    assert trace is not None and trace.graphs is not None
    assert trace.records > 100 and trace.dropped == 0
    counters = summed(trace.summaries).counters
    assert {str(op): count for (op,), count in trace.by("op").items()} == {
        key: value for key, value in counters.items() if key not in ("lines", "dropped") and "." not in key
    }
    assert reading.log.times["eval", False].tokens == 11
    assert reading.log.reused_last is not None


def test_a_bounded_trace_says_where_it_was_cut(model: Path) -> None:
    whole = agreeing(completion(model, LLAMA_LAYOUT_TRACE="1000000")).trace("layout")
    assert whole is not None and whole.graphs is not None and whole.graphs.calls is not None
    bound = 3 * whole.graphs.calls + 5
    cut = agreeing(completion(model, LLAMA_LAYOUT_TRACE=str(bound))).trace("layout")
    assert cut is not None and cut.graphs is not None
    assert (cut.records, cut.dropped) == (bound, whole.records - bound)
    assert (cut.graphs.whole, cut.graphs.calls, cut.graphs.cut) == (3, whole.graphs.calls, 5)
    assert sum(cut.by("op").values()) == bound - 5


def test_a_server_counts_the_tokens_of_its_requests(model: Path, tmp_path: Path) -> None:
    many = "1000000"
    reading = agreeing(
        served(
            model,
            tmp_path / "server.log",
            LLAMA_SERVING_TRACE=many,
            LLAMA_SPEC_SHAPE_TRACE=many,
            LLAMA_LAYOUT_TRACE=many,
            LLAMA_KV_PAGED="1",
            LLAMA_KV_PAGED_TRACE=many,
        )
    )
    assert {one.name for one in reading.traces} == {"serving", "spec_shape", "layout", "kv_paged"}
    serving = reading.trace("serving")
    assert serving is not None
    counters = summed(serving.summaries).counters
    answers = reading.log.times["eval", True]
    assert answers.tokens is not None
    assert counters["prompt_tokens"] == reading.log.times["prompt eval", True].tokens
    assert counters["decode_tokens"] == answers.tokens - answers.lines
    paged = reading.trace("kv_paged")
    assert paged is not None
    assert all(place["num_free"] == place["num_blocks"] for place in paged.last.values())
