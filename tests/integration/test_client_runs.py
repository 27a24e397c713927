"""The client as a zipapp in a separate process, against a scripted server."""

from __future__ import annotations

import json
import os
import resource
import signal
import ssl
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from patchstack.bench.serving.figures import LoadTerms, figures_of
from patchstack.bench.serving.record import read_record as typed
from patchstack.llama.client.arrivals import arrivals
from patchstack.llama.client.plan import read_plan, target_of
from patchstack.llama.client.prompts import shared_start
from patchstack.llama.client.zipapp import client_file
from tests.support.scripted import (
    a_plan,
    event,
    read_record,
    run_client,
    scripted_server,
    start_client,
    stream,
    text_event,
    usage_event,
)

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def failure_of(directory: Path, *steps: tuple[float, str | None], head: str = "none", **plan: Any) -> str:
    """Return why the one request that these steps answer failed."""
    with scripted_server(directory / "server", [steps], head=head) as server:
        record = run_client(directory / "client", a_plan(server.url, requests=1, concurrency=1, **plan))
    assert record["requests"][0]["failure"]
    return str(record["requests"][0]["failure"])


def test_times_are_those_of_the_servers_writes(tmp_path: Path) -> None:
    answers = [stream([0.05 + 0.01 * at + 0.02 * number for at in range(20)]) for number in range(4)]
    with scripted_server(tmp_path / "server", answers) as server:
        record = run_client(tmp_path / "client", a_plan(server.url, max_tokens=(20,)))
    assert [one["failure"] for one in record["requests"]] == [""] * 4
    for one in record["requests"]:
        assert (one["tokens"], one["prompt"], len(one["times"])) == (20, 8, 20)
        assert one["began"] <= one["connected"] <= one["sent"] <= one["times"][0] <= one["times"][-1] <= one["ended"]
    spans = sorted(one["times"][-1] - one["times"][0] for one in record["requests"])
    written = sorted(writes[-1][1] - writes[0][1] for writes in server.writes.values())
    assert spans == pytest.approx(
        written, abs=100e6
    )  # a busy machine may need this much; a benchmark checks the bound itself


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([(0, HEAD + text_event()), (0.05, None)], "without a finish and without [DONE]"),
        ([(0, HEAD + text_event())], "without a finish and without [DONE]"),
        ([(0, HEAD + text_event() + event({"error": {"message": "no room"}}))], "no room"),
        ([(0, HEAD + "data: {half")], "middle of an event"),
        ([(0, HEAD + "data: \xff\xfe\n\n")], "an event is not a JSON object"),
        ([(0, HEAD + 'data: {"choices": [{"text": "\xc3"}]}\n\n')], "an event is not a JSON object"),
        ([(0, HEAD + "data: " + "x" * (10 << 20))], "a line of the stream is over 4 MiB"),
        ([(0, HEAD + text_event("a", "stop") + text_event("b") + event("[DONE]"))], "content came after the finish"),
        ([(0, "HTTP/1.1 429 Slow\r\nContent-Length: 4\r\n\r\nwait")], "the server answered 429: 'wait'"),
        ([(0, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")], "the server answered 503"),
        ([(0, "HTTP/1.1 302 To\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n")], "redirects to http://x/"),
        ([(0, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")], "compressed (gzip)"),
        ([(0, "SSH-2.0-x\r\n\r\n")], "not HTTP"),
        ([(0, None)], "no answer was received"),
        ([(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), (0.05, None)], "ended before the answer was complete"),
    ],
)
def test_a_fault_of_the_server_is_a_failed_request(tmp_path: Path, steps: list[Any], words: str) -> None:
    assert words in failure_of(tmp_path, *steps)


def test_a_request_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    assert failure_of(tmp_path, (0, HEAD + text_event()), (30, None), timeout=0.3) == "it took over 0.3 s"


def test_every_request_has_its_own_limit_from_when_it_was_sent(tmp_path: Path) -> None:
    """Two at once: the first hangs, the others take 0.25 s each, so the run is longer than any limit."""
    good = stream([0.25])
    with scripted_server(tmp_path / "s", [[(0, text_event()), (30, None)], good, good, good, good]) as server:
        plan = a_plan(server.url, requests=5, concurrency=2, max_tokens=(1,), timeout=0.8, counters=False)
        record = run_client(tmp_path / "c", plan)
    assert sorted(one["failure"] for one in record["requests"]) == ["", "", "", "", "it took over 0.8 s"]
    late = next(one for one in record["requests"] if one["failure"])
    assert 0.8e9 <= late["ended"] - late["began"] < 5e9


def test_what_came_before_a_failure_is_kept_and_no_latency(tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [[(0, HEAD + text_event()), (0.05, None)]], head="none") as server:
        run_client(tmp_path / "c", a_plan(server.url, requests=1, concurrency=1))
    record = typed((tmp_path / "c/record.json.gz").read_bytes())
    assert len(record.requests[0].times) == 1
    served = figures_of(record, LoadTerms(arrivals="closed", concurrency=1, prefix=0, slo={}))
    assert served.ttft is None and len(served.failed) == 1 and "1 of 1 requests failed" in served.problems[0]


def test_a_server_that_is_not_there_or_never_ready(tmp_path: Path) -> None:
    done = start_client(tmp_path / "a", a_plan("http://127.0.0.1:9", ready=0.0))
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 3 and b"failed the server at http://127.0.0.1:9/v1/completions is not ready" in said
    with scripted_server(tmp_path / "s", [[(0, "x")]]) as server:
        done = start_client(tmp_path / "b", a_plan(server.url, prompts="text", ready=0.0))
        said, _ = done.communicate(timeout=60)
    assert done.returncode == 3 and b"does not support /tokenize" in said


def test_a_server_that_loads_for_ever_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.01])], loading=True) as server:
        done = start_client(tmp_path / "c", a_plan(server.url, ready=0.3))
        said, _ = done.communicate(timeout=60)
    assert done.returncode == 3
    assert b"is not ready after 0.3 s: it answers 503: loading model" in said


