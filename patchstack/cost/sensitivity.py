"""Compute the elasticity of a result with respect to each input.

The elasticity is the relative change of the result, divided by the relative change of the input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from patchstack.causes import BadValue, CostRefused
from patchstack.cost.architecture import Layout
from patchstack.cost.experts import Routing
from patchstack.cost.floors import PrefillFloor, Workload, decode_floor, prefill_floors
from patchstack.cost.machine import parse_figure
from patchstack.cost.memory import Loaded, allocate
from patchstack.cost.ssm import LayerMemory, split
from patchstack.cost.weights import Placed, StepSize, weigh

_RANGE = re.compile(r"([a-z0-9 ]+)=([0-9.]+)\.\.([0-9.]+)( ?[A-Za-z/]+)?\Z")
_NEAR = 0.05


class Unit(StrEnum):
    """The unit of a result."""

    SECONDS = "seconds"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A number on which a result depends.

    `figure` is `bandwidth` or `peak` for an input with a unit, and is otherwise empty. `unit` is the default unit of a
    range. If `whole` is true, the number changes by at least `step`, and stays between `lowest` and `highest`. If
    `leaps` is true, the result is a step function of this input. Its elasticity is then computed between half and
    double the value.
    """

    value: float
    figure: str = ""
    unit: str = ""
    whole: bool = False
    leaps: bool = False
    step: int = 1
    lowest: int = 1
    highest: int = 1 << 40


Values = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result as a function of its inputs.

    `amount` computes the result from the values of the inputs. `shares` maps a quantity, such as the bytes of a group,
    to the share of the result (0 to 1) that is proportional to this quantity. If the result is a time for tokens,
    `tokens` computes the number of tokens.
    """

    name: str
    unit: Unit
    inputs: Mapping[str, Input]
    amount: Callable[[Values], float]
    shares: Mapping[str, float] = field(default_factory=dict)
    tokens: Callable[[Values], float] | None = None

    @property
    def now(self) -> dict[str, float]:
        """The current values of the inputs."""
        return {name: one.value for name, one in self.inputs.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """The elasticity of a result with respect to one input.

    It is the change of the result, in percent, if the input grows by 1%.
    """

    result: str
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A result at one value of an input.

    `value` is in the base unit of the input, for example bytes per second, streams or tokens. `amount` is in `unit`.
    `speed` is in tokens per second. It is None if the result is not a time for tokens.
    """

    result: str
    name: str
    value: float
    unit: Unit
    amount: float
    speed: float | None


def decode_result(work: Workload, streams: int, length: int, bandwidth: float) -> Result:
    """Return the `Result` for the time of a decode step.

    The step has `streams` streams with `length` tokens each.
    """
    floor = decode_floor(work, streams, length, bandwidth)
    inputs = {
        "bandwidth": _bandwidth(bandwidth),
        "streams": Input(value=streams, whole=True, highest=1 << 20),
        "context": Input(value=length, whole=True, lowest=0, highest=1 << 30),
    }
    if work.options.draft_tokens:
        inputs["draft tokens"] = Input(value=work.options.draft_tokens, whole=True, highest=1 << 10)

    def at(values: Values) -> tuple[float, float]:
        drafted = int(values.get("draft tokens", 0))
        own = replace(work, options=replace(work.options, draft_tokens=drafted))
        found = decode_floor(own, int(values["streams"]), int(values["context"]), values["bandwidth"])
        return found.seconds, found.tokens

    return Result(
        name=f"decode step, {streams} × {length:,} tokens",
        unit=Unit.SECONDS,
        inputs=inputs,
        amount=lambda values: at(values)[0],
        tokens=lambda values: at(values)[1],
        shares=_shares(floor.parts),
    )


