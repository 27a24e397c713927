"""Read the steps of an agent from a log.

The log contains JSON lines with requests and answers, or is the log of llama-server. A JSON line is a request body
(`messages` or `prompt`), an answer (`timings`), or an object with `request` and `response`. Such an object can also
have `started` and `ended`, in seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.canonical import canonical
from patchstack.causes import InputUnreadable, TraceUnreadable

_TASK = re.compile(r"id +(-?[0-9]+) \| task +(-?[0-9]+) \| (.*)")
_NEW = re.compile(r"new prompt, .*task\.n_tokens = ([0-9]+)")
_CACHED = re.compile(r"cached n_tokens = ([0-9]+)|n_tokens = ([0-9]+), memory_seq_rm \[([0-9]+), end\)")
_PROMPT = re.compile(r"prompt eval time = +([0-9.]+) ms / +([0-9]+) tokens")
_DECODE = re.compile(r"(?<!prompt )\beval time = +([0-9.]+) ms / +([0-9]+) (?:tokens|runs)")
_HELD = re.compile(r"stop processing: n_tokens = ([0-9]+), truncated = ([01])")
_CLOCK = re.compile(r"^([0-9]+)\.([0-9]{2})\.([0-9]{3})\.([0-9]{3}) ")
_RESTART = re.compile(r"main: server is listening|initializing slots, n_slots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a chat.

    `text` contains the text and the tool calls. `images` contains a hash of each image or sound.
    """

    role: str
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A step of an agent. Most values are None if the log does not contain them.

    `messages` is None for a plain completion, which has `prompt` instead. `body` is the request. `total` is the number
    of prompt tokens, `cached` is the number of reused tokens, and `generated` is the number of generated tokens.
    `prefill` and `decode` are the server's times in seconds. `started` and `ended` are in seconds on the clock of the
    log. If the log does not contain them, `generated` is 0 and `slot` is -1.
    """

    place: str
    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    body: dict[str, Any] | None = None
    total: int | None = None
    cached: int | None = None
    generated: int = 0
    answer: str | None = None
    answer_tokens: tuple[int, ...] | None = None
    prefill: float | None = None
    decode: float | None = None
    started: float | None = None
    ended: float | None = None
    slot: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The steps of a log.

    `gaps` describes the missing parts: unreadable lines, restarts, and requests without an end.
    """

    records: tuple[Record, ...]
    gaps: tuple[str, ...]


