"""`patchstack bench serve`, against a scripted server: documents, screens, exit codes, and the messages of refusals."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchstack.cli.bench.app import bench_app
from patchstack.cli.failures import guarded
from patchstack.files.places import cache_places
from tests.conftest import Ran
from tests.support.scripted import Step, event, scripted_server, stream, text_event, usage_event

Bench = Callable[..., Ran]


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a function that runs a bench command."""

    def run(*args: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["bench", *args])
        capsys.readouterr()
        code = guarded(bench_app)
        out, err = capsys.readouterr()
        return Ran(code=code, stdout=out, stderr=err)

    return run


FOUR = [stream([0.5 * number + 0.02 * at for at in range(30)]) for number in range(1, 3)]


def test_a_run_gives_a_document_a_record_and_its_exit(bench: Bench, tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", FOUR, metrics=True, tokens=30) as server:
        load = ("--concurrency", "2", "--prompt-tokens", "8", "--max-tokens", "30", "--slo", "ttft=700")
        ran = bench("serve", "--url", server.url, "--model", "scripted", *load, "--json")
    document: dict[str, Any] = ran.document
    assert ran.code == (0 if document["valid"] else 4), ran
    assert not [one for one in document["problems"] if "bottleneck" not in one]  # possible on a busy machine
    assert (document["tokens"], document["prompt"], document["answered"]) == (60, 16, 2)
    assert document["counters"]["agree"] is True and document["marks"] == []
    assert document["ttft_ms"]["n"] == 2 and document["ttft_ms"]["p99"] is None
    assert document["itl_ms"]["p50"] == pytest.approx(20, abs=15)
    assert document["good"] == 1 and document["notebook"]["caveat"].startswith("decode_agg_tps counts tokens")
    kept = gzip.decompress(cache_places().outputs.joinpath(f"{document['record']}.gz").read_bytes())
    assert hashlib.sha256(kept).hexdigest() == document["record"]
    assert len(json.loads(kept)["requests"][0]["times"]) == 30


def test_the_screen_has_the_caveat_and_says_what_is_invalid(bench: Bench, tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.05, 0.1])]) as server:
        ran = bench(
            "serve", "--url", f"{server.url}/v1", "--concurrency", "2", "--max-tokens", "5", "--arrivals", "burst"
        )
    for words in (
        "2 requests at once",
        "decode_agg_tps counts tokens that were made while other streams were in prefill",
        "request 0 made 2 tokens, not 5",
        "not cross-checked: the server has no known counters",
        "steady",
    ):
        assert words in ran.stdout, ran.stdout


def test_failed_requests_are_listed_and_the_run_is_invalid(bench: Bench, tmp_path: Path) -> None:
    busy = "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"
    with scripted_server(tmp_path / "s", [[(0, busy)]], head="none") as server:
        ran = bench("serve", "--url", server.url, "--concurrency", "2", "--html", str(tmp_path / "page.html"))
    assert ran.code == 4
    assert "request 0 failed: the server answered 503: 'busy'" in ran.stdout
    assert "INVALID: 2 of 2 requests failed" in ran.stdout
    assert "the server answered 503" in (tmp_path / "page.html").read_text()


def test_a_page_draws_the_load_the_distributions_and_the_timeline(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    with scripted_server(tmp_path / "s", FOUR) as server:
        load = ("--concurrency", "2", "--prompt-tokens", "8", "--max-tokens", "30")
        bench("serve", "--url", server.url, *load, "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    for words in ("Load", "TTFT", "ITL", "Timeline", "waits for its first token", "<svg"):
        assert words in page


@pytest.mark.parametrize(("counted", "drawn"), [(True, "between tokens (ITL)"), (False, "two chunks with content")])
def test_a_page_draws_gaps_of_tokens_and_of_chunks_if_they_differ(
    bench: Bench, tmp_path: Path, counted: bool, drawn: str
) -> None:
    pytest.importorskip("vl_convert")
    said = [{"usage": {"completion_tokens": 2 * at, "prompt_tokens": 8}} if counted else {} for at in range(1, 31)]
    chunks = [event({"choices": [{"index": 0, "text": "xx"}], **one}) for one in said]
    steps: list[Step] = [(0.01 * at, text) for at, text in enumerate(chunks)]
    steps.append((0.3, text_event("", "length") + usage_event(60) + event("[DONE]")))
    with scripted_server(tmp_path / "s", [steps]) as server:
        load = ("--concurrency", "2", "--prompt-tokens", "8", "--max-tokens", "60")
        bench("serve", "--url", server.url, *load, "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert drawn in page
    assert ("between chunks (ICL)" in page) is counted


def test_a_file_of_arrivals_has_times_and_lengths(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "arrivals").write_text("# seconds, prompt, answer\n0.1 8 2\n\n0 9\n")
    with scripted_server(tmp_path / "s", [stream([0.02, 0.04])]) as server:
        arrivals = f"file:{tmp_path / 'arrivals'}"
        ran = bench("serve", "--url", server.url, "--arrivals", arrivals, "--max-tokens", "2", "--json")
    assert ran.document["prompt_tokens"] == [9, 8] and ran.document["prompt"] == 17
    assert ran.document["queue_ms"]["n"] == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "exactly one of --url and --server is needed"),
        (("--url", "http://h", "--server", "k"), "exactly one of --url and --server is needed"),
        (("--url", "h:1"), "is not a URL of a server"),
        (("--url", "http://u:p@h"), "the URL contains a user or a password, which would be stored"),
        (("--url", "http://h", "--rate", "2", "--arrivals", "closed"), "--rate is for an open loop"),
        (("--url", "http://h", "--arrivals", "poisson"), "arrivals poisson need --rate"),
        (("--url", "http://h", "--arrivals", "wave"), "arrivals 'wave' are unknown: use one of closed, poisson"),
        (("--url", "http://h", "--arrivals", "staggered"), "arrivals staggered need --stagger"),
        (("--url", "http://h", "--arrivals", "file:/no/such"), "cannot be read"),
        (("--url", "http://h", "--prefix", "shared:0"), "must be nonce or shared:N"),
        (("--url", "http://h", "--prefix", "shared:128"), "the shared prefix has 128 tokens"),
        (("--url", "http://h", "--slo", "speed=3"), "--slo speed=3: must be one of ttft=MS, tpot=MS, e2e=MS"),
        (
            ("--url", "http://h", "--engine", "docker"),
            "--server-arg and --env can only be used with --server",
        ),
        (
            ("--url", "http://h", "--api-key-env", "NO_SUCH_NAME"),
            "NO_SUCH_NAME of --api-key-env is not set",
        ),
        (("--server", "k"), "needs a model"),
    ],
)
def test_what_cannot_be_asked_is_told(bench: Bench, args: tuple[str, ...], words: str) -> None:
    ran = bench("serve", *args)
    assert ran.code == 2 and words in ran.stderr, ran


def test_a_server_that_is_not_there_is_missing(bench: Bench) -> None:
    ran = bench("serve", "--url", "http://127.0.0.1:9", "--ready", "0")
    assert ran.code == 3
    assert "the server at http://127.0.0.1:9/v1/completions is not ready: no connection" in ran.stderr


def test_nothing_is_left_of_the_client(bench: Bench, tmp_path: Path) -> None:
    with scripted_server(tmp_path / "s", [stream([0.01])]) as server:
        bench("serve", "--url", server.url, "--max-tokens", "1")
    assert list((cache_places().engine / "volumes").iterdir()) == []
