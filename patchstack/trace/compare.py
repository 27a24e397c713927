"""Compare two logs.

Check that their workloads are the same, and find the routes, types and shapes that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.causes import SidesNotComparable
from patchstack.llama.traces.formats import ADMISSION, CUDA_GRAPH, SERVING, SPEC_SHAPE
from patchstack.llama.traces.reading import Reading, Trace
from patchstack.llama.traces.records import Value
from patchstack.llama.traces.recount import summed
from patchstack.trace.facts import figures_of
from patchstack.trace.figures import NONE, Row, Work, by_route, by_shape, has_routes
from patchstack.verdict import Verdict

_SERVED = (
    (SERVING.name, ("prompt_tokens", "decode_tokens", "started")),
    (ADMISSION.name, ("prompt_tokens", "decode_tokens", "started_prompt_slots")),
)
_SHAPE_OF_WEIGHT = ("ne00", "ne0", "n_expert", "nrows_x", "ncols_x")
_TIMES = ("prompt eval", "eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A property of the workload that both logs show.

    `what` is the name of the property. `first` and `second` are its values in the two logs.
    """

    what: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        """Whether the property has the same value in both logs."""
        return self.first == self.second


def evidence(first: Reading, second: Reading) -> tuple[Evidence, ...]:
    """Return the properties of the workload that both logs show.

    Properties that a different build or switch may change are omitted: routes, types, memory, times, and the rows that
    speculation adds.
    """
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
    """Yield whether the weights that both logs name have the same shapes.

    If both logs come from the same model, a weight has the same shape in both.
    """
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


class Change(StrEnum):
    """How the number of calls changes from the first log to the second.

    `UNSEEN` means that one log has no record of the calls. Its records are incomplete, so the calls may have occurred.
    """

    SAME = "same"
    MORE = "more"
    LESS = "less"
    NEW = "new"
    GONE = "gone"
    UNSEEN = "not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The calls of both logs that have the same route and, if `about` is not empty, the same shape.

    `first` and `second` are the numbers of calls in the two logs.
    """

    trace: str
    route: str
    about: str
    first: int
    second: int
    first_work: Work
    second_work: Work
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two logs.

    `routes` contains a pair for each route, and `shapes` contains a pair for each route and shape. `only_first` names
    the traces that only the first log has, and `only_second` names the traces that only the second log has. Both omit
    traces without routes or shapes. `bounded` names the traces whose records are incomplete in at least one log.
    `replayed` contains the numbers of replayed CUDA graphs in the first and the second log. It is None if one of the
    numbers is unknown.
    """

    evidence: tuple[Evidence, ...]
    routes: tuple[Pair, ...]
    shapes: tuple[Pair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    bounded: tuple[str, ...]
    replayed: tuple[int, int] | None = None

    @property
    def differing(self) -> tuple[Evidence, ...]:
        """The properties that differ between the two workloads."""
        return tuple(one for one in self.evidence if not one.same)

    @property
    def workload_verdict(self) -> Verdict:
        """The verdict on whether both logs show the same workload.

        PASS means that all common properties are equal. INVALID means that some differ, or that the logs have no common
        property.
        """
        return Verdict.PASS if self.evidence and not self.differing else Verdict.INVALID

    @property
    def same(self) -> bool:
        """Whether every route and shape occurs equally often in both logs."""
        return bool(self.shapes) and all(one.change is Change.SAME for one in self.shapes)

    @property
    def same_kinds(self) -> bool:
        """Whether the same routes and shapes occur in both logs. Their call counts may differ."""
        return bool(self.shapes) and all(one.first and one.second for one in self.shapes)


def compare(first: Reading, second: Reading) -> Comparison:
    """Compare two logs. Raises `UsageError` if the logs have no common trace of routes or shapes."""
    mine, theirs = ({one.name: one for one in log.traces if has_routes(one)} for log in (first, second))
    both = [name for name in mine if name in theirs]
    if not both:
        raise SidesNotComparable(
            "the logs have no common trace of routes or shapes",
            hint="record both logs with the same switch, such as LLAMA_MUL_MAT_ROUTE_TRACE=1000000",
        )
    routes: list[Pair] = []
    shapes: list[Pair] = []
    for name in both:
        routes += _pairs(mine[name], theirs[name], by_route(mine[name]), by_route(theirs[name]))
        shapes += _pairs(mine[name], theirs[name], by_shape(mine[name]), by_shape(theirs[name]))
    return Comparison(
        evidence=evidence(first, second),
        routes=tuple(routes),
        shapes=tuple(shapes),
        only_first=tuple(name for name in mine if name not in theirs),
        only_second=tuple(name for name in theirs if name not in mine),
        bounded=tuple(name for name in both if _partial(mine[name]) or _partial(theirs[name])),
        replayed=_replayed(first, second),
    )


def _replayed(first: Reading, second: Reading) -> tuple[int, int] | None:
    traces = [one.trace(CUDA_GRAPH.name) for one in (first, second)]
    counts = [summed(one.summaries).counters.get("replayed") for one in traces if one is not None]
    known = [count for count in counts if count is not None]
    return (known[0], known[1]) if len(known) == 2 else None


def require_same_workload(comparison: Comparison, names: Sequence[str]) -> None:
    """Raise `UsageError` if the logs show different workloads."""
    if comparison.differing:
        raise SidesNotComparable(
            f"{names[0]} and {names[1]} have different workloads",
            problems=[f"{one.what}: {one.first} and {one.second}" for one in comparison.differing],
            hint="compare two runs with the same model, sizes and requests, or use --anyway to print the counts",
        )


def _partial(trace: Trace) -> bool:
    return trace.bounded or bool(trace.overflowed)


def _pairs(first: Trace, second: Trace, mine: Sequence[Row], theirs: Sequence[Row]) -> list[Pair]:
    left, right = _named(mine), _named(theirs)
    pairs = []
    for name in dict.fromkeys((*left, *right)):
        one, other = left.get(name), right.get(name)
        calls = (one.calls if one else 0, other.calls if other else 0)
        pairs.append(
            Pair(
                trace=first.name,
                route=name[0],
                about=name[1],
                first=calls[0],
                second=calls[1],
                first_work=one.work if one else NONE,
                second_work=other.work if other else NONE,
                change=_change(calls, partial=(_partial(first), _partial(second))),
            )
        )
    return sorted(pairs, key=lambda pair: (-max(pair.first, pair.second), pair.route, pair.about))


def _named(rows: Sequence[Row]) -> Mapping[tuple[str, str], Row]:
    return {(row.route, row.about): row for row in rows}


def _change(calls: tuple[int, int], *, partial: tuple[bool, bool]) -> Change:
    first, second = calls
    if not first:
        return Change.UNSEEN if partial[0] else Change.NEW
    if not second:
        return Change.UNSEEN if partial[1] else Change.GONE
    if first == second:
        return Change.SAME
    return Change.MORE if second > first else Change.LESS
