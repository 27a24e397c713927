"""Measured times over their floors. Nothing real is faster than its floor: if it seems so, an assumption is wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.cost.floors import (
    STATE,
    Workload,
    decode_floor,
    kv_read_bytes,
    kv_token_bytes,
    prefill_floors,
)
from patchstack.cost.weights import Group, StepSize, weigh
from patchstack.errors import MissingError, UsageError
from patchstack.verdict import Verdict

_PART = re.compile(r"([a-z A-Z]+)=([0-9]+(?:\.[0-9]+)?) ?(us|ms|s)(?:@([0-9]{1,7}))?\Z")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A row of llama-batched-bench: `streams` sequences of `prompt` tokens, then `generated` steps. Times in seconds,
    of all prompts and of all steps. `shared`: the prompt is processed once for all. `ubatch` in tokens."""

    source: str
    prompt: int
    generated: int
    streams: int
    prefill_seconds: float
    decode_seconds: float
    shared: bool
    ubatch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A measured time over its floor, both in seconds. `floor` is None if it is not known, with the reason in
    `assumption`. Above 1 `verdict` is INVALID, `assumption` says which one must give and `bound` what follows."""

    source: str
    what: str
    streams: int
    measured: float
    floor: float | None
    verdict: Verdict
    assumption: str = ""
    bound: str = ""

    @property
    def share(self) -> float | None:
        """Floor over measured time: 1 is a machine that does nothing but read."""
        return None if self.floor is None else self.floor / self.measured


def read_batched_bench(path: Path) -> tuple[Measured, ...]:
    """Return the rows of a file of `llama-batched-bench --output-format jsonl`.

    Raises `MissingError` if there is no file, or no row in it, and `UsageError` for a row that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("{"):
            continue
        try:
            found = json.loads(line)
            row = Measured(
                source=f"{path.name}:{number}",
                prompt=int(found["pp"]),
                generated=int(found["tg"]),
                streams=int(found["pl"]),
                prefill_seconds=float(found["t_pp"]),
                decode_seconds=float(found["t_tg"]),
                shared=bool(found.get("is_pp_shared", 0)),
                ubatch=int(found.get("n_ubatch", 512)),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{path}:{number}: not a row of llama-batched-bench: {error}", hint="--output-format jsonl writes them"
            ) from error
        if (
            not 0 < row.streams <= 1 << 20
            or min(row.prompt, row.generated) < 0
            or max(row.prompt, row.generated) > 1 << 30
        ):
            raise UsageError(f"{path}:{number}: pp {row.prompt}, tg {row.generated}, pl {row.streams}: out of range")
        rows.append(row)
    if not rows:
        raise MissingError(f"{path} has no rows", hint="llama-batched-bench --output-format jsonl writes them")
    return tuple(rows)


def compare(
    work: Workload, rows: Sequence[Measured], bandwidth: float, peaks: dict[str, float]
) -> tuple[Compared, ...]:
    """Return decode and prefill of every row over their floors, per step and for the whole prompt."""
    found = []
    for row in rows:
        own = replace(work, options=replace(work.options, ubatch=row.ubatch))
        if row.generated and row.decode_seconds > 0:
            found.append(_decode(own, row, bandwidth))
        if row.prompt and row.prefill_seconds > 0:
            found.append(_prefill(own, row, bandwidth, peaks))
    return tuple(found)


def _decode(work: Workload, row: Measured, bandwidth: float) -> Compared:
    floor = decode_floor(work, row.streams, row.prompt, bandwidth)
    later = range(row.prompt, row.prompt + row.generated)
    grown = sum(kv_read_bytes(work.layout, work.options, one) for one in later) / row.generated
    read = floor.bytes - row.streams * kv_read_bytes(work.layout, work.options, row.prompt) + row.streams * grown
    measured = row.decode_seconds / row.generated
    what = f"decode, {row.prompt} to {row.prompt + row.generated} tokens"
    return over_floor(work, row.source, what, row.streams, measured, read, bandwidth, row.streams)


