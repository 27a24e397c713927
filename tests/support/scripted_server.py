"""A server whose answers follow scripts of texts and times. It is a separate process, and records the time of every
write.

The script is a JSON file. `answers` are taken in turn by the requests for completions: each is a list of steps
`[seconds, text]`, the seconds counted from the request's arrival. A step whose text is null ends the connection. Texts
are latin-1: any byte can be sent. They are written for completions; for chat the text of a choice becomes the content
of a delta. `capacity` is how many answers may be under way at once.

`loading`: its health is 503 for ever. `head` is what comes before the steps: `sse` (chunked events), `close` (events to
the end of the connection), or `none` (the steps are all).

The record has `[number, [[planned ns, written ns], …]]` a line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

_HEADS = {
    "sse": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    "close": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
    "none": "",
}


class _Server:
    def __init__(self, script: dict[str, Any], record: Path) -> None:
        self._script = script
        self._next = 0
        self._record = record
        self._lines: list[tuple[int, list[list[int]]]] = []
        self._counters = {"prompt": 0, "generated": 0}
        capacity = script.get("capacity")
        self._slots = asyncio.Semaphore(capacity) if capacity else None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived = time.monotonic_ns()
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(one.split(b":")[1]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length")), 0
            )
            body = await reader.readexactly(length)
            path = head.split(b" ", 2)[1].decode()
            if path.endswith("/completions"):
                await self._complete(writer, body, arrived, chat="/chat/" in path)
            else:
                self._beside(writer, path)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _beside(self, writer: asyncio.StreamWriter, path: str) -> None:
        if path == "/metrics" and self._script.get("metrics"):
            told = (
                f"llamacpp:prompt_tokens_total {self._counters['prompt']}\n"
                f"llamacpp:tokens_predicted_total {self._counters['generated']}\nllamacpp:requests_processing 0\n"
            )
            answer = told.encode()
        elif path == "/health":
            if self._script.get("loading"):
                writer.write(b"HTTP/1.1 503 Loading\r\nContent-Length: 13\r\n\r\nloading model")
                return
            answer = b'{"status":"ok"}'
        elif path.startswith("/book"):
            answer = b"The server sends words, and the client counts the time between them. " * 400
        elif path == "/v1/models":
            answer = b'{"data":[{"id":"scripted"}]}'
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

    async def _complete(self, writer: asyncio.StreamWriter, body: bytes, arrived: int, *, chat: bool) -> None:
        number = self._next
        self._next += 1
        if self._slots is not None:
            await self._slots.acquire()
            arrived = time.monotonic_ns()
        try:
            await self._answer(writer, number, body, arrived, chat=chat)
        finally:
            if self._slots is not None:
                self._slots.release()

    async def _answer(
        self, writer: asyncio.StreamWriter, number: int, body: bytes, arrived: int, *, chat: bool
    ) -> None:
        script = self._script
        answers = script["answers"]
        steps = answers[number % len(answers)]
        kind = script.get("head", "sse")
        writes: list[list[int]] = []
        self._lines.append((number, writes))
        asked = json.loads(body) if body.startswith(b"{") else {}
        self._counters["generated"] += script.get("tokens", 0) + script.get("others", 0)
        prompt = asked.get("prompt")
        self._counters["prompt"] += len(prompt) if isinstance(prompt, list) else 0
        writer.write(_HEADS[kind].encode("latin-1"))
        for seconds, text in steps:
            planned = arrived + round(seconds * 1e9)
            left = (planned - time.monotonic_ns()) / 1e9
            if left > 0:
                await asyncio.sleep(left)
            if text is None:
                writer.transport.abort()
                return
            if chat:
                text = text.replace('"text": "x"', '"delta": {"content": "x"}').replace('"text": ""', '"delta": {}')
                text = text.replace("text_completion", "chat.completion.chunk")
            data = text.replace("{prompt}", str(len(prompt) if isinstance(prompt, list) else 0)).encode("latin-1")
            if kind == "sse":
                data = b"%x\r\n%s\r\n" % (len(data), data)
            writes.append([planned, time.monotonic_ns()])
            writer.write(data)
        if kind == "sse":
            writer.write(b"0\r\n\r\n")

    def write_record(self) -> None:
        lines = "".join(json.dumps(one) + "\n" for one in self._lines)
        self._record.write_text(lines, encoding="utf-8")


async def _main(script: Path, record: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    served = _Server(json.loads(script.read_text(encoding="utf-8")), record)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.disable()
    try:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    finally:
        served.write_record()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), Path(sys.argv[2])))
