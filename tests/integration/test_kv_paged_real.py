"""The load that degraded a paged pool: many requests at once, then few, on one server of `patches/paged`.

PATCHSTACK_LLAMA_BIN names the programs of a build of the series, on any backend (see docs/reference/kv-paged.md).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tiny_gguf import Architecture, need_gguf, write_model

BIN = Path(os.environ.get("PATCHSTACK_LLAMA_BIN", "/nonexistent"))
SLOTS, CONTEXT, BLOCK = 64, 16384, 16

pytestmark = [
    pytest.mark.local_server,
    pytest.mark.skipif(
        not (BIN / "test-kv-paged").exists(), reason="PATCHSTACK_LLAMA_BIN names no build of patches/paged"
    ),
]


@contextmanager
def serving(model: Path, *options: str, log: Path) -> Iterator[int]:
    """Start a server with that many slots, yield its port, and end it with Ctrl-C."""
    command: list[str | Path] = [
        BIN / "llama-server",
        "-m",
        model,
        "-fit",
        "off",
        "-c",
        str(CONTEXT),
        "-np",
        str(SLOTS),
        "-ngl",
        "0",
    ]
    switches = {"LLAMA_KV_PAGED": "1", "LLAMA_KV_PAGED_CHECK": "1", "LLAMA_KV_PAGED_TRACE": "1000000"}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, *options, "--host", "127.0.0.1", "--port", "0"],
            env={"LD_LIBRARY_PATH": str(BIN), **switches},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield _port(server, log)
        finally:
            server.terminate()
            assert server.wait(60) == 0, log.read_text(errors="replace")[-2000:]


def _port(server: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")[-2000:]
        if found := re.search(r"server is listening on http://127\.0\.0\.1:(\d+)", log.read_text(errors="replace")):
            return int(found[1])
        time.sleep(0.1)
    raise AssertionError("the server was not ready in time")


def burst(port: int, requests: int) -> None:
    """Send that many requests at once, each with its own prompt of a different length."""

    def ask(number: int) -> None:
        body = {"prompt": f"{number} " + "x" * (20 + 3 * number % 150), "n_predict": 16 + number % 9, "temperature": 0}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as reply:  # noqa: S310  (our own server)
            assert json.load(reply)["tokens_predicted"] > 0

    with ThreadPoolExecutor(requests) as pool:
        list(pool.map(ask, range(requests)))


def records(log: Path) -> list[dict[str, str]]:
    """Return the records of the trace, in order."""
    lines = re.findall(r"\bkv_paged ((?:\S+=\S*)(?: \S+=\S*)*)$", log.read_text(errors="replace"), re.MULTILINE)
    return [dict(pair.split("=", 1) for pair in line.split(" ")) for line in lines]


@pytest.mark.parametrize("architecture", ["llama", "qwen35moe"])
@pytest.mark.parametrize("options", [("-kvu",), ("-no-kvu",)], ids=["unified", "a stream a sequence"])
def test_after_a_burst_every_block_is_back(
    architecture: Architecture, options: tuple[str, ...], tmp_path: Path
) -> None:
    need_gguf()
    log = tmp_path / "server.log"
    with serving(write_model(tmp_path / "model.gguf", architecture), *options, log=log) as port:
        for requests in (SLOTS, 8):
            burst(port, requests)
    seen = records(log)
    placed = [one for one in seen if one["event"] == "place"]
    summary = seen[-1]
    assert (summary["event"], summary["caches"], summary["block"]) == ("summary", "1", str(BLOCK))
    assert summary["num_free"] == summary["num_blocks"] != "0"
    assert (summary["used_cells"], summary["fallback"], summary["desync"]) == ("0", "0", "0")
    assert len(placed) > 20
    assert int(summary["min_free"]) < int(summary["num_blocks"]) - 8, "the burst held blocks"
    assert [one for one in seen if one["event"] == "defrag"], "an empty pool started again"
