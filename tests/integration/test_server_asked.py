"""Servers that are started, asked by their client, and stopped, on this host, with all their faults."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patchstack.llama.asking import with_requests
from patchstack.observe.protocol import Invocation, Observation, Request
from patchstack.observe.served import Service
from tests.support.checkout import DATA
from tests.support.programs import a_bench, program

pytestmark = pytest.mark.local_server
ASKED = (Request(path="/completion", body={"prompt": "one"}), Request(path="/completion", body={"prompt": "{address}"}))
SERVER = """\
import http.server, os, signal, sys, time
how = os.environ.get("HOW", "answers")
if how == "exits":
    sys.exit("no model")
if how == "crashes":
    os.kill(os.getpid(), signal.SIGSEGV)
if how == "prints":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    while True:
        print("x" * 1000)
if how == "deaf":
    time.sleep(60)
if how == "forks" and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif how != "ends-by-signal":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7 if how == "exits-7" else 0))
asked = {"health": 0, "asked": 0}

class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        asked["health"] += 1
        ready = how != "never-ready" and asked["health"] > 2
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self):
        asked["asked"] += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if how == "raw":
            self.wfile.write(open(os.environ["RAW"], "rb").read())
            self.close_connection = True
            return
        if how == "dies" and asked["asked"] == 2:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.wfile.flush()
            os.kill(os.getpid(), signal.SIGABRT)
            time.sleep(60)  # another thread may take the signal
        if how == "hangs":
            time.sleep(60)
        if how == "long":
            body = b"x" * 200000
        self.send_response(500 if how == "fails" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

assert sys.argv[1:] == ["--host", "127.0.0.1", "--port", "0"], sys.argv
print("ready soon", flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
server.handle_error = lambda *_: None
server.serve_forever()
"""
Serve = Callable[..., Observation]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Run a server with this behaviour, and return the result."""
    (tmp_path / "server.py").write_text(SERVER)
    script = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / "server.py"))} "$@"'
    program(tmp_path / "bin", "llama-server", script)

    def run(how: str, *, seconds: float = 40.0, output: int = 1 << 20, **more: Any) -> Observation:
        env = {"HOW": how, **more}
        invocation = Invocation(what="ask", program="llama-server", env=env, seconds=seconds, output=output)
        with a_bench(tmp_path / "bin", tmp_path) as bench:
            return bench.look(with_requests(invocation, ASKED))

    return run


def test_a_server_that_loads_for_a_while_is_waited_for_and_answers_each_request(serve: Serve) -> None:
    seen = serve("answers")
    assert (seen.files["service"].decode(), seen.code, seen.overflowed) == (Service.ANSWERED, 0, False)
    assert [(reply.status, reply.body) for reply in seen.replies] == [
        (200, b'{"prompt":"one"}'),
        (200, b'{"prompt":"{address}"}'),
    ]
    assert seen.stdout == b"ready soon\n"


@pytest.mark.parametrize(
    ("how", "service", "code", "statuses"),
    [
        ("exits", Service.ENDED_EARLY, 1, [0, 0]),
        ("crashes", Service.ENDED_EARLY, 139, [0, 0]),
        ("dies", Service.ENDED, 134, [200, 0]),
        ("fails", Service.ANSWERED, 0, [500, 500]),
        ("ends-by-signal", Service.ANSWERED, 0, [200, 200]),
        ("exits-7", Service.ANSWERED, 7, [200, 200]),
    ],
)
def test_what_became_of_the_server_is_told(
    serve: Serve, how: str, service: Service, code: int, statuses: list[int]
) -> None:
    seen = serve(how)
    assert (seen.files["service"].decode(), seen.code) == (service, code), seen
    assert [reply.status for reply in seen.replies] == statuses, seen


@pytest.mark.parametrize("how", ["never-ready", "deaf"])
def test_a_server_that_is_not_ready_in_time_is_stopped(serve: Serve, how: str) -> None:
    seen = serve(how, seconds=3.0)
    assert seen.files["service"].decode() == Service.NEVER_READY
    assert seen.code == 0  # it ended by the signal that it was sent
    assert [reply.status for reply in seen.replies] == [0, 0]


def test_an_answer_that_does_not_come_in_time_ends_it(serve: Serve) -> None:
    seen = serve("hangs", seconds=4.0)
    assert seen.files["service"].decode() == Service.BROKE
    assert [reply.status for reply in seen.replies] == [0, 0]


def test_a_server_that_prints_without_end_is_ended_at_the_limit(serve: Serve) -> None:
    seen = serve("prints", output=64 << 10)
    assert seen.overflowed
    assert len(seen.stdout) == 64 << 10
    assert seen.files["service"].decode() == Service.ENDED_EARLY


def test_an_answer_beyond_the_limit_is_none(serve: Serve) -> None:
    seen = serve("long", output=64 << 10)
    assert seen.overflowed and [reply.status for reply in seen.replies] == [0, 0]


@pytest.mark.parametrize("how", ["forks", "stubborn", "hangs"])
def test_nothing_is_left_of_a_server_that_forks_or_ignores_the_signal(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The server and its child are the only processes that hold files of the directory open."""
    monkeypatch.setattr("patchstack.observe.station._STOPPED_WITHIN", 0.5)
    seen = serve(how, seconds=4.0 if how == "hangs" else 40.0)
    if how != "hangs":
        assert (seen.files["service"].decode(), seen.code) == (Service.ANSWERED, 0)
    assert [link for link in _open_files() if str(tmp_path) in _target(link)] == []


def _open_files() -> Iterator[Path]:
    """Return the open files of every process; some processes end while they are listed."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield from (process / "fd").iterdir()


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"
PLAIN = (DATA / "llama" / "server" / "plain.http").read_bytes()


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 503, b""),
        (CHUNKED, 200, b"abcdefg"),
        (CHUNKED[:-10], 0, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", 0, b""),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", 0, b""),
        (b"SSH-2.0-OpenSSH\r\n", 0, b""),
        (b"", 0, b""),
        (PLAIN[:-1], 0, b""),
    ],
)
def test_only_a_whole_answer_is_one(serve: Serve, tmp_path: Path, raw: bytes, status: int, body: bytes) -> None:
    (tmp_path / "raw").write_bytes(raw)
    seen = serve("raw", RAW=str(tmp_path / "raw"))
    assert (seen.replies[0].status, seen.replies[0].body) == (status, body)
    assert seen.files["service"].decode() == (Service.ANSWERED if status else Service.BROKE)


def test_the_key_says_what_is_asked_and_not_by_whom(tmp_path: Path, serve: Serve) -> None:
    """Records of an earlier client stay valid, and a different question is a different observation."""
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        invocation = Invocation(what="ask", program="llama-server", seconds=40.0)
        once = with_requests(invocation, ASKED)
        first = bench.observe(once, complete=lambda _: None)
        assert once.beside is not None and first.observation is not None
        newer = dataclasses.replace(once.beside, files={**once.beside.files, "client.pyz": b"another client"})
        again = bench.observe(dataclasses.replace(once, beside=newer), complete=lambda _: None)
        assert again.observation is not None and again.observation.recalled
        assert again.observation.replies == first.observation.replies
        other = bench.observe(with_requests(invocation, ASKED[:1]), complete=lambda _: None)
    assert other.observation is not None and not other.observation.recalled