def read_log(path: Path) -> Log:
    """Read a log of JSON lines or of llama-server, line by line.

    Raises `MissingError` if the file does not exist or has no steps, and `UsageError` if it cannot be read.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            found = _json_lines(path, file) if first.lstrip().startswith("{") else _server_log(path, file)
    except FileNotFoundError as error:
        raise TraceUnreadable(f"{path} does not exist") from error
    except OSError as error:
        raise InputUnreadable(f"{path} cannot be read: {error.strerror}") from error
    if not found.records:
        raise TraceUnreadable(
            f"{path} has no steps" + (f": {found.gaps[0]}" if found.gaps else ""),
            hint="give JSON lines with request bodies or timings, or a log of llama-server",
        )
    return found


def _json_lines(path: Path, lines: Iterator[str]) -> Log:
    records, bad, first = [], 0, ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(_record(f"{path.name}:{number}", json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            bad += 1
            first = first or f"{path.name}:{number}: {error}"
    gaps = (f"unreadable lines: {bad}, the first is {first}",) if bad else ()
    return Log(records=tuple(records), gaps=gaps)


def _record(place: str, line: Any) -> Record:
    if not isinstance(line, dict):
        raise TypeError("not a JSON object")
    body = line.get("request", line if "messages" in line or "prompt" in line else None)
    answer = line.get("response", line if "timings" in line else None)
    if body is None and answer is None:
        raise ValueError("neither a request nor an answer")
    messages = None
    if body is not None and body.get("messages") is not None:
        messages = read_messages(body)
    prompt = body.get("prompt") if body is not None else None
    if prompt is not None and not isinstance(prompt, str):
        raise TypeError("the prompt is not text")
    return Record(
        place=place,
        messages=messages,
        prompt=prompt,
        body=body,
        slot=_whole(body, "id_slot", -1) if body is not None else -1,
        started=_seconds(line, "started"),
        ended=_seconds(line, "ended"),
        **_answered(answer),
    )


def _answered(answer: Any) -> dict[str, Any]:
    if answer is None:
        return {}
    timings = answer.get("timings") or {}
    found: dict[str, Any] = {}
    if "cache_n" in timings and "prompt_n" in timings:
        cached, processed = _whole(timings, "cache_n", 0), _whole(timings, "prompt_n", 0)
        found |= {"cached": cached, "total": cached + processed}
    found["generated"] = _whole(timings, "predicted_n", 0)
    for name, key in (("prefill", "prompt_ms"), ("decode", "predicted_ms")):
        if (value := _seconds(timings, key)) is not None:
            found[name] = value / 1e3
    choices = answer.get("choices")
    text = choices[0]["message"].get("content") if choices and "message" in choices[0] else answer.get("content")
    if isinstance(text, str):
        found["answer"] = text
    tokens = (answer.get("__verbose") or answer).get("tokens")
    if isinstance(tokens, list) and tokens:
        found["answer_tokens"] = tuple(int(one) for one in tokens)
    return found


def read_messages(body: Any) -> tuple[Message, ...]:
    """Return the messages of a request body.

    Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` if `body` has no valid messages.
    """
    return tuple(_message(one) for one in body["messages"])


def _message(one: Any) -> Message:
    content = one.get("content")
    extra = json.dumps(one["tool_calls"]) if one.get("tool_calls") else ""
    if isinstance(content, str) or content is None:
        return Message(role=str(one["role"]), text=(content or "") + extra)
    texts = [str(part.get("text", "")) for part in content if part.get("type") == "text"]
    images = tuple(_digest(part) for part in content if is_image(part))
    return Message(role=str(one["role"]), text="\n".join(texts) + extra, images=images)


def is_image(part: Any) -> bool:
    """Return whether a part of a message's content is an image or a sound."""
    return part.get("type") in ("image_url", "image", "input_audio")


def _digest(part: Any) -> str:
    return hashlib.sha256(canonical(part)).hexdigest()[:16]


def _whole(of: Any, key: str, default: int) -> int:
    value = of.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < -1:
        raise ValueError(f"{key} is {value!r}, which is not a valid number")
    return int(value)


def _seconds(of: Any, key: str) -> float | None:
    value = of.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{key} is {value!r}, which is not a valid number")
    return float(value)


def _server_log(path: Path, lines: Iterator[str]) -> Log:
    """Read the requests from the log of a server.

    A restart resets the task numbers. The lines of different slots may be interleaved.
    """
    started: dict[tuple[int, int], dict[str, Any]] = {}
    done: list[dict[str, Any]] = []
    restarts, run, open_before = -1, 0, 0
    for number, line in enumerate(lines, 1):
        if "slot" not in line and "main:" not in line and "slots" not in line:
            continue
        if _RESTART.search(line):
            if "initializing slots" in line:
                restarts += 1
                run += 1
                open_before += len(started)
                started.clear()
            continue
        match = _TASK.search(line)
        if match is None:
            continue
        key, text = (run, int(match[2])), match[3]
        if new := _NEW.search(text):
            started[key] = {"place": f"{path.name}:{number}", "total": int(new[1]), "slot": int(match[1])}
            started[key]["started"] = _clock(line)
        if key not in started and _PROMPT.search(text):  # without -lv 4, a log has no lines for new prompts
            started[key] = {"place": f"{path.name}:{number}", "slot": int(match[1])}
        entry = started.get(key)
        if entry is None:
            continue
        if (cached := _CACHED.search(text)) and "cached" not in entry:
            entry["cached"] = int(cached[1] or cached[3])
        if prompt := _PROMPT.search(text):
            entry |= {"prefill": float(prompt[1]) / 1e3, "processed": int(prompt[2])}
        elif decode := _DECODE.search(text):
            entry |= {"decode": float(decode[1]) / 1e3, "generated": int(decode[2])}
        if "stop processing" in text:
            entry["ended"] = _clock(line)
            _measure(entry, text)
            done.append(started.pop(key))
    gaps = [f"server restarts: {restarts}"] if restarts > 0 else []
    if left := open_before + len(started):
        gaps.append(f"requests without an end: {left}")
    records = tuple(_from_server(one) for one in done if "total" in one and ("cached" in one or "processed" in one))
    if len(records) < len(done):
        gaps.append(
            f"requests without the number of reused tokens: {len(done) - len(records)} (start the server with -lv 4)"
        )
    return Log(records=records, gaps=tuple(gaps))


def _measure(entry: dict[str, Any], text: str) -> None:
    """Compute the number of prompt tokens if the log does not contain it.

    It is the number of tokens in the slot at the end, minus the generated tokens, plus 1, because the last generated
    token is not in the slot.
    """
    held = _HELD.search(text)
    if "total" not in entry and held and held[2] == "0" and "generated" in entry:
        entry["total"] = int(held[1]) - entry["generated"] + 1


def _from_server(entry: dict[str, Any]) -> Record:
    processed = entry.pop("processed", None)
    if processed is not None:
        entry["cached"] = max(0, entry["total"] - processed)
    return Record(**entry)


def _clock(line: str) -> float | None:
    match = _CLOCK.match(line)
    if match is None:
        return None
    minutes, seconds, thousandths, millionths = map(int, match.groups())
    return 60 * minutes + seconds + thousandths / 1e3 + millionths / 1e6


def known_totals(records: Sequence[Record]) -> bool:
    """Return whether the counts of prompt tokens and of reused tokens are known for every step."""
    return all(one.total is not None and one.cached is not None for one in records)
