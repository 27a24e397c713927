"""How much a result depends on each input: its elasticity, the relative change of one by that of the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.cost.floors import DecodeFloor, Workload, decode_floor
from patchstack.cost.machine import parse_figure
from patchstack.errors import UsageError

_RANGE = re.compile(r"(bandwidth|streams|context)=([0-9.]+)\.\.([0-9.]+)( ?[A-Za-z/]+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """An input of a decode step, and by how many percent the step's time changes if it grows by one percent."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A step's floor at one value of an input. `value` in the input's unit: bytes a second, streams, tokens."""

    name: str
    value: float
    floor: DecodeFloor


def elasticities(work: Workload, streams: int, length: int, bandwidth: float) -> tuple[Elasticity, ...]:
    """Return the elasticity of a decode step's time in each input, largest first.

    For the bytes of a group it is the group's share of the step. Bandwidth has −1. For streams and context it is the
    slope between 5% less and 5% more, at least one.
    """
    floor = decode_floor(work, streams, length, bandwidth)
    found = [Elasticity(name="bandwidth", value=-1.0)]
    found += [
        Elasticity(name=f"bytes of {name}", value=part / floor.bytes) for name, part in floor.parts.items() if part
    ]
    for name, value in (("streams", streams), ("context", length)):
        if not value:
            continue
        step = max(1, round(value * 0.05))
        low, high = max(1 if name == "streams" else 0, value - step), value + step
        less, more = (
            decode_floor(work, one, length, bandwidth)
            if name == "streams"
            else decode_floor(work, streams, one, bandwidth)
            for one in (low, high)
        )
        slope = (more.seconds - less.seconds) / (high - low)
        found.append(Elasticity(name=name, value=slope * value / floor.seconds))
    return tuple(sorted(found, key=lambda one: -abs(one.value)))


def vary(
    work: Workload, streams: int, length: int, bandwidth: float, text: str, points: int = 5
) -> Sequence[Variation]:
    """Return floors over a range: `bandwidth=200..300` (GB/s), `streams=1..256`, `context=0..32768`.

    Raises `UsageError` for what is no such range.
    """
    match = _RANGE.match(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no range", hint="bandwidth=200..300 (GB/s), streams=1..256 or context=0..32768")
    name, unit = match[1], (match[4] or "").strip()
    try:
        first, last = float(match[2]), float(match[3])
    except ValueError as error:
        raise UsageError(f"{text!r} is no range: {error}") from error
    if not first < last or (first <= 0 and name != "context") or last > 1e9:
        raise UsageError(f"{text!r}: a range goes from a smaller to a larger number above 0")
    if name != "bandwidth" and unit:
        raise UsageError(f"{text!r}: {name} has no unit")
    scale = parse_figure(f"1 {unit or 'GB/s'}", "bandwidth").value if name == "bandwidth" else 1.0
    found = []
    for at in range(points):
        value = first + (last - first) * at / (points - 1)
        if name == "bandwidth":
            value *= scale
            floor = decode_floor(work, streams, length, value)
        elif name == "streams":
            value = round(value)
            floor = decode_floor(work, int(value), length, bandwidth)
        else:
            value = round(value)
            floor = decode_floor(work, streams, int(value), bandwidth)
        found.append(Variation(name=name, value=value, floor=floor))
    return tuple(found)
