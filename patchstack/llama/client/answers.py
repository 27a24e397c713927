"""Parse the event stream of a completion: the times of content, the token counts, and the end.

Completions and chat completions of llama-server and vLLM are supported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from patchstack.llama.client.events import BadStream, EventReader
from patchstack.llama.client.wire import AnswerReader, BadAnswer

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal", "text")
_WORDS = 300
_decode = json.JSONDecoder().raw_decode
_SPACE = " \t\n\r"


@dataclass(slots=True)
class Answer:
    """The result of a request.

    `times` are the times of the chunks with generated content, in ns. `counts` contains the number of tokens generated
    up to each chunk. A count is None if the server did not report it. `tokens`, `prompt` and `cached` are token counts
    that the server reports. `failure` is the reason why the request failed. It is empty if the request succeeded.
    Content before a failure remains in the answer. `odd` counts the events without content, by kind.
    """

    status: int = 0
    failure: str = ""
    times: list[int] = field(default_factory=list)
    counts: list[int | None] = field(default_factory=list)
    tokens: int | None = None
    prompt: int | None = None
    cached: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    finish: str = ""
    odd: dict[str, int] = field(default_factory=dict)

    def saw(self, what: str) -> None:
        """Count an event without content. `what` is its kind."""
        self.odd[what] = self.odd.get(what, 0) + 1

    def fail(self, why: str) -> None:
        """Record the first failure. Later failures are consequences of the first."""
        self.failure = self.failure or why


class _Reading:
    """Parses the events of one answer, in order."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.finished = False
        self.over = False

    def event(self, time: int, data: bytes, name: str) -> None:
        if self.over:
            self.answer.saw("after the end")
            return
        document = _document(data)
        if document is None:
            if data.strip() == b"[DONE]":
                self.over = True
            else:
                self.answer.fail(f"an event is not a JSON object: {_shown(data)}")
            return
        get = document.get
        if name == "error" or get("error") is not None:
            self.answer.fail(f"the server reports an error: {error_words(document)}")
            return
        usage, timings = get("usage"), get("timings")
        count = None
        if isinstance(timings, dict):
            count = self._timings(timings)
        if isinstance(usage, dict):
            made = self._usage(usage)
            count = count if made is None else made
        self._choices(time, get("choices"), usage, count)

    # The last counts are used, because a server may send them with every chunk.

    def _usage(self, usage: dict[str, Any]) -> int | None:
        """Read the token counts of `usage`, and return the number of tokens generated so far."""
        answer = self.answer
        made, prompt = _whole(usage.get("completion_tokens")), _whole(usage.get("prompt_tokens"))
        if made is not None:
            if answer.tokens is not None and made < answer.tokens:
                answer.fail(f"the token count in usage decreased from {answer.tokens} to {made}")
            answer.tokens = made
        answer.prompt = prompt if prompt is not None else answer.prompt
        details = usage.get("prompt_tokens_details")
        cached = _whole(details.get("cached_tokens")) if isinstance(details, dict) else None
        answer.cached = cached if cached is not None else answer.cached
        return made

    def _timings(self, timings: dict[str, Any]) -> int | None:
        """Read the token counts of `timings`, and return the number of tokens generated so far."""
        answer = self.answer
        made, cached = _whole(timings.get("predicted_n")), _whole(timings.get("cache_n"))
        if made is not None:
            answer.tokens = made
        if cached is not None:
            answer.cached = cached
        prompt = _whole(timings.get("prompt_n"))
        if prompt is not None:
            answer.prompt = prompt + (cached or 0)
        drafted, accepted = _whole(timings.get("draft_n")), _whole(timings.get("draft_n_accepted"))
        answer.drafted = drafted if drafted is not None else answer.drafted
        answer.accepted = accepted if accepted is not None else answer.accepted
        return made

    def _choices(self, time: int, choices: object, usage: object, count: int | None) -> None:
        answer = self.answer
        if not isinstance(choices, list) or not choices:
            answer.saw("usage" if isinstance(usage, dict) else "empty")
            return
        content, finish = False, ""
        for choice in choices:
            if not isinstance(choice, dict):
                answer.fail("the stream has a choice that is not an object")
                return
            if choice.get("index") not in (0, None):
                answer.fail("the stream has several choices, but one was requested")
                return
            content = content or _has_content(choice)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                finish = reason
        if content:
            if self.finished:
                answer.fail("content came after the finish")
                return
            answer.times.append(time)
            answer.counts.append(count)
        else:
            delta = choices[0].get("delta")
            answer.saw("role" if isinstance(delta, dict) and delta.get("role") else "empty")
        if finish:
            self.finished, answer.finish = True, finish


