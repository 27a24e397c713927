"""Split the records of a trace into computed graphs, and replace the layer numbers in tensor names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# Numbers in `blk.7.`, `cache_k_l7`, `node_123`, `leaf_12`, `Qcur-7`, `Qcur-7_(view)`, and after `#` (copies).
_NUMBERED = re.compile(
    r"(?<=blk\.)\d+(?=\.)|(?<=_l)\d+(?=$|[_ (#])|(?<=node_)\d+|(?<=leaf_)\d+|(?<=[A-Za-z_])-\d+(?=$|[_ )#])|#\d+"
)
_LAYER = re.compile(r"blk\.(\d+)\.|_l(\d+)(?:$|[_ (#])|[A-Za-z_]-(\d+)(?:$|[_ )#])")


def folded(name: str) -> str:
    """Return the name with `N` in place of the number of a layer or node."""
    return _NUMBERED.sub(_fold, name)


def _fold(found: re.Match[str]) -> str:
    text = found[0]
    return text[0] + "N" if text[0] in "-#" else "N"


def layer_of(*names: str) -> int | None:
    """Return the layer of the first name that has one. Return None if no name has one."""
    for name in names:
        if found := _LAYER.search(name):
            return int(next(number for number in found.groups() if number is not None))
    return None


MAX_GRAPH = 20_000
MAX_SHAPES = 256
_LEAST_RUNS = 3
_LEAST_LENGTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The graphs of a trace.

    `whole` is the number of complete graphs. `calls` is the number of records in each complete graph, or None if this
    number differs between graphs. `cut` is the number of records after the last complete graph. `known` is false if the
    records do not show whether the last graph is complete.
    """

    whole: int
    calls: int | None
    cut: int
    known: bool = True


UNKNOWN = Graphs(whole=0, calls=None, cut=0, known=False)


@dataclass(slots=True)
class NamedGraphs:
    """Splits records into graphs by the tensors that they name. `current` are the names of the current graph."""

    first: str | None = None
    layer: int = -1
    whole: int = 0
    current: list[str] = field(default_factory=list)
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)
    lost: bool = False

    def add(self, name: str, layer: int | None) -> None:
        """Add the next record."""
        if self.first is None:
            self.first = name
        elif self.current and (name == self.first or (layer is not None and layer < self.layer)):
            self._close()
        if layer is not None:
            self.layer = layer
        if len(self.current) < MAX_GRAPH:
            self.current.append(name)
        else:
            self.lost = True

    def _close(self) -> None:
        shape = tuple(self.current)
        if shape in self.shapes:
            self.shapes[shape] += 1
        elif len(self.shapes) < MAX_SHAPES:
            self.shapes[shape] = 1
        else:
            self.lost = True
        self.whole += 1
        self.current.clear()
        self.layer = -1

    def odd(self, *, alone: bool) -> int:
        """Return the number of graphs that seem to have a duplicate or damaged line.

        There are three cases. First, a tensor occurs twice in the graph, but at most once in every other graph. Second,
        a name is the beginning of the corresponding name in a graph that is otherwise equal. Third, the graph consists
        only of the record with which the other graphs begin. The third case does not count if `alone` is true, because
        a graph may then have only one record.
        """
        shapes = [*self.shapes, *([tuple(self.current)] if self.current else [])]
        twice = [{name for name, count in Counter(shape).items() if count > 1 and name != "-"} for shape in shapes]
        longer = any(len(one) > 1 for one in shapes)
        found = 0
        for at, shape in enumerate(shapes):
            if self.shapes.get(shape, 1) > 1:
                continue
            others = [names for other, names in enumerate(twice) if other != at]
            single = not alone and shape == (self.first,) and at < len(self.shapes) and longer
            doubled = any(all(name not in names for names in others) for name in twice[at])
            found += single or doubled or any(_cut_name(shape, other) for other in shapes if other != shape)
        return found

    def end(self) -> Graphs:
        """Return the graphs.

        The last graph is complete if it has the same names as an earlier graph. It is truncated if its names are only
        the beginning of an earlier graph. If neither or both are true, return `UNKNOWN`. Also return `UNKNOWN` if the
        last graph is the only one, or if a limit was exceeded.
        """
        last = tuple(self.current)
        lengths = {len(shape) for shape in self.shapes}
        if not self.shapes or self.lost or not last:
            return UNKNOWN
        longer = any(len(shape) > len(last) and shape[: len(last)] == last for shape in self.shapes)
        whole = last in self.shapes
        if whole == longer:
            return UNKNOWN
        calls = lengths.pop() if len(lengths) == 1 else None
        return Graphs(whole=self.whole + whole, calls=calls, cut=0 if whole else len(last))


def _cut_name(shape: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two graphs differ in exactly one name, and this name is truncated in the first graph.

    Names that differ only in a layer or node number do not count as truncated.
    """
    if len(shape) != len(other):
        return False
    different = [(mine, theirs) for mine, theirs in zip(shape, other, strict=True) if mine != theirs]
    if len(different) != 1:
        return False
    mine, theirs = different[0]
    return theirs.startswith(mine) and folded(mine) != folded(theirs)


@dataclass(slots=True)
class UnnamedGraphs:
    """Splits records into graphs by their token counts, if they do not name tensors.

    Consecutive records with the same token count form a run. A run consists of complete graphs, so the length of a
    graph divides the length of each run.
    """

    tokens: int | None = None
    run: int = 0
    runs: int = 0
    divisor: int = 0
    total: int = 0

    def add(self, tokens: int) -> None:
        """Add the next record."""
        if tokens != self.tokens:
            if self.run:
                self.divisor = math.gcd(self.divisor, self.run)
                self.runs += 1
                self.total += self.run
            self.tokens, self.run = tokens, 0
        self.run += 1

    def end(self) -> Graphs:
        """Return the graphs. Return `UNKNOWN` if the runs do not show the length of a graph."""
        if self.runs < _LEAST_RUNS or self.divisor < _LEAST_LENGTH:
            return UNKNOWN
        cut = self.run % self.divisor
        return Graphs(whole=(self.total + self.run - cut) // self.divisor, calls=self.divisor, cut=cut)


def joined(parts: Sequence[Graphs]) -> Graphs | None:
    """Return the sum of the graphs of several processes. Return None if there are no processes."""
    if not parts:
        return None
    if not all(part.known for part in parts):
        return UNKNOWN
    calls = {part.calls for part in parts}
    return Graphs(
        whole=sum(part.whole for part in parts),
        calls=calls.pop() if len(calls) == 1 else None,
        cut=sum(part.cut for part in parts),
    )
