"""minillm's server streams as llama-server does, and `bench serve` measures it: its sums are the server's, exactly."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
from typing import Any

import pytest

from tests.conftest import RunCli
from tests.support.minillm import PROMPT, Programs, built_upstream

pytestmark = [
    pytest.mark.local_server,
    pytest.mark.skipif(
        shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
    ),
]

REQUEST = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(built_upstream(tmp_path_factory), tmp_path_factory.mktemp("models"))


def asked(port: int, path: str, **body: Any) -> tuple[str | None, str]:
    """Return the type and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, body=json.dumps(body))
    reply = connection.getresponse()
    return reply.getheader("Content-Type"), reply.read().decode()


def made(port: int) -> int:
    """Return the number of tokens in the server's counters."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return int(text.partition("\nllamacpp:tokens_predicted_total ")[2].split()[0])


def events(body: str) -> list[str]:
    *parts, rest = body.split("\n\n")
    assert rest == ""
    return [part.removeprefix("data: ") for part in parts]


def test_a_stream_is_a_token_an_event_then_the_sums_and_the_end(programs: Programs) -> None:
    with programs.serving() as (_, port):
        whole = json.loads(asked(port, "/v1/completions", **REQUEST)[1])
        kind, body = asked(port, "/v1/completions", **REQUEST, stream=True, timings_per_token=True)
        assert made(port) == 24
    assert kind == "text/event-stream"
    *tokens, last, done = events(body)
    assert done == "[DONE]"
    parts, sums = [json.loads(one) for one in tokens], json.loads(last)
    assert "".join(one["choices"][0]["text"] for one in parts) == whole["choices"][0]["text"]
    assert [one["timings"]["predicted_n"] for one in parts] == list(range(1, 13))
    assert {one["choices"][0]["finish_reason"] for one in parts} == {None}
    assert (sums["choices"][0]["text"], sums["choices"][0]["finish_reason"]) == ("", "length")
    prompt = len(PROMPT) + 1
    details = {"prompt_tokens_details": {"cached_tokens": 0}}
    counts = {"completion_tokens": 12, "prompt_tokens": prompt, "total_tokens": 12 + prompt, **details}
    assert sums["usage"] == whole["usage"] == counts


def test_without_the_wish_no_token_has_timings(programs: Programs) -> None:
    with programs.serving() as (_, port):
        *tokens, last, _ = events(asked(port, "/v1/completions", **REQUEST, stream=True)[1])
    assert not any("timings" in json.loads(one) for one in tokens)
    assert json.loads(last)["timings"]["predicted_n"] == 12


def test_the_own_words_of_the_server_stream_too(programs: Programs) -> None:
    with programs.serving() as (_, port):
        whole = json.loads(asked(port, "/completion", **REQUEST)[1])
        found = [json.loads(one) for one in events(asked(port, "/completion", **REQUEST, stream=True)[1])]
    assert "".join(one["content"] for one in found) == whole["content"]
    assert [one["stop"] for one in found] == [False] * 12 + [True]
    assert [one["tokens_predicted"] for one in found] == [*range(1, 13), 12]
    assert found[-1]["timings"]["predicted_n"] == 12


def test_a_text_is_counted_as_a_prompt_is(programs: Programs) -> None:
    with programs.serving() as (_, port):
        ids = json.loads(asked(port, "/tokenize", content="Hi", add_special=True)[1])["tokens"]
        assert json.loads(asked(port, "/tokenize", content="Hi")[1])["tokens"] == ids[1:] == [72, 105]


def test_who_leaves_ends_the_completion_and_the_server_counts_what_it_made(programs: Programs) -> None:
    with programs.serving("slow:20") as (_, port):
        with socket.create_connection(("127.0.0.1", port)) as near:
            body = json.dumps({**REQUEST, "max_tokens": 400, "stream": True}).encode()
            near.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            while b"data: " not in near.recv(4096):
                pass
        assert 1 <= made(port) < 50  # it notices by a failed send, a few tokens later


@pytest.mark.parametrize("fault", ["lose-output", "crash"])
def test_a_stream_can_break_off(programs: Programs, fault: str) -> None:
    with programs.serving(fault) as (_, port), pytest.raises((http.client.IncompleteRead, OSError)):
        asked(port, "/v1/completions", **REQUEST, stream=True)


def measured(run: RunCli, programs: Programs, *more: str) -> dict[str, Any]:
    load = ("--prompt-tokens", "32", "--max-tokens", "24", "--seed", "5")
    model = programs.work / "seed-1.mllm"
    ran = run(
        "bench", "serve", "--server", programs.bin, "--model", model, *load, *more, "--allow", "cpu-load", "--json"
    )
    assert ran.code in (0, 4), ran
    document: dict[str, Any] = ran.document
    return document


@pytest.mark.parametrize(
    "more",
    [
        ("--concurrency", "1", "--requests", "6"),
        ("--concurrency", "3", "--requests", "6"),
        ("--rate", "40", "--requests", "6"),
        ("--concurrency", "2", "--requests", "6", "--prompts", "text"),
        ("--concurrency", "2", "--requests", "6", "--prefix", "shared:8", "--no-chunk-counts"),
    ],
    ids=["closed", "queued", "open", "text", "shared"],
)
def test_the_clients_sums_are_minillms(run_patchstack: RunCli, programs: Programs, more: tuple[str, ...]) -> None:
    document = measured(run_patchstack, programs, *more)
    own = [one for one in document["problems"] if "bottleneck" not in one]  # a busy machine may make it so
    assert (own, document["marks"]) == ([], [])
    assert (document["tokens"], document["prompt"], document["answered"]) == (6 * 24, 6 * 32, 6)
    assert document["counters"] == {
        "server": "llama-server",
        "prompt": 6 * 32,
        "prompt_counted": 6 * 32,
        "tokens": 6 * 24,
        "tokens_counted": 6 * 24,
        "agree": True,
    }
    assert document["itl_ms"]["n"] == 6 * 23


def test_a_server_that_breaks_off_has_failed_requests(run_patchstack: RunCli, programs: Programs) -> None:
    document = measured(
        run_patchstack, programs, "--concurrency", "2", "--requests", "3", "--env", "MINILLM_FAULT=crash"
    )
    assert document["failed"] == 3 and not document["valid"]
    assert any("3 of 3 requests failed" in one for one in document["problems"])
