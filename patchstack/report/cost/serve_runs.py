"""Find the times in a `patchstack.serve/1` document that have a lower bound.

They are computed from the rate of steady decoding, and from the fastest requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from patchstack.causes import CostUnknown, InputUnreadable
from patchstack.cost.compare import Measured
from patchstack.cost.server_options import ServerOptions

SCHEMA = "patchstack.serve/1"


class Steady(msgspec.Struct, frozen=True):
    """The rate while all streams decode, in tokens per second.

    `problem` is the reason why the rate must not be used. It is empty if the rate is valid.
    """

    tps: float | None
    problem: str


class Answer(msgspec.Struct, frozen=True):
    """An answered request. Times are in seconds."""

    sent: float
    first: float
    last: float
    prompt: int | None
    tokens: int | None
    chunks: int


class Load(msgspec.Struct, frozen=True):
    """The number of streams that decoded at the same time."""

    decoding: int


class Server(msgspec.Struct, frozen=True):
    """The server that was started for the run."""

    args: tuple[str, ...]


class ServeTimes(msgspec.Struct, frozen=True):
    """The fields of a document that are needed here. Other fields are ignored."""

    valid: bool
    problems: tuple[str, ...]
    concurrency: int
    cached: int | None
    steady: Steady | None
    answers: tuple[Answer, ...]
    load: tuple[Load, ...]
    server: Server | None


def read_times(line: bytes, place: str) -> ServeTimes:
    """Return the times of a document.

    Raises `UsageError` if it is not a serve document. Raises `MissingError` if the run is INVALID or no request was
    answered.
    """
    try:
        found = msgspec.json.decode(line, type=ServeTimes)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputUnreadable(f"{place}: not a {SCHEMA} document: {error}") from error
    if not found.valid:
        raise CostUnknown(
            f"{place}: the run is INVALID: {'; '.join(found.problems)[:200]}", hint="run 'patchstack bench serve' again"
        )
    if not found.answers:
        raise CostUnknown(f"{place}: no request was answered", hint="run 'patchstack bench serve' again")
    return found


def measured_times(found: ServeTimes, source: str, options: ServerOptions) -> Iterator[Measured]:
    """Yield the times that have a lower bound.

    The lower bound of each time is computed for the least possible work: the shortest prompt, all drafted tokens
    accepted and, for the fastest request, no other stream.
    """
    prompts = [one.prompt for one in found.answers if one.prompt]
    streams = max((one.decoding for one in found.load), default=0) or found.concurrency
    steady = found.steady
    if steady is not None and not steady.problem and steady.tps and streams > 0 and prompts:
        yield Measured(
            source=source,
            prompt=min(prompts),
            generated=1,
            streams=streams,
            prefill_seconds=None,
            decode_seconds=streams * (1 + options.draft_tokens) / steady.tps,
            options=options,
            what=f"steady decode, {min(prompts)} tokens or more",
        )
    fastest = min((one for one in found.answers if _one_by_one(one)), key=_each, default=None)
    if fastest is not None and not options.draft_tokens:
        yield Measured(
            source=source,
            prompt=fastest.prompt or 0,
            generated=(fastest.tokens or 0) - 1,
            streams=1,
            prefill_seconds=None,
            decode_seconds=fastest.last - fastest.first,
            options=options,
            what="decode of the fastest request",
        )
    first = min((one for one in found.answers if one.prompt), key=lambda one: one.first - one.sent, default=None)
    if first is not None and found.cached == 0:
        yield Measured(
            source=source,
            prompt=first.prompt or 0,
            generated=0,
            streams=1,
            prefill_seconds=first.first - first.sent,
            decode_seconds=None,
            options=options,
            what=f"first token of the fastest request, prompt of {first.prompt}",
        )


def _one_by_one(one: Answer) -> bool:
    """Return whether the decode time of a request can be computed.

    There must be at least two chunks, each with one token, and the length of the prompt must be known. If a chunk has
    several tokens, it is unknown how many were generated between the first and the last chunk.
    """
    return one.tokens is not None and one.tokens == one.chunks > 1 and bool(one.prompt) and one.last > one.first


def _each(one: Answer) -> float:
    return (one.last - one.first) / max(1, one.chunks - 1)
