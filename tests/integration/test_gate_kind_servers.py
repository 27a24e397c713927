"""`gate tokens` and `gate rollback` alone, on a server with prepared answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.gate import gate_app
from tests.support.programs import program

SERVER = """\
import http.server, json, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
ids = [5, 6, 7, 8] if os.environ.get("SWITCH") != "1" else [5, 6, 7, 9]
drafts = {"draft_n": 6, "draft_n_accepted": 2} if "--spec-type" in sys.argv else {}
asked = []

class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cached = 2 if asked and question["cache_prompt"] else 0
        asked.append(question)
        self.answer({"tokens": ids, "stop_type": "limit", "timings": {"cache_n": cached, "prompt_n": 3, **drafts}})

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

http.server.HTTPServer(("127.0.0.1", 0), Answer).serve_forever()
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "server.py").write_text(SERVER)
    program(tmp_path / "bin", "llama-server", f'exec {sys.executable} {tmp_path / "server.py"} "$@"')
    (tmp_path / "tiny.gguf").write_bytes(b"weights")
    return [
        "--bin",
        str(tmp_path / "bin"),
        "--model",
        str(tmp_path / "tiny.gguf"),
        "--tokens",
        "4",
        "--prompt",
        "Hello",
    ]


def gate(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["patchstack", *options])
    return guarded(gate_app)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--expect", "5,6,7,8"), 0, "PASS  tokens: 4 tokens, equal to the last with the reference"),
        (
            ("--expect", "5 6 7 9"),
            1,
            "FAIL  tokens: differs from the reference: position 3: 8, not 9; top-two margin unknown",
        ),
        ((), 4, "INVALID  tokens: no reference yet"),
        (("--switch", "SWITCH=0"), 0, "PASS  tokens: off: 4 tokens, for others to compare with; on: 4 tokens, equal"),
        (("--switch", "SWITCH=1"), 1, "FAIL  tokens: on: differs from off: position 3: 9, not 8"),
    ],
)
def test_tokens_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert gate(monkeypatch, "tokens", *arguments, *options) == code
    assert said in capsys.readouterr().out


def test_a_document_has_the_ids_that_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], tmp_path: Path
) -> None:
    assert gate(monkeypatch, "tokens", *arguments, "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert document["details"]["states"][0]["ids"] == [5, 6, 7, 8]

    (tmp_path / "ids.json").write_text(json.dumps(document["details"]["states"][0]["ids"]))
    assert gate(monkeypatch, "tokens", *arguments, "--expect-file", str(tmp_path / "ids.json")) == 0


def test_rollback_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    checks = ("--check", "speculative", "--check", "reuse", "--speculative=--spec-type", "--speculative=ngram-simple")

    assert gate(monkeypatch, "rollback", *arguments, *checks) == 0
    said = capsys.readouterr().out
    assert "4 equal tokens; 6 drafted, 2 accepted" in said
    assert "2 of 5 of the prompt from the cache" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("tokens", "--expect", "5,x"), "--expect '5,x' is neither token ids nor their SHA-256"),
        (("tokens", "--expect", ""), "--expect '' is neither token ids nor their SHA-256"),
        (("tokens", "--expect-file", "nowhere"), "nowhere cannot be read: No such file or directory"),
        (("tokens", "--expect", "1,2,3,4,5"), "--tokens: 4 tokens are requested, but the reference has 5"),
        (("tokens", "--margin", "1"), "--margin: 1 is not a difference in probability"),
        (("tokens", "--arg=-np", "--arg=4"), "--arg: -np is set by the gate"),
        (("tokens", "--switch", "SWITCH"), "--switch SWITCH: must be NAME=VALUE"),
        (("rollback", "--check", "all"), "--check: 'all' is not one of program, speculative, reuse"),
        (
            ("rollback", "--check", "speculative"),
            "--speculative: the check needs speculative (arguments of the server)",
        ),
        (("rollback", "--says", "("), "--says: '(' is not a regular expression"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    assert gate(monkeypatch, options[0], *arguments, *options[1:]) == 2
    assert said in capsys.readouterr().err
