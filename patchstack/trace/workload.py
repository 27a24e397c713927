"""Whether two logs are of the same workload: the same model and sizes, the same tokens in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patchstack.llama.traces.formats import ADMISSION, SERVING, SPEC_SHAPE
from patchstack.llama.traces.reading import Reading
from patchstack.llama.traces.records import Value
from patchstack.trace.facts import figures_of

_SERVED = (
    (SERVING.name, ("prompt_tokens", "decode_tokens", "started")),
    (ADMISSION.name, ("prompt_tokens", "decode_tokens", "started_prompt_slots")),
)
_SHAPE_OF_WEIGHT = ("ne00", "ne0", "n_expert", "nrows_x", "ncols_x")
_TIMES = ("prompt eval", "eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that both logs say of their workload. `what` names it."""

    what: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        """Whether both say the same."""
        return self.first == self.second


def evidence(first: Reading, second: Reading) -> tuple[Evidence, ...]:
    """Return what both logs say of their workload; nothing if they share no such figure. What a build or a switch may
    change is left out: routes, types, memory, times, and the rows that speculation adds."""
    return (*_settings(first, second), *_tokens(first, second), *_weights(first, second))


def _settings(first: Reading, second: Reading) -> Iterator[Evidence]:
    for name, values in first.log.settings.items():
        if name in second.log.settings:
            yield Evidence(what=name, first=_told(values), second=_told(second.log.settings[name]))


def _told(values: tuple[str, ...]) -> str:
    return ", ".join(sorted(values))


def _tokens(first: Reading, second: Reading) -> Iterator[Evidence]:
    speculative = any(one.log.requests or one.log.runs or one.trace(SPEC_SHAPE.name) for one in (first, second))
    for name, keys in _SERVED:
        sides = [one.trace(name) for one in (first, second)]
        if any(side is None or (side.bounded and not side.summaries) for side in sides):
            continue
        figures = [figures_of(side) for side in sides if side is not None]
        for key in keys:
            if key == "decode_tokens" and speculative:
                continue
            told = [one.counters.get(key) for one in figures if one is not None]
            if len(told) == 2 and None not in told:
                yield Evidence(what=f"{key} of the server", first=f"{told[0]:,}", second=f"{told[1]:,}")
    for what in _TIMES:
        for of_request in (True, False):
            times = [one.log.times.get((what, of_request)) for one in (first, second)]
            counts = [one.tokens for one in times if one is not None and one.tokens is not None]
            if len(counts) == 2:
                name = f"{what} tokens of all requests" if of_request else f"{what} tokens"
                yield Evidence(what=name, first=f"{counts[0]:,}", second=f"{counts[1]:,}")


def _weights(first: Reading, second: Reading) -> Iterator[Evidence]:
    """Weights of the same name have the same shape in the same model."""
    mine, theirs = _shapes(first), _shapes(second)
    both = sorted(mine.keys() & theirs.keys())
    if both:
        different = [name for name in both if mine[name] != theirs[name]]
        shown = different[:3] or both[:1]
        yield Evidence(
            what=f"shape of {', '.join(name for _, name in shown)}" if different else f"shapes of {len(both)} weights",
            first="; ".join(mine[name] for name in shown) if different else "equal",
            second="; ".join(theirs[name] for name in shown) if different else "equal",
        )


def _shapes(reading: Reading) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], set[tuple[Value, ...]]] = {}
    for trace in reading.traces:
        if trace.format.tokens is None or "src0" not in trace.keys:
            continue
        keys = [key for key in _SHAPE_OF_WEIGHT if key in trace.keys]
        for name, *shape in trace.by("src0", *keys):
            if str(name).endswith(".weight"):
                found.setdefault((trace.name, str(name)), set()).add(tuple(shape))
    return {name: ", ".join(sorted("x".join(map(str, one)) for one in shapes)) for name, shapes in found.items()}