def prefill_result(
    work: Workload, prompt: int, before: int, bandwidth: float, peaks: Mapping[str, float]
) -> Result | None:
    """Return the `Result` for the time to process `prompt` tokens after `before` cached tokens.

    Return None if a needed peak is unknown.
    """
    floors = prefill_floors(work, prompt, bandwidth, peaks, before=before)
    if any(one.seconds is None for one in floors):
        return None
    used = {name for one in floors for name in one.operations}
    inputs = {
        "bandwidth": _bandwidth(bandwidth),
        "prompt": Input(value=prompt, whole=True, leaps=True, highest=1 << 24),
        "cached before": Input(value=before, whole=True, lowest=0, highest=1 << 24),
        "ubatch": Input(value=work.options.physical_batch, whole=True, leaps=True),
    }
    inputs |= {
        f"peak {name}": Input(value=peaks[name], figure="peak", unit="TOP/s" if name == "int8" else "TFLOP/s")
        for name in sorted(used)
    }

    def amount(values: Values) -> float:
        own = replace(work, options=replace(work.options, ubatch=int(values["ubatch"])))
        given = {name: values[f"peak {name}"] for name in used}
        found = prefill_floors(
            own, int(values["prompt"]), values["bandwidth"], given, before=int(values["cached before"])
        )
        return sum(one.seconds for one in found if one.seconds is not None)

    return Result(
        name=f"prompt of {prompt:,} tokens",
        unit=Unit.SECONDS,
        inputs=inputs,
        amount=amount,
        tokens=lambda values: values["prompt"],
        shares=_prefill_shares(floors, bandwidth),
    )


def _prefill_shares(floors: Sequence[PrefillFloor], bandwidth: float) -> dict[str, float]:
    """Return each group's share of a prompt's time (0 to 1).

    A group's time is the time for moving its bytes, in ubatches that are limited by memory bandwidth. Other ubatches
    count only in the total time.
    """
    total = sum(one.seconds or 0.0 for one in floors)
    found: dict[str, float] = {}
    for one in floors:
        if one.compute is not None and one.memory >= one.compute:
            for name, count in one.parts.items():
                found[name] = found.get(name, 0.0) + count / bandwidth / total
    return {f"bytes of {name}": share for name, share in found.items() if share}


