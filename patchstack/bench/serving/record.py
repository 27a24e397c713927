"""Read the client's record of a run, which is one compressed JSON document.

Times are in ns since the start of the run.
"""

from __future__ import annotations

import zlib

import msgspec

from patchstack.causes import ServingRecordDamaged

_MOST = 2 << 30


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a request.

    `planned` is None if the request was sent when an earlier request ended. `began` is the time at which the client
    started to connect. `times` and `counts` contain the arrival time and the server's token count of each chunk with
    content. `prompt`, `cached`, `tokens`, `drafted` and `accepted` are token counts of the server. `failure` is empty
    if the request was answered. `odd` counts unexpected events in the stream, by kind.
    """

    number: int
    planned: int | None
    prompt_wanted: int
    tokens_wanted: int
    began: int | None
    connected: int | None
    sent: int | None
    ended: int | None
    times: tuple[int, ...]
    counts: tuple[int | None, ...]
    status: int
    failure: str
    tokens: int | None
    prompt: int | None
    cached: int | None
    drafted: int | None
    accepted: int | None
    finish: str
    odd: dict[str, int]


class WatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The client's measurements of itself. `busiest_second` is the largest ratio of CPU time to wall time, measured
    over about one second."""

    samples: int
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    cpu_seconds: float
    wall_seconds: float
    busiest_second: float
    waited_for_cpu_ms: float
    descriptors: int
    descriptors_allowed: int


class CounterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The server's counters before and after the run. `server` is the kind of server; empty if its counters are
    unknown."""

    server: str
    before: dict[str, float]
    after: dict[str, float]
    settled_seconds: float


class ServeRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="patchstack.serve-record/1"):
    """The record of a run. `wall` is in ns. `shared` is the length of the longest common prefix of two prompts, in
    tokens; None if unknown."""

    python: str
    url: str
    model: str
    began: str
    interrupted: bool
    wall: int
    prompts: str
    shared: int | None
    requests: tuple[RequestRecord, ...]
    watch: WatchRecord
    counters: CounterRecord
    cpu_in_all: float


def unpacked(content: bytes) -> bytes:
    """Return the uncompressed JSON of a record's file. Raises `NotHeldError` if the file is damaged or incomplete."""
    try:
        unpack = zlib.decompressobj(31)
        whole = unpack.decompress(content, _MOST)
    except zlib.error as error:
        raise ServingRecordDamaged(f"the record of the run is damaged: {error}") from error
    if not unpack.eof:
        raise ServingRecordDamaged("the record of the run is damaged: it is incomplete")
    return whole


def read_record(content: bytes) -> ServeRecord:
    """Parse the content of a record's file. Raises `NotHeldError` if the record is damaged."""
    try:
        return msgspec.json.decode(unpacked(content), type=ServeRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServingRecordDamaged(f"the record of the run is damaged: {error}") from error
