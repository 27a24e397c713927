"""Run a llama-server with the client, and read the results of both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from patchstack.engine.protocol import Ending
from patchstack.llama.client.plan import KEY_VARIABLE, Plan
from patchstack.llama.client.zipapp import client_file
from patchstack.llama.traces.formats import ADMISSION, SERVING
from patchstack.observe.protocol import Beside, Observation
from patchstack.observe.sentinel import lines_of

RECORD = "record.json.gz"
URL = "http://{address}"
"""The URL of the server. The address is filled in when the server listens."""
_CLIENT, _PLAN = "client.pyz", "plan.json"
_REUSED = re.compile(r"graphs reused = +(\d+)")
_NUMBER = re.compile(r"(\w+)=(\d+)(?= |$)")


def client_beside(plan: Plan, *, key: str = "", image: str | None = None, stoppable: bool = False) -> Beside:
    """Return the client as the companion program of a server.

    `key` is an API key. The client gets it in an environment variable, which is not stored. With `stoppable`, the
    client writes a record even after Ctrl-C.
    """
    return Beside(
        what="measure",
        args=("-I", "-S", f"{{here}}/{_CLIENT}", f"{{here}}/{_PLAN}", f"{{here}}/{RECORD}"),
        files={_CLIENT: client_file(), _PLAN: plan.text().encode()},
        brings=(RECORD,),
        env={KEY_VARIABLE: key} if key else {},
        image=image,
        stoppable=stoppable,
    )


def server_arguments(model: str, streams: int, more: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of a llama-server for `streams` parallel streams.

    `more` are the user's arguments. They come last, so that they override the other arguments.
    """
    own = ["-m", f"{{model:{model}}}", "--metrics", "--no-webui"]
    if not any(text.partition("=")[0] in ("-np", "--parallel") for text in more):
        own += ["-np", str(min(streams, 256))]
    return (*own, *more)


def record_of(seen: Observation) -> bytes | str:
    """Return the client's record of a run, or the reason why it is missing."""
    content = seen.files.get(RECORD)
    if content:
        return content
    said = seen.files.get("said", b"").decode("utf-8", "replace").splitlines()
    failed = next((line.removeprefix("failed ") for line in reversed(said) if line.startswith("failed ")), "")
    last = _last_words(seen.stderr)
    if failed:
        return f"{failed}{last}"
    if seen.ending is Ending.TIMED_OUT:
        what = (
            "the run did not finish in time and was ended" if "running" in said else "the server was not ready in time"
        )
        return f"{what}{last}"
    if not said:
        return f"the server ended before it listened, with exit code {seen.code}{last}"
    return f"the client left no record: {' '.join(said)[-200:]}{last}"


def trace_of(stderr: bytes) -> Mapping[str, float] | None:
    """Return the totals that a server printed at exit about its steps. Return None if it printed none."""
    for line in reversed(list(lines_of(stderr))):
        for marks in (SERVING, ADMISSION):
            at = line.find(marks.summary) if marks.summary is not None else -1
            if at >= 0:
                found = {name: float(value) for name, value in _NUMBER.findall(line[at:])}
                return found or None
    return None


def reused_graphs(stderr: bytes) -> int | None:
    """Return the number of graphs that a server reused, as last reported. Return None if it reported none."""
    found = [int(match[1]) for line in lines_of(stderr) if (match := _REUSED.search(line))]
    return found[-1] if found else None


def _last_words(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|fail|abort|couldn't|cannot", line, re.IGNORECASE)] or lines
    return f"; the last output of the server: {telling[-1][:200]}" if telling else ""
