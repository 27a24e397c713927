"""Compare measured times with computed lower bounds, called floors.

A time below its floor proves that an assumption is wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.causes import BadValue, CostUnknown, InputUnreadable, ModelFileUnreadable
from patchstack.cost.floors import (
    STATE,
    Workload,
    decode_floor,
    kv_read_bytes,
    kv_token_bytes,
    mean_kv_read_bytes,
    prefill_floors,
    step_layers,
)
from patchstack.cost.server_options import ServerOptions
from patchstack.cost.weights import Group, StepSize, weigh
from patchstack.verdict import Verdict

_PART = re.compile(r"([a-z A-Z]+)=([0-9]+(?:\.[0-9]+)?) ?(us|ms|s)(?:@([0-9]{1,7}))?\Z")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured times of `streams` sequences.

    Each sequence has `before` cached tokens, a prompt of `prompt` tokens, and `generated` decode steps.
    `prefill_seconds` is the time of all prompts together, and `decode_seconds` is the time of all steps. Each of them
    is None if it was not measured. If `shared` is true, the prompt is processed once for all sequences. `options` are
    the options of the run. If `options` is None, the workload's options apply. `ubatch`, in tokens, overrides the value
    in the options. `what` is the name of the row. If it is empty, the row gets a default name.
    """

    source: str
    prompt: int
    generated: int
    streams: int
    prefill_seconds: float | None
    decode_seconds: float | None
    shared: bool = False
    ubatch: int | None = None
    before: int = 0
    options: ServerOptions | None = None
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A measured time and its floor, both in seconds.

    If the floor is unknown, `floor` is None, `verdict` is INVALID, and `assumption` states the reason. If `share` is
    above 1, `verdict` is INVALID, and `assumption` names the assumption that must be wrong. `bound` then states what
    the measured time implies, for example a minimum bandwidth.
    """

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
        """The floor divided by the measured time.

        It is 1 if the measured time is equal to its floor, and None if the floor is unknown.
        """
        return None if self.floor is None else self.floor / self.measured


def read_row(line: bytes, place: str, *, source: str) -> Measured:
    """Parse a row of `llama-batched-bench --output-format jsonl`.

    Raises `UsageError` if the line is not a valid row. The message begins with `place`.
    """
    try:
        found = json.loads(line)
        row = Measured(
            source=source,
            prompt=int(found["pp"]),
            generated=int(found["tg"]),
            streams=int(found["pl"]),
            prefill_seconds=float(found["t_pp"]),
            decode_seconds=float(found["t_tg"]),
            shared=bool(found.get("is_pp_shared", 0)),
            ubatch=int(found.get("n_ubatch", 512)),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputUnreadable(
            f"{place}: not a row of llama-batched-bench: {error}",
            hint="run llama-batched-bench with --output-format jsonl",
        ) from error
    if problem := _out_of_range(row):
        raise ModelFileUnreadable(f"{place}: {problem}")
    return row


def _out_of_range(row: Measured) -> str:
    ubatch = 512 if row.ubatch is None else row.ubatch
    sizes = {"pp": row.prompt, "tg": row.generated, "pl": row.streams, "n_ubatch": ubatch}
    low = {"pp": 0, "tg": 0, "pl": 1, "n_ubatch": 1}
    high = {"pp": 1 << 30, "tg": 1 << 30, "pl": 1 << 20, "n_ubatch": 1 << 30}
    if any(not low[name] <= value <= high[name] for name, value in sizes.items()):
        return ", ".join(f"{name} {value}" for name, value in sizes.items()) + ": out of range"
    for name, seconds in (("t_pp", row.prefill_seconds), ("t_tg", row.decode_seconds)):
        if seconds is not None and not 0 <= seconds < math.inf:
            return f"{name} {seconds} is not a valid time"
    return ""


def compare(
    work: Workload, rows: Sequence[Measured], bandwidth: float, peaks: dict[str, float]
) -> tuple[Compared, ...]:
    """Compare every row with its floors.

    A decode time is compared per step. A prefill time is compared for all prompts of the row together. Times that were
    not measured are skipped. `bandwidth` is in bytes per second, and `peaks` are in operations per second.
    """
    found = []
    for row in rows:
        options = row.options or work.options
        own = replace(work, options=replace(options, ubatch=row.ubatch or options.ubatch))
        if row.generated and row.decode_seconds:
            found.append(_decode(own, row, row.decode_seconds, bandwidth))
        if row.prompt and row.prefill_seconds:
            found.append(_prefill(own, row, row.prefill_seconds, bandwidth, peaks))
    return tuple(found)


def _decode(work: Workload, row: Measured, seconds: float, bandwidth: float) -> Compared:
    first = row.before + row.prompt
    floor = decode_floor(work, row.streams, first, bandwidth)
    now = kv_read_bytes(work.layout, work.options, first, step_layers(work.layout))
    read = floor.bytes + row.streams * (mean_kv_read_bytes(work, first, row.generated) - now)
    what = row.what or f"decode, {first} to {first + row.generated} tokens"
    return over_floor(work, row.source, what, row.streams, seconds / row.generated, read, bandwidth, row.streams)


def _prefill(work: Workload, row: Measured, seconds: float, bandwidth: float, peaks: dict[str, float]) -> Compared:
    sequences = 1 if row.shared else row.streams
    read = _prefill_bytes(work, row, sequences)
    one = prefill_floors(work, row.prompt, bandwidth, peaks, before=row.before)
    what = row.what or f"prefill, {row.prompt} tokens" + (f" after {row.before}" if row.before else "")
    compute = [part.compute for part in one]
    if any(part is None for part in compute):
        lacking = sorted({name for part in one for name in part.lacking})
        return Compared(
            source=row.source,
            what=what,
            streams=row.streams,
            measured=seconds,
            floor=None,
            verdict=Verdict.INVALID,
            assumption=f"the peak of {', '.join(lacking)} is unknown",
        )
    operations = sequences * sum(part for part in compute if part is not None)
    if operations > read / bandwidth:
        invalid = operations > seconds
        return Compared(
            source=row.source,
            what=what,
            streams=row.streams,
            measured=seconds,
            floor=operations,
            verdict=Verdict.INVALID if invalid else Verdict.PASS,
            assumption="the peaks of the machine" if invalid else "",
            bound=f"at least {operations / seconds:.2f} times the given peaks" if invalid else "",
        )
    return over_floor(work, row.source, what, row.streams, seconds, read, bandwidth, work.options.physical_batch)


def _prefill_bytes(work: Workload, row: Measured, sequences: int) -> float:
    """Return how many bytes are read and written to process the prompts of all sequences.

    The weights are read once for each ubatch, and sequences may share a ubatch. Each sequence reads its cached tokens
    once.
    """
    total = row.prompt * sequences
    whole, rest = divmod(total, work.options.physical_batch)
    read = 0.0
    for count, tokens in ((whole, work.options.physical_batch), (1, rest)):
        if tokens and count:
            step = StepSize(tokens=tokens, outputs=0, routing=work.routing)
            read += count * sum(one.step_bytes for one in weigh(work.placed, step))
    layers = step_layers(work.layout)
    read += total * kv_token_bytes(work.layout, work.options, layers)
    read += sequences * kv_read_bytes(work.layout, work.options, row.before, layers)
    return read + 2 * sequences * work.layout.state_bytes


def over_floor(
    work: Workload, source: str, what: str, streams: int, measured: float, read: float, bandwidth: float, tokens: float
) -> Compared:
    """Compare a measured time with the floor for reading `read` bytes.

    `bandwidth` is in bytes per second. `tokens` is the number of tokens in a step, which determines how many experts
    the step reads.
    """
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
    """Compare the time of one group of tensors with the group's floor.

    `text` has the form `GROUP=TIME@STREAMS`, for example `experts=43.5ms@128`. The default for STREAMS is 1. The group
    `state` is the recurrent state, which a step reads and writes. Raises `UsageError` for any other text, and
    `MissingError` if a step reads no bytes of the group.
    """
    match = _PART.match(text.strip())
    names = [one.value for one in Group]
    if match is None or match[1].strip() not in (*names, "state"):
        raise BadValue(
            f"{text!r} is not the time of a group",
            hint=f"write GROUP=TIME@STREAMS; the group is one of {', '.join(names)}, state",
        )
    streams, seconds, name = int(match[4] or 1), float(match[2]) * _SECONDS[match[3]], match[1].strip()
    if not seconds or not streams:
        raise BadValue(f"{text!r}: the time and the number of streams must be above 0")
    parts = decode_floor(work, streams, 0, bandwidth).parts
    read = parts[STATE] if name == "state" else parts.get(name, 0.0)
    if not read:
        raise CostUnknown(f"{text!r}: a step reads no bytes of the group {name}")
    only = replace(work, placed=[one for one in work.placed if one.group.value == name])
    return over_floor(only, "--part", name, streams, seconds, read, bandwidth, streams)
