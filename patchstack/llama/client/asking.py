"""Questions asked one after the other, each answer kept whole: for checks of what a server says, not of when."""

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
from patchstack.llama.client.plan import target_of

ANSWERED, NOT_READY, BROKE = "answered", "not-ready", "broke"
_LOOK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is asked. `requests` are pairs of a path and a JSON body (None: GET). `ready` are the seconds until
    `/health` says 200, `each` those for an answer; `most` is the most bytes of one."""

    url: str
    ready: float
    each: float
    most: int
    requests: tuple[tuple[str, Any], ...]

    def text(self) -> str:
        """Return the questions as a file."""
        return json.dumps(asdict(self))


def read_questions(text: str) -> Questions:
    """Return the questions of a file. Raises `ValueError` for one that has none."""
    found: dict[str, Any] = json.loads(text)
    try:
        found["requests"] = tuple((str(path), body) for path, body in found["requests"])
        return Questions(**found)
    except (TypeError, KeyError) as error:
        raise ValueError(str(error)) from error


class _Asking:
    """Asks, and keeps what came until the end, whatever ends it."""

    def __init__(self, questions: Questions, say: Callable[[str], None]) -> None:
        self._questions, self._say = questions, say
        self.state = NOT_READY
        self.overflowed = False
        self.answers: list[tuple[int, bytes]] = []

    async def go(self) -> None:
        """Wait for the server and ask it, until an answer does not come whole. Raises `NoRun`."""
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
        """Return what came, as `observe.served` reads it."""
        answers = [[status, base64.b64encode(body).decode()] for status, body in self.answers]
        return {"state": self.state, "overflowed": self.overflowed, "answers": answers}


def ask_all(questions: Questions, say: Callable[[str], None]) -> dict[str, Any]:
    """Ask, and return what came. SIGTERM ends it: what came before is returned. Raises `NoRun`."""

    async def run() -> dict[str, Any]:
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

    return asyncio.run(run())