def _prefill(work: Workload, row: Measured, bandwidth: float, peaks: dict[str, float]) -> Compared:
    sequences = 1 if row.shared else row.streams
    total = row.prompt * sequences
    weights = 0.0
    for begin in range(0, total, work.options.ubatch):
        step = StepSize(tokens=min(work.options.ubatch, total - begin), outputs=0, routing=work.routing)
        weights += sum(one.step_bytes for one in weigh(work.placed, step))
        if begin > 1 << 20:  # the rest is as what was counted
            weights *= total / begin
            break
    read = weights + total * kv_token_bytes(work.layout, work.options) + 2 * sequences * work.layout.state_bytes
    one = prefill_floors(work, row.prompt, bandwidth, peaks)
    what = f"prefill, {row.prompt} tokens"
    compute = [part.compute for part in one]
    if any(part is None for part in compute):
        lacking = sorted({name for part in one for name in part.lacking})
        return Compared(
            source=row.source,
            what=what,
            streams=row.streams,
            measured=row.prefill_seconds,
            floor=None,
            verdict=Verdict.INVALID,
            assumption=f"the peak of {', '.join(lacking)} is not known",
        )
    operations = sequences * sum(part for part in compute if part is not None)
    if operations > read / bandwidth:
        invalid = operations > row.prefill_seconds
        return Compared(
            source=row.source,
            what=what,
            streams=row.streams,
            measured=row.prefill_seconds,
            floor=operations,
            verdict=Verdict.INVALID if invalid else Verdict.PASS,
            assumption="the peaks of the machine" if invalid else "",
            bound=f"at least {operations / row.prefill_seconds:.2f} times the peaks given" if invalid else "",
        )
    return over_floor(work, row.source, what, row.streams, row.prefill_seconds, read, bandwidth, work.options.ubatch)


def over_floor(
    work: Workload, source: str, what: str, streams: int, measured: float, read: float, bandwidth: float, tokens: float
) -> Compared:
    """Return a time over the floor of the bytes it must read. `tokens` of a step decide how many experts are read."""
    floor = read / bandwidth
    if floor <= measured:
        return Compared(source=source, what=what, streams=streams, measured=measured, floor=floor, verdict=Verdict.PASS)
    experts = sum(one.tensor.bytes for one in work.placed if one.routed and one.group is Group.EXPERTS)
    routed = sum(
        one.step_bytes
        for one in weigh(work.placed, StepSize(tokens=tokens, routing=work.routing))
        if one.group is Group.EXPERTS
    )
    left = measured * bandwidth - (read - routed)
    if experts and routed and left > 0:
        most = math.ceil(left / experts * work.routing.experts)
        assumption = f"{work.routing.source}: {work.routing.distinct(tokens):.1f} experts read"
        bound = f"at most {most} of {work.routing.experts} experts were read"
    else:
        assumption = f"the bandwidth of {bandwidth / 1e9:.5g} GB/s"
        bound = f"at least {read / measured / 1e9:.5g} GB/s, or the weights were not read from memory"
    return Compared(
        source=source,
        what=what,
        streams=streams,
        measured=measured,
        floor=floor,
        verdict=Verdict.INVALID,
        assumption=assumption,
        bound=bound,
    )


def compare_part(work: Workload, text: str, bandwidth: float) -> Compared:
    """Return the time of one group over its floor, from `GROUP=TIME@STREAMS`: `experts=43.5ms@128`, `head=12.17ms`.

    `state` is the recurrent state, read and written. Raises `UsageError` for what is no such text.
    """
    match = _PART.match(text.strip())
    names = [one.value for one in Group]
    if match is None or match[1].strip() not in (*names, "state"):
        raise UsageError(f"{text!r} is no part", hint=f"GROUP=TIME@STREAMS, with a group of {', '.join(names)}, state")
    streams, seconds, name = int(match[4] or 1), float(match[2]) * _SECONDS[match[3]], match[1].strip()
    if not seconds or not streams:
        raise UsageError(f"{text!r}: a time and streams above 0")
    parts = decode_floor(work, streams, 0, bandwidth).parts
    read = parts[STATE] if name == "state" else parts.get(name, 0.0)
    if not read:
        raise MissingError(f"{text!r}: a step reads nothing of {name}")
    only = replace(work, placed=[one for one in work.placed if one.group.value == name])
    return over_floor(only, "--part", name, streams, seconds, read, bandwidth, streams)
