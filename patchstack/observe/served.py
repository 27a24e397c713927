"""Convert the results of a server and its client to an observation."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from enum import StrEnum

from patchstack.engine.protocol import Ending, Outcome
from patchstack.observe.beside import ClientResult
from patchstack.observe.protocol import Invocation, Observation, Reply

ANSWERS = "answers.json"
"""The name of the file in which a client leaves the server's responses.

It is a JSON object. `state` is `answered`, `not-ready` or `broke`. `overflowed` is true if a response was too long.
`answers` contains a pair for each complete response: its status, and its body in base64.
"""
_OVERFLOW = 153  # 128 + SIGXFSZ: a stream reached the limit on file sizes
_STOPPED = (0, 128 + 15, 128 + 9)


class Service(StrEnum):
    """How the exchange with the server ended."""

    ANSWERED = "every request was sent, and the server ran to the end"
    ENDED_EARLY = "the server ended before it was ready"
    NEVER_READY = "the server was not ready in time"
    BROKE = "a request could not be sent, or its response was not complete in time"
    ENDED = "the server ended before all requests were answered"
    LOST = "the client left no responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """The run of a server.

    `client` is the result of its client; None if the client did not start. `alive` is true if the server ran until it
    was told to end. `outcome` is the outcome of the server's job. `seconds` is the total time.
    """

    client: ClientResult | None
    alive: bool
    outcome: Outcome
    stdout: bytes
    stderr: bytes
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The responses that a client left. `replies` are the complete responses."""

    state: str = ""
    overflowed: bool = False
    replies: tuple[Reply, ...] = ()


def read_answers(content: bytes) -> Answers:
    """Parse the file in which a client left the responses.

    Returns an empty `Answers` if the content is damaged or empty.
    """
    try:
        found = json.loads(content)
        pairs = [(int(status), base64.b64decode(body, validate=True)) for status, body in found["answers"]]
        return Answers(
            state=str(found["state"]),
            overflowed=bool(found["overflowed"]),
            replies=tuple(Reply(status=status, body=body) for status, body in pairs),
        )
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        return Answers()


def answered(run: ServerRun, invocation: Invocation, key: str) -> Observation:
    """Return the observation of a server that received the requests of an invocation.

    It contains a reply for each request, with status 0 for a request without a response. In its `files`, `service`
    describes in words how the exchange with the server ended.
    """
    answers = read_answers(run.client.files.get(ANSWERS, b"")) if run.client is not None else Answers()
    count = len(invocation.requests)
    missing = (Reply(status=0, body=b""),) * (count - len(answers.replies))
    limit = file_limit(invocation.output)
    long = any(len(stream) >= limit for stream in (run.stdout, run.stderr))
    service = _service(run, answers, count)
    words = str(service)
    if service is Service.LOST and run.client is not None:
        words += f": {run.client.said.strip()[-200:] or 'it printed nothing'}"
    return Observation(
        key=key,
        ending=run.client.outcome.ending if run.alive and run.client is not None else run.outcome.ending,
        code=_code(run),
        stdout=run.stdout,
        stderr=run.stderr,
        seconds=run.seconds,
        overflowed=long or answers.overflowed or run.outcome.code == _OVERFLOW,
        replies=(*answers.replies[:count], *missing),
        files={"service": words.encode()},
    )


def measured(run: ServerRun, key: str) -> Observation:
    """Return the observation of a server that a client measured.

    It contains the client's files and output, and the server's output.
    """
    stderr = run.stdout + run.stderr
    if run.client is None:
        return Observation(
            key=key,
            ending=run.outcome.ending,
            code=run.outcome.code or 1,
            stdout=b"",
            stderr=stderr,
            seconds=run.seconds,
        )
    client = run.client
    files = {**client.files, "said": client.said.encode(), "stopped": b"1" if client.stopped else b""}
    return Observation(
        key=key,
        ending=client.outcome.ending,
        code=_code(run),
        stdout=b"",
        stderr=stderr,
        seconds=run.seconds,
        files=files,
    )


def file_limit(output: int) -> int:
    """Return the maximum size of a server's output file in bytes.

    It is a multiple of 512, because `ulimit` counts blocks of this size.
    """
    return max(1, output // 512) * 512


def _code(run: ServerRun) -> int:
    """Return the exit code of the server. It is 0 if the server ended because it was told to end."""
    return 0 if run.alive and run.outcome.code in _STOPPED else run.outcome.code


def _service(run: ServerRun, answers: Answers, count: int) -> Service:
    if run.client is None or answers.state == "not-ready":
        return Service.NEVER_READY if run.alive else Service.ENDED_EARLY
    if not answers.state:
        lost = run.alive or run.client.outcome.ending is Ending.TIMED_OUT
        return Service.LOST if lost and not run.client.server_ended else Service.ENDED_EARLY
    if not run.alive:
        return Service.ENDED
    whole = answers.state == "answered" and len(answers.replies) == count
    return Service.ANSWERED if whole else Service.BROKE