def test_a_model_that_the_server_does_not_have_is_told_in_its_words(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "The model `wrong` does not exist.", "code": 404}})
    answer = f"HTTP/1.1 404 No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    told = failure_of(tmp_path, (0, answer), model="wrong")
    assert told == "the server answered 404: The model `wrong` does not exist."


def test_a_thousand_streams_need_files_and_the_soft_limit_is_raised(tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.5])]) as server:
        plan = a_plan(server.url, requests=1000, concurrency=1000, max_tokens=(1,))
        for name, hard in (("low", 1000), ("high", 4096)):
            directory = tmp_path / name
            directory.mkdir()
            (directory / "client.pyz").write_bytes(client_file())
            (directory / "plan.json").write_text(plan.text())
            done = subprocess.run(
                [sys.executable, "-I", "-S", "client.pyz", "plan.json", "record.json.gz"],
                cwd=directory,
                capture_output=True,
                preexec_fn=lambda hard=hard: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)),  # type: ignore[misc]
                check=False,
            )
            assert done.returncode == {1000: 2, 4096: 0}[hard], done.stdout
            if hard == 1000:
                assert b"1000 streams need 1064 open files, but the hard limit is 1000 (ulimit -Hn)" in done.stdout
    record = read_record(tmp_path / "high")
    assert record["watch"]["descriptors_allowed"] == 1064
    assert record["watch"]["descriptors"] > 1000 or not Path("/proc/self/fd").exists()
    assert {one["failure"] for one in record["requests"]} == {""}


JUMPING = """
import datetime, runpy, sys, time
real, jumps = time.time, [0]
def jumped():
    jumps[0] += 1
    return real() + 3600 * (-1) ** jumps[0]
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(jumped(), tz)
time.time, datetime.datetime = jumped, Jumping
time.time_ns = lambda: round(jumped() * 1e9)
sys.argv = ["client.pyz", "plan.json", "record.json.gz"]
runpy.run_path("client.pyz", run_name="__main__")
"""


