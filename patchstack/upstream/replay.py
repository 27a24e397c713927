"""Try a series on many trees. A patch is tried again only if its files differ from those of the previous tree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Step = Callable[[int, tuple[T, ...]], tuple[tuple[T, ...], R]]
"""The type of functions that try one patch, given by its index, on the contents at its places.

They return the contents after the patch, and the result.
"""


class Replay(Generic[T, R]):
    """The last run of a series, stored patch by patch.

    `places` are the indices of the paths that each patch reads and writes. The result of a patch depends only on these
    places. `same` returns whether two contents of a place are equal. If it wrongly returns False, only time is lost.
    """

    def __init__(
        self,
        places: Sequence[tuple[int, ...]],
        step: Step[T, R],
        same: Callable[[T, T], bool] = operator.eq,
    ) -> None:
        self._places = places
        self._step = step
        self._same = same
        self._first: dict[int, int] = {}
        self._after: list[tuple[int, ...]] = [()] * len(places)
        for index in range(len(places) - 1, -1, -1):
            self._after[index] = tuple(self._first.get(place, -1) for place in places[index])
            self._first.update(dict.fromkeys(places[index], index))
        self._base: Sequence[T] | None = None
        self.inputs: list[tuple[T, ...]] = []
        self.outputs: list[tuple[T, ...]] = []
        self.results: list[R] = []

    def run(self, base: Sequence[T]) -> Sequence[R]:
        """Run the series on the contents of all places and return the results.

        The results are valid until the next run.
        """
        if self._base is None:
            self._run_all(list(base))
        else:
            dirty = {
                place: now
                for place, (was, now) in enumerate(zip(self._base, base, strict=True))
                if was is not now and not self._same(was, now)
            }
            self._base = base
            waiting = [self._first[place] for place in dirty if place in self._first]
            self._propagate(dirty, waiting, frozenset(), self._step, len(self._places), keep=True)
        return self.results

    def result_if(self, others: Collection[int], step: Step[T, R], index: int) -> R:
        """Return the result that one patch would have if the patches in `others` were tried with `step`.

        All other patches are as in the last run. The stored run does not change.
        """
        found = self._propagate({}, list(others), others, step, index, keep=False)
        return self.results[index] if found is None else found[0]

    def _run_all(self, state: list[T]) -> None:
        self._base = list(state)
        for index, places in enumerate(self._places):
            given = tuple(state[place] for place in places)
            left, result = self._step(index, given)
            for place, content in zip(places, left, strict=True):
                state[place] = content
            self.inputs.append(given)
            self.outputs.append(left)
            self.results.append(result)

    def _propagate(
        self,
        dirty: dict[int, T],
        waiting: list[int],
        others: Collection[int],
        step: Step[T, R],
        upto: int,
        *,
        keep: bool,
    ) -> tuple[R] | None:
        """Try the waiting patches, and the later patches that read their changes, in order.

        The walk ends at patch `upto`. If this patch is tried, return its result, otherwise None. The patches in
        `others` are tried with `step`. `dirty` contains, by place, the contents that differ from the last run. It is
        updated after each patch. With `keep`, the stored run is updated too.
        """
        heapify(waiting)
        last = -1
        while waiting:
            index = heappop(waiting)
            if index == last:
                continue
            last = index
            if index > upto:
                break
            places = self._places[index]
            given = tuple(dirty.get(place, was) for place, was in zip(places, self.inputs[index], strict=True))
            left, result = (step if index in others else self._step)(index, given)
            if index == upto:
                return (result,)
            for place, was, now, after in zip(places, self.outputs[index], left, self._after[index], strict=True):
                if was is now or self._same(was, now):
                    dirty.pop(place, None)
                else:
                    dirty[place] = now
                    if after >= 0:
                        heappush(waiting, after)
            if keep:
                self.inputs[index], self.outputs[index], self.results[index] = given, left, result
        return None
