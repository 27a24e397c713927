"""Run a plan against a server, and record all answers.

The client waits for the server, makes the prompts, and sends the requests at the planned times.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Any

from patchstack.llama.client.answers import read_answer
from patchstack.llama.client.arrivals import arrivals
from patchstack.llama.client.connection import Exchange, connect
from patchstack.llama.client.counters import read_counters
from patchstack.llama.client.door import Door, NoRun, Reply, open_door
from patchstack.llama.client.loop import run
from patchstack.llama.client.plan import KEY_VARIABLE, Plan, Target, target_of
from patchstack.llama.client.prompts import NoPrompt, Prompts, make_prompts, request_body
from patchstack.llama.client.watch import SelfWatch, open_descriptors, raise_descriptors

SETTLE = 5.0
"""The maximum time, in seconds, to wait until the server's counters include the run."""
_SPARE = 64
"""The number of file descriptors that are needed in addition to the connections."""
Say = Callable[[str], None]


class Client:
    """Runs one plan against one server."""

    def __init__(self, plan: Plan, key: str, say: Say) -> None:
        self.plan = plan
        self.target: Target = target_of(plan.url, chat=plan.chat)
        self._key = key
        self._say = say
        self._model = plan.model

    async def run(self) -> dict[str, Any]:
        """Run the plan, and return the record of the run. Raises `NoRun` if the run cannot start."""
        plan = self.plan
        try:
            schedule = arrivals(
                plan.arrivals,
                plan.requests,
                concurrency=plan.concurrency,
                rate=plan.rate,
                stagger=plan.stagger,
                seed=plan.seed,
                times=plan.times,
            )
        except ValueError as error:
            raise NoRun(str(error), "usage") from error
        most = schedule.most or plan.requests
        soft, hard = raise_descriptors(most + _SPARE)
        if soft < most + _SPARE:
            raise NoRun(
                f"{most} streams need {most + _SPARE} open files, but the hard limit is {hard} (ulimit -Hn)", "usage"
            )
        self._door = await open_door(self.target, plan.cacert, self._key)
        await self._ready()
        self._model = self._model or await self._first_model()
        prompts = await self._prompts()
        requests = [self._request(request_body(self._with_model(), one, at)) for at, one in enumerate(prompts.values)]
        before = await self._counters()
        self._say("running")
        run = _Run(requests, schedule.planned, schedule.most, plan, self._door)
        await run.go()
        self._say("reading")
        answers = [self._row(one, run) for one in run.rows]
        after, settled = await self._settled(before, answers)
        return {
            "schema": "patchstack.serve-record/1",
            "python": sys.version.split()[0],
            "url": self.target.url,
            "model": self._model,
            "began": run.began,
            "interrupted": run.interrupted,
            "wall": run.wall,
            "prompts": prompts.form,
            "shared": prompts.shared,
            "requests": answers,
            "watch": {**run.watch.document(), "descriptors": run.descriptors, "descriptors_allowed": soft},
            "counters": {
                "server": before[0] if before is not None else "",
                "before": before[1] if before is not None else {},
                "after": after[1] if after is not None else {},
                "settled_seconds": settled,
            },
        }

    # The server

    async def _ready(self) -> None:
        """Wait until the server answers a health check with a status other than 503.

        A server without a health check is therefore ready as soon as it answers. Raises `NoRun` after the time limit.
        """
        deadline = monotonic_ns() + round(self.plan.ready * 1e9)
        while True:
            reply = await self._ask("GET", "/health", timeout=5.0)
            if reply.status and reply.status != 503:
                return
            if monotonic_ns() >= deadline:
                words = reply.failure or f"it answers {reply.status}: {reply.body[:80].decode('utf-8', 'replace')}"
                waited = f" after {self.plan.ready:g} s" if self.plan.ready else ""
                raise NoRun(f"the server at {self.target.url} is not ready{waited}: {self._hidden(words)}")
            await asyncio.sleep(0.1)

    async def _first_model(self) -> str:
        reply = await self._ask("GET", "/v1/models")
        try:
            found = json.loads(reply.body)["data"][0]["id"] if reply.status == 200 else ""
        except (ValueError, KeyError, IndexError, TypeError):
            found = ""
        return found if isinstance(found, str) else ""

    async def _prompts(self) -> Prompts:
        async def ask(method: str, path: str, body: object) -> tuple[int, bytes]:
            reply = await self._ask(method, path, body)
            return reply.status, reply.body

        try:
            return await make_prompts(self._with_model(), ask)
        except NoPrompt as error:
            raise NoRun(str(error)) from error

    def _with_model(self) -> Plan:
        return dataclasses.replace(self.plan, model=self._model)

    async def _counters(self) -> tuple[str, dict[str, float]] | None:
        if not self.plan.counters:
            return None
        reply = await self._ask("GET", "/metrics")
        found = read_counters(reply.body.decode("utf-8", "replace")) if reply.status == 200 else ("", {})
        return found if found[0] else None

    async def _settled(
        self, before: tuple[str, dict[str, float]] | None, rows: list[dict[str, Any]]
    ) -> tuple[tuple[str, dict[str, float]] | None, float]:
        """Return the counters after the run, and the waiting time in seconds.

        Servers may update their counters late. Wait until the counters include all tokens that the client counted, but
        for at most `SETTLE` seconds.
        """
        if before is None:
            return None, 0.0
        wanted = sum(row["tokens"] or 0 for row in rows)
        began = monotonic_ns()
        while True:
            after = await self._counters()
            taken = (monotonic_ns() - began) / 1e9
            made = after[1]["generated"] - before[1]["generated"] if after is not None else 0.0
            idle = after is None or not (after[1].get("busy", 0) or after[1].get("waiting", 0))
            if taken > SETTLE or (made >= wanted and idle):
                return after, round(taken, 3)
            await asyncio.sleep(0.05)

    async def _ask(self, method: str, path: str, body: object = None, *, timeout: float = 60.0) -> Reply:
        """Send one request that is not part of the run, and return the reply."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        return await self._door.ask(method, self.target.prefix + path, data, timeout=timeout)

    # Requests

    def _request(self, body: bytes) -> bytes:
        return self._door.wire("POST", self.target.path, body, accept="text/event-stream")

    def _row(self, row: _Row, run: _Run) -> dict[str, Any]:
        """Return the record of a request. Times are in ns since the run began."""
        exchange = row.exchange
        found: dict[str, Any] = {
            "number": row.number,
            "planned": row.planned,
            "prompt_wanted": self.plan.prompt_of(row.number),
            "tokens_wanted": self.plan.most_of(row.number),
        }
        if exchange is None:
            return {**found, **_NOTHING, "failure": "it was not sent: the run was interrupted"}
        answer = read_answer(exchange.reader, exchange.body(), exchange.failure)
        zero = run.zero
        return {
            **found,
            "began": exchange.began - zero,
            "connected": exchange.connected - zero if exchange.connected else None,
            "sent": exchange.sent - zero if exchange.sent else None,
            "ended": exchange.ended - zero,
            "times": [one - zero for one in answer.times],
            "counts": answer.counts,
            "status": answer.status,
            "failure": self._hidden(answer.failure),
            "tokens": answer.tokens,
            "prompt": answer.prompt,
            "cached": answer.cached,
            "drafted": answer.drafted,
            "accepted": answer.accepted,
            "finish": answer.finish,
            "odd": answer.odd,
        }

    def _hidden(self, words: str) -> str:
        """Return a message with the API key replaced, because a server may repeat the key."""
        return words.replace(self._key, "***") if self._key else words


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("began", "connected", "sent", "ended", "tokens", "prompt", "cached", "drafted", "accepted")),
    "times": [],
    "counts": [],
    "status": 0,
    "finish": "",
    "odd": {},
}


class _Row:
    """A request of the run.

    `planned` is the planned time in ns. It is None if the request is sent when another request ends.
    """

    __slots__ = ("exchange", "number", "planned")

    def __init__(self, number: int, planned: int | None) -> None:
        self.number = number
        self.planned = planned
        self.exchange: Exchange | None = None


class _Run:
    """Sends the requests as planned.

    All times are relative to `zero` on the monotonic clock, because the wall clock may jump.
    """

    def __init__(
        self,
        requests: list[bytes],
        planned: tuple[float | None, ...],
        most: int,
        plan: Plan,
        door: Door,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._requests, self._most, self._plan = requests, most, plan
        self._door = door
        self.rows = [_Row(at, None if one is None else round(one * 1e9)) for at, one in enumerate(planned)]
        self._planned = deque(row for row in self.rows if row.planned is not None)
        self._start = 0.0  # the loop's clock at `zero`
        self._limits: deque[tuple[float, Exchange]] = deque()  # the deadline of each exchange, in order
        self._waiting: deque[_Row] = deque()  # due requests that wait until fewer are in flight
        self._later = [row for row in self.rows if row.planned is None][::-1]
        self._open = 0
        self._left = len(self.rows)
        self._over = self._loop.create_future()
        self.watch = SelfWatch(self._loop)
        self.zero = 0
        self.began = ""
        self.wall = 0
        self.descriptors = 0
        self.interrupted = False

    async def go(self) -> None:
        """Send all requests. Return when all requests have ended, or after a signal."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._stop)
        try:
            self.began = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.watch.start()
            self.zero = monotonic_ns()
            self._start = self._loop.time()
            self._plan_next()
            await self._over
            self.wall = monotonic_ns() - self.zero
        finally:
            self.watch.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)

    def _plan_next(self) -> None:
        """Send the requests that are due, and set a timer for the next request.

        Only one timer is set at a time. asyncio compares its timers in Python, so a timer for each request would make
        every sample of the watch slower.
        """
        now = self._loop.time() - self._start
        while self._planned and not self._over.done():
            row = self._planned[0]
            assert row.planned is not None
            if row.planned / 1e9 > now:
                self._loop.call_at(self._start + row.planned / 1e9, self._plan_next)
                return
            self._due(self._planned.popleft())

    def _due(self, row: _Row) -> None:
        if self._most and self._open >= self._most:
            self._waiting.append(row)
        else:
            self._send(row)

    def _send(self, row: _Row) -> None:
        self._open += 1
        door = self._door
        exchange = row.exchange = Exchange(self._requests[row.number], lambda _: self._ended())
        self._limits.append((self._loop.time() + self._plan.timeout, exchange))
        if len(self._limits) == 1:
            self._loop.call_later(self._plan.timeout, self._late)
        connect(exchange, door.address, door.secure, door.target.host)

    def _late(self) -> None:
        """Fail the exchanges that have taken too long.

        All exchanges have the same time limit, so the oldest one reaches the limit first.
        """
        now = self._loop.time()
        while self._limits:
            limit, exchange = self._limits[0]
            if not exchange.over:
                if limit > now:
                    self._loop.call_at(limit, self._late)
                    return
                exchange.fail(f"it took over {self._plan.timeout:g} s")
            self._limits.popleft()

    def _ended(self) -> None:
        if self._open >= min(self._most or self._left, len(self.rows)):
            self.descriptors = max(self.descriptors, open_descriptors())
        self._open -= 1
        self._left -= 1
        if self._over.done():
            return
        if not self._left:
            self._over.set_result(None)
        elif self._waiting:
            self._send(self._waiting.popleft())
        elif self._later:
            self._send(self._later.pop())

    def _stop(self) -> None:
        """Stop the run. The data received so far remains available."""
        if self._over.done():
            return
        self.interrupted = True
        self._over.set_result(None)
        for row in self.rows:
            if row.exchange is not None and not row.exchange.over:
                row.exchange.fail("the run was interrupted")


def run_plan(plan: Plan, say: Say) -> dict[str, Any]:
    """Run a plan, and return the record. Raises `NoRun` if the run cannot start."""
    key = os.environ.get(KEY_VARIABLE, "")
    if any(not 0x20 < ord(letter) < 0x7F for letter in key):
        raise NoRun("the API key has characters that are not valid in a header", "usage")
    began = time.process_time()
    gc.disable()  # a collection would examine all received data, but would free little
    try:
        record = run(Client(plan, key, say).run())
    finally:
        gc.enable()
    record["cpu_in_all"] = round(time.process_time() - began, 6)
    return record