def test_a_clock_that_jumps_changes_no_time(tmp_path: Path) -> None:
    """The wall clock jumps by an hour at every read. It is used only for the beginning of the run."""
    with scripted_server(tmp_path / "s", [stream([0.1, 0.2, 0.3])]) as server:
        (tmp_path / "c").mkdir()
        (tmp_path / "c/client.pyz").write_bytes(client_file())
        plan = a_plan(server.url, requests=3, arrivals="constant", rate=10.0, concurrency=0, max_tokens=(3,))
        (tmp_path / "c/plan.json").write_text(plan.text())
        done = subprocess.run([sys.executable, "-c", JUMPING], cwd=tmp_path / "c", capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_record(tmp_path / "c")
    assert [round(one["planned"] / 1e6) for one in record["requests"]] == [0, 100, 200]
    for one in record["requests"]:
        assert one["failure"] == "" and 0 <= one["sent"] - one["planned"] < 5e9
        assert 0.25e9 < one["times"][-1] - one["sent"] < 5e9
    assert 0.5e9 <= record["wall"] < 10e9
    assert abs(datetime.fromisoformat(record["began"]).timestamp() - time.time()) > 1800


def test_a_client_that_reads_slowly_says_that_it_was_the_bottleneck(tmp_path: Path) -> None:
    """The client stops once for a tenth of the run: one late sample of its timer, and many missed ones."""
    with scripted_server(tmp_path / "s", [stream([0.02 * at for at in range(1, 150)])]) as server:
        client = start_client(tmp_path / "c", a_plan(server.url, max_tokens=(149,), counters=False))
        assert client.stdout is not None
        while b"running" not in client.stdout.readline():
            pass
        time.sleep(1.0)
        client.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        client.send_signal(signal.SIGCONT)
        said, _ = client.communicate(timeout=60)
    assert client.returncode == 0, said
    record = typed((tmp_path / "c/record.json.gz").read_bytes())
    assert all(len(one.times) == 149 for one in record.requests)
    assert record.watch.lag_max_ms > 250 and record.watch.lag_p99_ms > 100
    served = figures_of(record, LoadTerms(arrivals="closed", concurrency=4, prefix=0, slo={}))
    assert any("the client was the bottleneck: it was late by" in one for one in served.problems)


def test_a_run_that_is_ended_keeps_what_came_and_is_marked(tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.1 * at for at in range(1, 300)])]) as server:
        done = start_client(tmp_path / "c", a_plan(server.url, requests=6, concurrency=2, max_tokens=(300,)))
        assert done.stdout is not None
        while b"running" not in done.stdout.readline():
            pass
        time.sleep(1.0)
        done.send_signal(signal.SIGTERM)
        done.communicate(timeout=60)
    assert done.returncode == 130
    record = read_record(tmp_path / "c")
    assert record["interrupted"]
    assert [one["failure"] for one in record["requests"]] == ["the run was interrupted"] * 2 + [
        "it was not sent: the run was interrupted"
    ] * 4
    assert len(record["requests"][0]["times"]) > 2


def test_the_api_key_is_sent_and_kept_nowhere(tmp_path: Path) -> None:
    key = "sk-secret-words"
    answer = f"HTTP/1.1 401 No\r\nContent-Length: {len(key) + 12}\r\n\r\nno such key {key}"
    with scripted_server(tmp_path / "s", [[(0, answer)]], head="none") as server:
        record = run_client(tmp_path / "c", a_plan(server.url, requests=1, concurrency=1), key=key)
    assert record["requests"][0]["failure"] == "the server answered 401: 'no such key ***'"
    for path in (tmp_path / "c").iterdir():
        assert key.encode() not in path.read_bytes(), path
    assert key not in json.dumps(record)


def test_proxies_of_the_environment_are_not_asked(tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.01])]) as server:
        (tmp_path / "c").mkdir()
        (tmp_path / "c/client.pyz").write_bytes(client_file())
        (tmp_path / "c/plan.json").write_text(a_plan(server.url, requests=1, concurrency=1).text())
        environment = {
            "PATH": os.environ["PATH"],
            "http_proxy": "http://127.0.0.1:9",
            "ALL_PROXY": "http://127.0.0.1:9",
        }
        subprocess.run(
            [sys.executable, "-I", "-S", "client.pyz", "plan.json", "record.json.gz"],
            cwd=tmp_path / "c",
            env=environment,
            check=True,
            capture_output=True,
        )
    assert read_record(tmp_path / "c")["requests"][0]["failure"] == ""


