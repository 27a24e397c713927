"""`bench serve --server`: servers whose port is taken, that fork, or that ignore the request to end."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran
from tests.support.bench_commands import running
from tests.support.checkout import ROOT
from tests.support.programs import program
from tests.support.scripted import stream

pytestmark = pytest.mark.local_server
# The scripted server ends with its input, so it gets one that does not end.
SERVES = "tail -f /dev/null | {python} {server} {work}/script.json {work}/writes.jsonl"
BINDS = """
import socket, sys
try:
    socket.create_server(("127.0.0.1", {port}))
except OSError as error:
    sys.exit(f"main: couldn't bind HTTP server socket, port {port}: {{error.strerror}}")
"""
Serve = Callable[..., Ran]


@pytest.fixture
def serve(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Run `bench serve` with this script as the server; `SERVES` in it is a server that answers."""
    answers = [stream([0.02 * at for at in range(1, 6)])]
    (tmp_path / "script.json").write_text(json.dumps({"answers": answers, "metrics": True, "tokens": 5}))
    parts = {"python": sys.executable, "server": ROOT / "tests/support/scripted_server.py", "work": tmp_path}
    serves = SERVES.format(**{name: shlex.quote(str(value)) for name, value in parts.items()})
    (tmp_path / "model.gguf").write_bytes(b"no model is read")
    monkeypatch.chdir(tmp_path)
    bench = running(capsys, monkeypatch)

    def run(script: str, *more: str) -> Ran:
        program(tmp_path / "bin", "llama-server", script.replace("SERVES", serves))
        load = ("--concurrency", "2", "--requests", "4", "--prompt-tokens", "8", "--max-tokens", "5", "--json")
        words = ("serve", "--server", "bin/", "--model", "model.gguf", "--allow", "cpu-load", *load, *more)
        return bench(*words)

    return run


def left(directory: Path) -> list[str]:
    """Return the other processes that name a file of the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if str(directory).encode() in words and process.name != str(os.getpid()):
                found.append(words.decode("utf-8", "replace"))
    return found


def test_a_port_of_the_user_does_not_count_the_kernel_picks_one_that_is_free(serve: Serve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = serve(f'echo "$@" >{tmp_path}/told\nSERVES', "--server-arg=--port", f"--server-arg={port}")
    assert ran.document["answered"] == 4, ran
    assert (tmp_path / "told").read_text().split()[-6:] == ["--port", port, "--host", "127.0.0.1", "--port", "0"]
    assert ran.document["url"].rpartition(":")[2].partition("/")[0] != port


def test_a_server_whose_port_is_taken_says_so(serve: Serve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "binds.py").write_text(BINDS.format(port=taken.getsockname()[1]))
        ran = serve(f"exec {sys.executable} {tmp_path}/binds.py")
    assert ran.code == 3
    assert "the server ended before it listened, with exit code 1" in ran.stderr, ran
    assert "couldn't bind HTTP server socket" in ran.stderr and "Address already in use" in ran.stderr, ran


@pytest.mark.parametrize(
    "script",
    ["trap '' TERM\nSERVES", "(trap '' TERM; exec sleep 600) &\nSERVES", "SERVES &\nwait"],
    ids=["ignores SIGTERM", "has a child that ignores it", "forks and waits"],
)
def test_nothing_is_left_of_a_server_that_forks_or_does_not_end(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr("patchstack.observe.station._STOPPED_WITHIN", 1.0)
    began = time.monotonic()
    ran = serve(script)
    assert ran.document["answered"] == 4 and ran.document["counters"]["agree"], ran
    assert time.monotonic() - began < 30
    assert left(tmp_path) == []


def test_a_server_that_is_never_ready_is_given_up_and_ended(serve: Serve, tmp_path: Path) -> None:
    answers = json.loads((tmp_path / "script.json").read_text())
    (tmp_path / "script.json").write_text(json.dumps({**answers, "loading": True}))
    ran = serve("SERVES", "--seconds", "2")
    assert ran.code == 3 and "not ready" in ran.stderr, ran
    assert left(tmp_path) == []