def read_answer(wire: AnswerReader, body: Iterable[tuple[int, bytes]], ended: str) -> Answer:
    """Parse the server's response on a connection.

    `body` yields the parts of the body that `wire` has parsed, with their times in ns. `ended` is the reason why the
    connection ended early. It is empty if the response is complete, or if the server closed the connection.
    """
    events, reading = EventReader(), _Reading()
    answer = reading.answer
    refused = bytearray()
    stream = False
    try:
        for time, part in body:
            answer.status = wire.status
            stream = stream or (wire.status == 200 and _is_stream(wire))
            if not stream:
                refused += part[: _WORDS * 10 - len(refused)]
                continue
            for event in events.feed(part):
                reading.event(time, event.data, event.name)
        if not wire.done:
            if ended:
                answer.fail(ended)
            wire.close()
    except (BadAnswer, BadStream) as error:
        answer.fail(ended if ended and not wire.done else str(error))
    answer.status = wire.status
    if events.comments:
        answer.odd["comment"] = events.comments
    if wire.status and not stream:
        answer.fail(_refused(wire, bytes(refused)))
    elif not answer.failure:
        _check_end(reading, events)
    return answer


def _check_end(reading: _Reading, events: EventReader) -> None:
    answer = reading.answer
    if not reading.over:
        if events.unfinished():
            answer.fail("the stream ended in the middle of an event")
        elif not reading.finished:
            answer.fail("the stream ended without a finish and without [DONE]")
        else:
            answer.saw("no [DONE]")
    if not answer.failure and not answer.times:
        answer.fail("the stream has no generated content")


def _is_stream(wire: AnswerReader) -> bool:
    coding = wire.headers.get("content-encoding", "identity").strip().lower()
    kind = wire.headers.get("content-type", "").partition(";")[0].strip().lower()
    return coding in ("", "identity") and kind == "text/event-stream"


def _refused(wire: AnswerReader, body: bytes) -> str:
    """Return the reason why a response is not an event stream."""
    if 300 <= wire.status < 400:
        return f"the server answered {wire.status}: it redirects to {wire.headers.get('location', 'nowhere')[:_WORDS]}"
    coding = wire.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        return f"the answer is compressed ({coding[:20]}), although no compression was requested"
    if wire.status != 200:
        return f"the server answered {wire.status}: {_body_words(body)}"
    kind = wire.headers.get("content-type", "nothing")[:60]
    return f"the answer is {kind}, not a stream of events: {_body_words(body)}"


def _body_words(body: bytes) -> str:
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return _shown(body)
    return error_words(document) if isinstance(document, dict) else _shown(body)


def error_words(document: dict[str, Any]) -> str:
    """Return the error message in a server's JSON response. Several formats are supported."""
    error = document.get("error", document)
    words = error.get("message", error) if isinstance(error, dict) else error
    return (words if isinstance(words, str) else json.dumps(words))[:_WORDS]


def _has_content(choice: dict[str, Any]) -> bool:
    """Return whether a choice has generated content: text, reasoning or a tool call.

    A role without content does not count.
    """
    text = choice.get("text")
    if text and isinstance(text, str):
        return True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    if any(isinstance(delta.get(name), str) and delta[name] for name in _TEXTS):
        return True
    return bool(delta.get("tool_calls")) or bool(delta.get("function_call"))


def _document(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object in the data of an event. Return None if the data is not a JSON object.

    A decoder is called directly, because `json.loads` is slower.
    """
    try:
        text = str(data, "utf-8").strip(_SPACE)
        document, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and end == len(text) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "backslashreplace"))