def test_certificates_must_be_trusted(tmp_path: Path) -> None:
    made = subprocess.run(
        (
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        ),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    url, stop = _tls_server(tmp_path)
    try:
        plan = a_plan(url, requests=1, concurrency=1, max_tokens=(1,), counters=False, ready=0.0)
        done = start_client(tmp_path / "a", plan)
        said, _ = done.communicate(timeout=60)
        assert done.returncode == 3 and b"the certificate of localhost is not trusted" in said
        trusting = a_plan(url, requests=1, concurrency=1, max_tokens=(1,), cacert=str(tmp_path / "cert.pem"))
        assert run_client(tmp_path / "b", trusting)["requests"][0]["failure"] == ""
    finally:
        stop()


def _tls_server(directory: Path) -> tuple[str, Any]:
    """Return a TLS server that answers everything with one token."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"{}", "application/json")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("completions"):
                body = text_event("a", "stop") + usage_event(1, "8") + event("[DONE]")
                self._answer(body.encode(), "text/event-stream")
            else:
                self.send_error(404)

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore the error of a client that does not trust us and disconnects."""

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return f"https://localhost:{server.server_address[1]}", stop


def test_counters_that_grew_by_more_say_that_somebody_else_was_there(tmp_path: Path) -> None:
    for others, agree in ((0, True), (3, False)):
        directory = tmp_path / str(others)
        answers = [stream([0.02, 0.04, 0.06, 0.08])]
        with scripted_server(directory / "s", answers, metrics=True, tokens=4, others=others) as server:
            run_client(directory / "c", a_plan(server.url))
        record = typed((directory / "c/record.json.gz").read_bytes())
        served = figures_of(record, LoadTerms(arrivals="closed", concurrency=4, prefix=0, slo={}))
        assert served.crossed.agree is agree
        assert any("another client used the server" in one for one in served.problems) is not agree


def test_beyond_a_servers_capacity_planned_times_grow_and_sent_times_do_not(tmp_path: Path) -> None:
    """The server gives two answers at once, 0.1 s each: 20 a second. It gets 40 requests a second, at most two in
    flight."""
    answers = [stream([0.02 * at for at in range(1, 6)])]
    with scripted_server(tmp_path / "s", answers, capacity=2) as server:
        plan = a_plan(server.url, arrivals="constant", rate=40.0, requests=120, concurrency=2, max_tokens=(5,))
        run_client(tmp_path / "c", plan)
    record = typed((tmp_path / "c/record.json.gz").read_bytes())
    served = figures_of(record, LoadTerms(arrivals="constant", concurrency=2, prefix=0, slo={}))
    first, last = served.streams[:60], served.streams[60:]
    from_planned = [max(one.e2e for one in half) / 1e9 for half in (first, last)]
    from_sent = [sorted(one.times[-1] - one.sent for one in half)[-6] / 1e9 for half in (first, last)]
    assert from_planned[1] > 1.6 * from_planned[0] and from_planned[1] > 2.5
    assert from_sent[1] < 0.6
    assert served.queue is not None and served.queue.max > 2000


def test_arrivals_are_planned_before_the_run() -> None:
    poisson = arrivals("poisson", 1000, rate=50.0, seed=3)
    assert poisson == arrivals("poisson", 1000, rate=50.0, seed=3) != arrivals("poisson", 1000, rate=50.0, seed=4)
    assert poisson.planned[-1] == pytest.approx(20.0, rel=0.15)
    assert arrivals("constant", 3, rate=2.0).planned == (0.0, 0.5, 1.0)
    assert arrivals("burst", 3) == arrivals("burst", 3, concurrency=2)
    assert arrivals("closed", 3, concurrency=2).planned == (0.0, 0.0, None)
    assert arrivals("staggered", 3, concurrency=2, stagger=0.5).planned == (0.0, 0.5, None)
    assert arrivals("file", 2, times=(1.0, 0.5)).planned == (0.5, 1.0)
    for kind, rate in (("closed", 0.0), ("poisson", 0.0), ("file", 0.0), ("other", 1.0)):
        with pytest.raises(ValueError, match=r"."):
            arrivals(kind, 2, rate=rate)


@pytest.mark.parametrize(
    ("url", "whole", "chat"),
    [
        ("http://h:1", "http://h:1/v1/completions", False),
        ("http://h:1/", "http://h:1/v1/completions", False),
        ("http://h:1/v1", "http://h:1/v1/completions", False),
        ("https://h/a/v1/completions", "https://h:443/a/v1/completions", False),
        ("http://h/v1/chat/completions", "http://h:80/v1/chat/completions", True),
        ("http://[::1]:5", "http://[::1]:5/v1/completions", False),
    ],
)
def test_a_url_is_a_base_or_a_full_path(url: str, whole: str, chat: bool) -> None:
    found = target_of(url)
    assert (found.url, found.chat) == (whole, chat)


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "http://u:p@h", "http://h?x=1", "http://h/a b"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        target_of(url)


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = a_plan("http://h", times=(0.5,), prompt_tokens=(1, 2))
    assert read_plan(plan.text()) == plan
    with pytest.raises(ValueError, match="promptz"):
        read_plan(plan.text().replace('"prompts"', '"promptz"'))


def test_the_client_is_one_file_with_the_same_bytes_every_time() -> None:
    assert client_file() == client_file()


def test_the_start_that_prompts_share_is_counted() -> None:
    assert shared_start([[1, 2, 3], [1, 2, 4], [2, 2, 3]]) == 2
    assert shared_start([[1]]) == 0
