"""Compute the trees that a series produces on upstream's commits.

Conflicts are settled, so that checks can run on complete texts. Each patch's own change is merged three-way, as in
`sync`. If both sides inserted lines at the same place, the resulting text contains both insertions. For other
conflicts, upstream's lines are kept. A patch with a conflict is reported as not carried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from patchstack.checks.run import SeriesTrees
from patchstack.git.handover import every_path
from patchstack.git.objects import Objects
from patchstack.git.overlay import Entry, TreeOverlay
from patchstack.series.verify.prefix_trees import Link
from patchstack.upstream.canary.touched_paths import OBSTRUCTED, TouchedPaths
from patchstack.upstream.merge.patch import Picker

_State = tuple[Entry | None, ...]


@dataclass(frozen=True, slots=True)
class _Carried:
    """The states of the touched paths.

    `last` is the state after the series. `after` maps the number of each wanted patch to the state after that patch.
    `absent` maps the number of each patch that was not carried to the reason.
    """

    last: _State
    after: dict[int, _State]
    absent: dict[int, str]


class CarriedTrees:
    """Computes the trees that a series produces on upstream trees.

    `wanted` are the numbers of the patches whose trees are needed. `links` are the results of applying each patch to
    the pin.
    """

    def __init__(self, objects: Objects, links: Sequence[Link], wanted: Collection[int]) -> None:
        self._objects = objects
        self._links = links
        self._wanted = frozenset(wanted)
        self._touched = TouchedPaths(objects, {one for link in links for one in every_path(link.patch.data or b"")})
        self._picker = Picker(objects, union=True)
        self._known: dict[_State, _Carried] = {}

    def on(self, tree: str) -> SeriesTrees:
        """Return the trees of the series on an upstream tree.

        Raises `MissingObject` if a file's content is not available.
        """
        before = tuple(self._touched.entries(tree))
        carried = self._known.get(before)
        if carried is None:
            carried, moved = self._carried(tree)
            if moved:  # files outside the touched paths were written, and the cache covers only touched paths
                return self._merged(tree, carried.absent)
            self._known[before] = carried
        return SeriesTrees(
            last=self._laid(tree, before, carried.last),
            after={number: self._laid(tree, before, state) for number, state in carried.after.items()},
            absent=carried.absent,
        )

    def _carried(self, tree: str) -> tuple[_Carried, bool]:
        after: dict[int, _State] = {}
        absent: dict[int, str] = {}
        moved = False
        for link in self._links:
            number = link.patch.number
            if link.applied:
                merge = self._picker.merge(link.before, link.after, tree)
                tree, moved = merge.best, moved or bool(merge.renames)
                if not merge.clean and number is not None:
                    absent[number] = f"{link.patch.file} does not merge there"
            elif number is not None:
                absent[number] = f"{link.patch.file} does not apply at its own pin"
            if number in self._wanted and number is not None:
                after[number] = tuple(self._touched.entries(tree))
        return _Carried(tuple(self._touched.entries(tree)), after, absent), moved

    def _merged(self, tree: str, absent: dict[int, str]) -> SeriesTrees:
        """Merge every patch, without the cache."""
        after: dict[int, str] = {}
        for link in self._links:
            tree = self._picker.merge(link.before, link.after, tree).best if link.applied else tree
            if link.patch.number is not None:
                after[link.patch.number] = tree
        return SeriesTrees(last=tree, after=after, absent=absent)

    def _laid(self, tree: str, before: _State, after: _State) -> str:
        """Return the tree with the entries of `after` at the touched paths."""
        overlay = TreeOverlay(self._objects, tree)
        changed = [(place, entry) for place, (was, entry) in enumerate(zip(before, after, strict=True)) if was != entry]
        for place, entry in changed:
            was = before[place]
            if entry is None and was is not None and was[0] != OBSTRUCTED:
                overlay.remove(self._touched.paths[place])
        for place, entry in changed:
            if entry is not None and entry[0] != OBSTRUCTED:
                overlay.put(self._touched.paths[place], *entry)
        return overlay.write()
