"""Scripts for the scripted server, the server as a process, and the client run against it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patchstack.llama.client.plan import Plan
from patchstack.llama.client.zipapp import client_file
from tests.support.checkout import ROOT

Step = tuple[float, str | None]


def event(document: Any) -> str:
    """Return an event of a stream."""
    return f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n"


def text_event(text: str = "x", finish: str | None = None) -> str:
    """Return a chunk of a completion."""
    about = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "scripted"}
    return event({**about, "choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def usage_event(tokens: int, prompt: str = "{prompt}") -> str:
    """Return the numbers of a completion, as a separate event."""
    told = event({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": tokens}})
    return told.replace('"prompt_tokens": 0', f'"prompt_tokens": {prompt}')


def stream(times: Sequence[float]) -> list[Step]:
    """Return an answer of one token at each of these seconds, with its end at the time of the last one."""
    steps: list[Step] = [(at, text_event()) for at in times[:-1]]
    last = text_event() + text_event("", "length") + usage_event(len(times)) + event("[DONE]")
    return [*steps, (times[-1], last)]


@dataclasses.dataclass(slots=True)
class Scripted:
    """A running server. After its end, `writes` has the times of its writes: by request, pairs of planned and real
    ns."""

    url: str
    writes: dict[int, list[list[int]]]


@contextmanager
def scripted_server(directory: Path, answers: Sequence[Sequence[Step]], **script: Any) -> Iterator[Scripted]:
    """Run the server in a separate process until the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    told, record = directory / "script.json", directory / "writes.jsonl"
    told.write_text(json.dumps({"answers": answers, **script}), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/support/scripted_server.py"), str(told), str(record)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        port = int(process.stdout.readline())
        found = Scripted(url=f"http://127.0.0.1:{port}", writes={})
        yield found
        process.stdin.close()
        process.wait(timeout=20)
        for line in record.read_text(encoding="utf-8").splitlines():
            number, writes = json.loads(line)
            found.writes[number] = writes
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None and process.stdin is not None
        process.stdout.close()
        process.stdin.close()


def a_plan(url: str, **changes: Any) -> Plan:
    """Return a plan of four requests at once, each of eight prompt tokens."""
    plan = Plan(
        url=url,
        chat=False,
        model="scripted",
        arrivals="closed",
        requests=4,
        concurrency=4,
        rate=0.0,
        stagger=0.0,
        times=(),
        prompt_tokens=(8,),
        max_tokens=(4,),
        seed=1,
        prefix=0,
        prompts="auto",
        ignore_eos=True,
        chunk_counts=True,
        counters=True,
        timeout=60.0,
        ready=5.0,
        cacert="",
    )
    return dataclasses.replace(plan, **changes)


def run_client(directory: Path, plan: Plan, *, key: str = "") -> dict[str, Any]:
    """Run the client as in production, as a zipapp in a separate process, and return its record."""
    done = start_client(directory, plan, key=key)
    said, _ = done.communicate(timeout=600)
    assert done.returncode == 0, said.decode()
    return read_record(directory)


def start_client(directory: Path, plan: Plan, *, key: str = "") -> subprocess.Popen[bytes]:
    """Start the client."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "client.pyz").write_bytes(client_file())
    (directory / "plan.json").write_text(plan.text(), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "client.pyz", "plan.json", "record.json.gz"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "PATCHSTACK_SERVE_KEY": key},
    )


def read_record(directory: Path) -> dict[str, Any]:
    """Return the record that a client left."""
    found: dict[str, Any] = json.loads(gzip.decompress((directory / "record.json.gz").read_bytes()))
    return found
