"""Following an agent through a log with known prompts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from patchstack.cost.prefix.records import Record, read_log
from patchstack.errors import UsageError
from patchstack.workflow.agent_steps import AgentRun, EstimatedTokens, ServerTokens, follow
from patchstack.workflow.cost import open_subject
from tests.support.gguf_header import hybrid_35b, qwen3_32b, write_shape


def talk(steps: int, *, images: bool = False, evict: bool = False) -> list[Any]:
    """Return requests of an agent with a screenshot in each step; with `evict` all but the last three become text."""
    messages: list[Any] = [{"role": "system", "content": "s" * 4000}]
    found = []
    for step in range(steps):
        text = {"type": "text", "text": f"step {step} " + "o" * 300}
        image = {"type": "image_url", "image_url": {"url": f"data:{step}"}}
        messages.append({"role": "user", "content": [text, image] if images else text["text"]})
        if evict and step >= 3:
            old = 1 + 2 * (step - 3)
            messages[old] = {
                "role": "user",
                "content": [messages[old]["content"][0], {"type": "text", "text": "[evicted]"}],
            }
        found.append(
            {"request": {"messages": list(messages)}, "response": {"content": f"answer {step}", "timings": {}}}
        )
        messages.append({"role": "assistant", "content": f"answer {step}"})
    return found


def followed(directory: Path, lines: list[Any], *options: str, dense: bool = True, **how: Any) -> AgentRun:
    log = directory / "log.jsonl"
    log.write_text("\n".join(json.dumps(one) for one in lines))
    described = qwen3_32b() if dense else hybrid_35b(vocab=1000)
    subject = open_subject(write_shape(directory / "model.gguf", *described), ["-c", "40960", "-np", "1", *options])
    return follow(
        read_log(log), subject.workload().layout, subject.options, EstimatedTokens(how.get("image_tokens")), **how
    )


def test_an_agent_that_only_appends_grows_linearly_and_blames_nobody(tmp_path: Path) -> None:
    run = followed(tmp_path, talk(12))
    assert all(one.blame is None for one in run.steps)
    assert run.growth.quadratic < 0.05 * run.growth.linear
    assert run.unit.startswith("estimated tokens of 4 bytes")
    ways = {one.name: one.processed for one in run.ways}
    assert ways["append-only"] == ways["as logged (simulated)"] == sum(one.processed for one in run.steps)
    assert ways["no cache"] > 2 * ways["append-only"]


def test_images_that_become_text_are_blamed_and_make_it_quadratic(tmp_path: Path) -> None:
    run = followed(tmp_path, talk(12, images=True, evict=True), image_tokens=500)
    changed = [one for one in run.steps if one.blame is not None]
    assert len(changed) == 9
    assert [one.blame.message for one in changed if one.blame] == [1 + 2 * step for step in range(9)]
    assert {one.blame.change for one in changed if one.blame} == {"lost its image"}
    assert all(one.lost and one.lost > 0 for one in changed)
    ways = {one.name: one.processed for one in run.ways}
    assert ways["append-only"] < ways["as logged (simulated)"]
    assert "last 3 images at the end" in ways


def test_a_hybrid_model_at_the_defaults_pays_for_each_user_message_twice(tmp_path: Path) -> None:
    lines = talk(8)
    for one in lines:
        one["response"]["content"] = "thought about it"  # returns without the thoughts
    run = followed(tmp_path, lines, dense=False)
    assert {one.blame.change for one in run.steps if one.blame} == {"is not what the server answered"}
    ways = {one.name: one.processed for one in run.ways}
    assert ways["-cms 0"] < 0.8 * ways["as logged (simulated)"]


def test_an_image_of_unknown_size_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the token count of an image in the prompt is unknown") as told:
        followed(tmp_path, talk(2, images=True))
    assert told.value.hint == "set it with --image-tokens N"


def test_the_agents_own_time_is_between_answer_and_request(tmp_path: Path) -> None:
    lines = talk(3)
    for at, one in enumerate(lines):
        one |= {"started": 10.0 * at, "ended": 10.0 * at + 7}
    assert [one.action for one in followed(tmp_path, lines).steps] == [None, 3.0, 3.0]


class Scripted(BaseHTTPRequestHandler):
    """A server that renders messages with a marker for each image; every character is a token."""

    marker = "<__media_x__>"

    def do_GET(self) -> None:
        self.reply({"media_marker": self.marker})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.reply({"tokens": [ord(one) for one in body["content"]]})
            return
        text = ""
        for one in body["messages"]:
            parts = one["content"] if isinstance(one["content"], list) else [{"type": "text", "text": one["content"]}]
            shown = "".join(part.get("text", self.marker or "?") for part in parts)
            text += f"[{one['role']}]{shown}\n"
        self.reply({"prompt": text + ("" if body.get("add_generation_prompt") is False else "[assistant]")})

    def reply(self, document: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (as the base class names it)
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a scripted server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def record_of(directory: Path, *contents: Any, total: int | None = None) -> Record:
    line: dict[str, Any] = {"request": {"messages": [{"role": "user", "content": one} for one in contents]}}
    if total is not None:
        line["response"] = {"timings": {"cache_n": 0, "prompt_n": total}}
    (directory / "log.jsonl").write_text(json.dumps(line))
    return read_log(directory / "log.jsonl").records[0]


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{name}"}}


@pytest.mark.local_server
def test_a_servers_tokens_have_the_spans_of_images_in_them(tmp_path: Path, asked: str) -> None:
    text = [{"type": "text", "text": "ab"}, picture("one"), {"type": "text", "text": "c"}, picture("two")]
    prompt = ServerTokens(asked, 5).prompt(record_of(tmp_path, text))
    assert prompt.images == ((8, 13), (14, 19))
    assert len(prompt.tokens) == len("[user]abc\n[assistant]") + 10
    assert prompt.user_starts == (0,)
    same = ServerTokens(asked, 5).prompt(record_of(tmp_path, [{"type": "text", "text": "ab"}, picture("one")]))
    other = ServerTokens(asked, 5).prompt(record_of(tmp_path, [{"type": "text", "text": "ab"}, picture("two")]))
    assert same.tokens[:13] == prompt.tokens[:13]
    assert other.tokens[:8] == prompt.tokens[:8]
    assert other.tokens[8] != prompt.tokens[8]


@pytest.mark.local_server
def test_the_size_of_an_image_is_what_the_server_counted_beside_the_text(tmp_path: Path, asked: str) -> None:
    text = len("[user]\n[assistant]")
    tokens = ServerTokens(asked)
    assert tokens.prompt(record_of(tmp_path, [picture("one"), picture("two")], total=text + 14)).images[1] == (13, 20)
    assert tokens.prompt(record_of(tmp_path, [picture("one")])).images == ((6, 13),)
    with pytest.raises(UsageError, match="the token count of the images in the prompt is unknown"):
        ServerTokens(asked).prompt(record_of(tmp_path, [picture("one"), picture("two")], total=text + 13))


@pytest.mark.local_server
def test_a_server_without_vision_is_told(tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "marker", None)
    with pytest.raises(UsageError, match="the server reports no media marker") as told:
        ServerTokens(asked, 5).prompt(record_of(tmp_path, [picture("one")]))
    assert told.value.hint is not None
    assert "--mmproj" in told.value.hint


def test_the_last_images_at_the_end_are_processed_anew_each_step(tmp_path: Path) -> None:
    run = followed(tmp_path, talk(8, images=True), image_tokens=500, last_images=2)
    ways = {one.name: one.processed for one in run.ways}
    text = ways["append-only"] - 8 * 500
    assert ways["last 2 images at the end"] == pytest.approx(text + (1 + 7 * 2) * 500, rel=0.02)
