"""Send questions to a server, one at a time, and return the complete answers.

Only the content of the answers is recorded, not their latency.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from patchstack.llama.client.door import Door, open_door
from patchstack.llama.client.loop import run
from patchstack.llama.client.plan import target_of

ANSWERED, NOT_READY, BROKE = "answered", "not-ready", "broke"
_LOOK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions for a server.

    `requests` are pairs of a path and a JSON body. A request without a body is a GET request. `ready` is the time limit
    until `/health` returns 200. `each` is the time limit of an answer. Both are in seconds. `most` is the maximum size
    of an answer in bytes.
    """

    url: str
    ready: float
    each: float
    most: int
    requests: tuple[tuple[str, Any], ...]

    def text(self) -> str:
        """Return the questions in the form that `read_questions` parses."""
        return json.dumps(asdict(self))


def read_questions(text: str) -> Questions:
    """Parse the text of a questions file. Raises `ValueError` if it is invalid."""
    found: dict[str, Any] = json.loads(text)
    try:
        found["requests"] = tuple((str(path), body) for path, body in found["requests"])
        return Questions(**found)
    except (TypeError, KeyError) as error:
        raise ValueError(str(error)) from error


class _Asking:
    """Sends the questions. If it is stopped, the answers received so far remain available."""

    def __init__(self, questions: Questions, say: Callable[[str], None]) -> None:
        self._questions, self._say = questions, say
        self.state = NOT_READY
        self.overflowed = False
        self.answers: list[tuple[int, bytes]] = []

    async def go(self) -> None:
        """Wait for the server, then send the questions. Stop at the first incomplete answer.

        Raises `NoRun` if the host has no address.
        """
        questions = self._questions
        door = await open_door(target_of(questions.url))
        if not await self._ready(door):
            return
        self.state = BROKE
        for number, (path, body) in enumerate(questions.requests, 1):
            self._say(f"asking {number}")
            data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
            reply = await door.ask("GET" if body is None else "POST", path, data, timeout=questions.each)
            self.overflowed = self.overflowed or len(reply.body) > questions.most
            if not reply.status or not reply.measured or self.overflowed:
                return
            self.answers.append((reply.status, reply.body))
        self.state = ANSWERED

    async def _ready(self, door: Door) -> bool:
        deadline = monotonic() + self._questions.ready
        while (left := deadline - monotonic()) > 0:
            if (await door.ask("GET", "/health", timeout=min(5.0, left))).status == 200:
                return True
            await asyncio.sleep(_LOOK)
        return False

    def document(self) -> dict[str, Any]:
        """Return the answers as a JSON object, in the format that `observe.served` reads."""
        answers = [[status, base64.b64encode(body).decode()] for status, body in self.answers]
        return {"state": self.state, "overflowed": self.overflowed, "answers": answers}


def ask_all(questions: Questions, say: Callable[[str], None]) -> dict[str, Any]:
    """Send the questions, and return the answers.

    After SIGINT or SIGTERM, return the answers received so far. Raises `NoRun` if the host has no address.
    """

    async def main() -> dict[str, Any]:
        asking = _Asking(questions, say)
        task = asyncio.ensure_future(asking.go())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            say("told to end")
        return asking.document()

    return run(main())
