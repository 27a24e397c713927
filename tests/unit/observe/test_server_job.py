"""A server inside a job: started, asked and stopped, whatever it does; and its answers as they came over the wire."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.observe.protocol import Request
from patchstack.observe.server_job import (
    Served,
    Service,
    brought_files,
    read_reply,
    request_files,
    served,
    server_command,
)
from tests.support.checkout import DATA

ASKED = (Request(path="/completion", body={"prompt": "one"}), Request(path="/completion", body={"prompt": "two"}))

SERVER = """\
import http.server, os, signal, sys, time
how = sys.argv[1]
if how == "exits":
    sys.exit("no model")
if how == "crashes":
    os.kill(os.getpid(), signal.SIGSEGV)
if how == "prints":
    while True:
        print("x" * 1000)
if how == "deaf":
    time.sleep(60)
if how != "ends-by-signal":
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
        if how == "dies" and asked["asked"] == 2:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.wfile.flush()
            os.kill(os.getpid(), signal.SIGABRT)
        if how == "hangs":
            time.sleep(60)
        self.send_response(500 if how == "fails" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

assert sys.argv[2:4] == ["--host", "127.0.0.1"] and sys.argv[4:] == ["--port", "0"], sys.argv
print("ready soon", flush=True)
http.server.HTTPServer(("127.0.0.1", 0), Answer).serve_forever()
"""


def serve(directory: Path, how: str, *, ready: float = 20, each: float = 20, output: int = 1 << 20) -> Served:
    """Run a server that behaves so, as a job would."""
    exchange = directory / "exchange"
    exchange.mkdir()
    for name, content in request_files(ASKED).items():
        (exchange / name).write_bytes(content)
    server = (sys.executable, "-c", SERVER, how)
    command = server_command(server, directory=str(exchange), count=len(ASKED), ready=ready, each=each, output=output)
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, timeout=90)
    names = [name for name in brought_files(len(ASKED)) if (exchange / name).exists()]
    files = {name: (exchange / name).read_bytes() for name in names}
    return served(done.returncode, files, count=len(ASKED), output=output)


def test_a_server_that_loads_for_a_while_is_waited_for_and_answers_each_request(tmp_path: Path) -> None:
    found = serve(tmp_path, "answers")

    assert (found.service, found.code, found.overflowed) == (Service.ANSWERED, 0, False)
    assert [reply.status for reply in found.replies] == [200, 200]
    assert [reply.body for reply in found.replies] == [b'{"prompt": "one"}', b'{"prompt": "two"}']
    assert found.stdout == b"ready soon\n"


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
    tmp_path: Path, how: str, service: Service, code: int, statuses: list[int]
) -> None:
    found = serve(tmp_path, how)

    assert (found.service, found.code) == (service, code), found
    assert [reply.status for reply in found.replies] == statuses


@pytest.mark.parametrize("how", ["never-ready", "deaf"])
def test_a_server_that_is_not_ready_in_time_is_stopped(tmp_path: Path, how: str) -> None:
    found = serve(tmp_path, how, ready=0.5)

    assert found.service is Service.NEVER_READY
    assert found.code == 0  # it ended by the signal that it was sent
    assert [reply.status for reply in found.replies] == [0, 0]


def test_an_answer_that_does_not_come_in_time_ends_it(tmp_path: Path) -> None:
    found = serve(tmp_path, "hangs", each=0.3)

    assert found.service is Service.BROKE
    assert [reply.status for reply in found.replies] == [0, 0]


def test_a_server_that_prints_without_end_is_ended_at_the_limit(tmp_path: Path) -> None:
    found = serve(tmp_path, "prints", output=64 << 10)

    assert found.overflowed
    assert len(found.stdout) == 64 << 10
    assert found.service is Service.ENDED_EARLY


def test_a_server_that_is_not_there_ends_early(tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    command = server_command(("/nowhere",), directory=str(exchange), count=0, ready=5, each=5, output=1 << 20)
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, timeout=30)

    found = served(done.returncode, {"ended": (exchange / "ended").read_bytes()}, count=0, output=1 << 20)

    assert (found.service, found.code) == (Service.ENDED_EARLY, 127)


def test_no_process_is_left(tmp_path: Path) -> None:
    """The server is the only process that knows the directory; a left-over one would hold its files open."""
    serve(tmp_path, "hangs", each=0.3)

    assert [link for link in _open_files() if str(tmp_path) in _target(link)] == []


def _open_files() -> Iterator[Path]:
    """Those of every process; other processes end while they are listed."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield from (process / "fd").iterdir()


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_a_job_that_was_ended_itself_leaves_no_answers() -> None:
    found = served(137, {}, count=2, output=1 << 20)

    assert (found.service, found.code) == (Service.LOST, None)
    assert [reply.status for reply in found.replies] == [0, 0]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 503, b""),
        (CHUNKED, 200, b"abcdefg"),
        (CHUNKED[:-10], 0, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", 0, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", 0, b""),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", 0, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Le", 0, b""),
        (b"SSH-2.0-OpenSSH\r\n", 0, b""),
        (b"\xff\xfe\x00", 0, b""),
        (b"", 0, b""),
    ],
)
def test_only_a_whole_answer_is_one(raw: bytes, status: int, body: bytes) -> None:
    reply = read_reply(raw)

    assert (reply.status, reply.body) == (status, body)


def test_every_part_of_a_captured_answer_is_none() -> None:
    whole = (DATA / "llama" / "server" / "plain.http").read_bytes()

    assert read_reply(whole).status == 200
    assert {read_reply(whole[:size]).status for size in range(len(whole))} == {0}