def weights_result(placed: Sequence[Placed], routing: Routing, tokens: int, *, drafting: bool) -> Result:
    """Return the `Result` for the number of weight bytes that a step of `tokens` tokens reads."""

    def weighed(count: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for row in weigh(placed, StepSize(tokens=count, routing=routing, drafting=drafting)):
            found[row.group.value] = found.get(row.group.value, 0.0) + row.step_bytes
        return found

    return Result(
        name="weights read in a step",
        unit=Unit.BYTES,
        inputs={"tokens": Input(value=tokens, whole=True)},
        amount=lambda values: sum(weighed(int(values["tokens"])).values()),
        shares=_shares(weighed(tokens)),
    )


def memory_result(models: Sequence[Loaded]) -> Result:
    """Return the `Result` for the memory on a device, in bytes.

    The memory consists of the weights, caches and states of a model and of its draft model. The first of `models` is
    the main model.
    """
    first = models[0]
    inputs = {
        "context": Input(
            value=first.options.context or first.layout.trained, whole=True, step=256, lowest=256, highest=1 << 30
        ),
        "slots": Input(value=first.options.slots, whole=True, highest=256),
    }
    if first.layout.window and not first.options.swa_full:
        inputs["ubatch"] = Input(value=first.options.physical_batch, whole=True)
    parts: dict[str, float] = {}
    for one in models:
        memory = allocate(one.layout, one.options, one.weights)
        state = memory.states.bytes if memory.states is not None else 0
        for name, count in (("weights", memory.weights), ("KV", memory.context - state), ("state", state)):
            parts[name] = parts.get(name, 0.0) + count

    def amount(values: Values) -> float:
        given = {name: int(value) for name, value in values.items()}
        own = [replace(one, options=replace(one.options, **given)) for one in models]  # type: ignore[arg-type]  # whole numbers all
        return sum(allocate(one.layout, one.options, one.weights).device for one in own)

    return Result(name="memory of the device", unit=Unit.BYTES, inputs=inputs, amount=amount, shares=_shares(parts))


def state_result(
    memories: Sequence[LayerMemory], layout: Layout, threshold: float, streams: int, bandwidth: float | None
) -> Result:
    """Return the `Result` for the time that a step needs to read and write the recurrent state.

    Without a bandwidth, return the `Result` for the size of one sequence's state in bytes.
    """
    inputs = {"threshold": Input(value=threshold)}
    if bandwidth is not None:
        inputs |= {"bandwidth": _bandwidth(bandwidth), "streams": Input(value=streams, whole=True)}

    def amount(values: Values) -> float:
        many = int(values.get("streams", streams))
        found = split(memories, layout, values["threshold"], bandwidth=values.get("bandwidth"), streams=many)
        return found.state_bytes if found.step_seconds is None else found.step_seconds

    return Result(
        name="recurrent state in a step" if bandwidth is not None else "recurrent state of a sequence",
        unit=Unit.BYTES if bandwidth is None else Unit.SECONDS,
        inputs=inputs,
        amount=amount,
    )


def elasticities(result: Result) -> tuple[Elasticity, ...]:
    """Return the elasticity of a result with respect to each input, in descending order of absolute value.

    For the bytes of a group, the elasticity is the group's share of the result. For other inputs, it is the slope
    between 95% and 105% of the input, on logarithmic scales. For an input that `leaps`, the slope is between half and
    double the input. A whole number changes by at least its `step`. An input that is 0 or infinite has no elasticity.
    """
    found = [Elasticity(result=result.name, name=name, value=share) for name, share in result.shares.items()]
    for name, one in result.inputs.items():
        if 0 < one.value < math.inf:
            found.append(Elasticity(result=result.name, name=name, value=_slope(result, name, one)))
    return tuple(sorted(found, key=lambda one: -abs(one.value)))


def _slope(result: Result, name: str, one: Input) -> float:
    low: float
    high: float
    if one.leaps:
        low, high = max(one.lowest, one.value // 2), one.value * 2
    elif one.whole:
        step = one.step * max(1, round(one.value * _NEAR / one.step))
        low, high = max(one.lowest, one.value - step), min(one.highest, one.value + step)
    else:
        low, high = one.value * (1 - _NEAR), one.value * (1 + _NEAR)
    less, more = (result.amount({**result.now, name: at}) for at in (low, high))
    if low > 0 and less > 0 and more > 0:
        return math.log(more / less) / math.log(high / low)
    now = result.amount(result.now)
    return (more - less) / (high - low) * one.value / now if now else 0.0


def vary(results: Sequence[Result], text: str, points: int = 5) -> tuple[Variation, ...]:
    """Compute results at `points` values of one input.

    `text` names the input and its range, for example `bandwidth=200..300` or `streams=1..256`. A bandwidth without a
    unit is in GB/s. Raises `UsageError` if the range is invalid or no result depends on the input.
    """
    names = list(dict.fromkeys(name for one in results for name in one.inputs))
    hint = f"write INPUT=LOW..HIGH, for example {_example(results)}; the inputs are {', '.join(names)}"
    match = _RANGE.match(text.strip())
    if match is None or match[1].strip() not in names:
        raise BadValue(f"{text!r} is not the range of an input", hint=hint)
    name = match[1].strip()
    chosen = [one for one in results if name in one.inputs]
    values = _points(text, match, chosen[0].inputs[name], points)
    return tuple(
        Variation(
            result=one.name,
            name=name,
            value=value,
            unit=one.unit,
            amount=(amount := one.amount({**one.now, name: value})),
            speed=one.tokens({**one.now, name: value}) / amount if one.tokens is not None and amount else None,
        )
        for one in chosen
        for value in values
    )


def _points(text: str, match: re.Match[str], one: Input, points: int) -> list[float]:
    try:
        first, last = float(match[2]), float(match[3])
    except ValueError as error:
        raise BadValue(f"{text!r} is not a range: {error}") from error
    unit = (match[4] or "").strip()
    lowest = one.lowest if one.whole else 0.0
    if not first < last or first < lowest or (first == 0 and one.figure):
        raise BadValue(f"{text!r}: a range must go from a smaller to a larger number, both at least {lowest:g}")
    if last > one.highest:
        raise CostRefused(f"{text!r}: the largest allowed value is {one.highest:,}")
    if unit and not one.figure:
        raise BadValue(f"{text!r}: this input has no unit")
    scale = parse_figure(f"1 {unit or one.unit}", one.figure).value if one.figure else 1.0
    found = [scale * (first + (last - first) * at / (points - 1)) for at in range(points)]
    return list(dict.fromkeys(float(round(value)) for value in found)) if one.whole else found


def _example(results: Sequence[Result]) -> str:
    for one in results:
        for name, of in one.inputs.items():
            if of.figure == "bandwidth":
                return "bandwidth=200..300 (GB/s)"
            if of.whole:
                return f"{name}={max(of.lowest, 1)}..{int(of.value) * 2 or 1024}"
    return "threshold=1..1000"


def _bandwidth(value: float) -> Input:
    return Input(value=value, figure="bandwidth", unit="GB/s")


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {f"bytes of {name}": part / total for name, part in parts.items() if part}
