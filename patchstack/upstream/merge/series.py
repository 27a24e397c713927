"""Merge a whole series three-way onto an upstream tree, with a result for every patch."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from patchstack.git.overlay import EXECUTABLE, FILE
from patchstack.upstream.canary.strict_chain import Slot
from patchstack.upstream.merge.edits import Lines, compare, merge_edits, without
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch_edits import OwnEdits, PathEdit
from patchstack.upstream.replay import Replay

_REGULAR = (FILE, EXECUTABLE)


class Way(Enum):
    """How to merge one patch outside of a run of the series.

    `BARE` merges onto upstream alone. `LAID` merges onto upstream with all earlier patches, and settles their conflicts
    (see `merge_edits`).
    """

    BARE = "bare"
    LAID = "laid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The results for each patch's own change.

    `clean` tells whether the change merges. `nothing` tells whether the merged change has no effect. Both are None for
    a patch that does not apply to the pin.
    """

    clean: tuple[bool | None, ...]
    nothing: tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class _File:
    """The state of a path after some patches.

    The state is the slot of the path, its lines if it is a text, and the edits from the series' own version to these
    lines. The edits have no meaning if one of the two versions does not exist.
    """

    slot: Slot
    lines: Lines | None
    left: tuple[Edit, ...]


_ABSENT = _File(None, None, ())


@dataclass(frozen=True, slots=True)
class _Outcome:
    file: _File
    clean: bool
    nothing: bool


_Verdict = tuple[bool | None, bool | None]


class Carrier:
    """Merges one series onto trees. `pin` are the pin's slots at the touched paths."""

    def __init__(self, own: OwnEdits, pin: Sequence[Slot]) -> None:
        self._own = own
        self._pin = pin
        place = own.chain.touched.place
        self._paths = [tuple(own.of(index)) for index in range(len(own))]
        places = [tuple(place[path] for path in paths) for paths in self._paths]
        self._used = frozenset(one for found in places for one in found)
        self._read = frozenset(one for index, found in enumerate(places) if not own.bulky(index) for one in found)
        self._users: dict[bytes, list[int]] = {}
        for index, paths in enumerate(self._paths):
            for path in paths:
                self._users.setdefault(path, []).append(index)
        self._begun: dict[tuple[int, Slot], _File] = {}
        self._reached: dict[tuple[Way, bytes], tuple[Slot, int, _File]] = {}
        self._replay: Replay[_File, _Verdict] = Replay(places, self._merged, operator.is_)
        self._supposed: Replay[_File, _Verdict] = Replay(places, self._merged, operator.is_)

    def merged(self, there: Sequence[Slot], moved: Mapping[bytes, Slot]) -> Verdicts:
        """Merge each patch onto a tree that includes the earlier patches that merge.

        `there` are the tree's slots at the touched paths. `moved` are the slots of renamed files.
        """
        results = self._replay.run(self._files(there, moved))
        return Verdicts(clean=tuple(one[0] for one in results), nothing=tuple(one[1] for one in results))

    def supposed(self, there: Sequence[Slot], moved: Mapping[bytes, Slot]) -> tuple[bool | None, ...]:
        """Return whether each patch merges onto a hypothetical tree.

        Hypothetical trees have a separate cache, because they may differ greatly from the trees of `merged`.
        """
        return tuple(one[0] for one in self._supposed.run(self._files(there, moved)))

    def _files(self, there: Sequence[Slot], moved: Mapping[bytes, Slot]) -> list[_File]:
        paths = self._own.chain.touched.paths
        return [
            self._begin(place, moved.get(paths[place], slot)) if place in self._used else _ABSENT
            for place, slot in enumerate(there)
        ]

    def merges_with(self, others: Collection[int], index: int) -> bool:
        """Return whether a patch merges if the conflicting earlier patches `others` are included.

        All other patches are as in the last run of `merged`.
        """
        return bool(self._replay.result_if(others, self._laid, index)[0])

    def alone(
        self, way: Way, there: Sequence[Slot], moved: Mapping[bytes, Slot], index: int
    ) -> tuple[bool | None, bool | None]:
        """Return whether one patch merges, and whether it then changes nothing."""
        place = self._own.chain.touched.place
        files = (self._before(way, path, moved.get(path, there[place[path]]), index) for path in self._paths[index])
        return self._merged(index, tuple(files))[1]

    def apart(self, path: bytes, ours: Slot, index: int) -> tuple[Edit, ...]:
        """Return the edits that turn the text before a patch into upstream's text `ours`.

        The text before the patch is the pin's text with the changes of the earlier patches.
        """
        return self._before(Way.BARE, path, ours, index).left

    def _before(self, way: Way, path: bytes, ours: Slot, index: int) -> _File:
        """Return the state of a path before a patch.

        The state is upstream's version, either without the earlier patches or with their changes. The computation
        continues from the state of the previous call, because callers usually examine the patches in order.
        """
        users = self._users[path]
        upto = bisect_left(users, index)
        slot, done, file = self._reached.get((way, path), (None, upto + 1, _ABSENT))
        if slot != ours or done > upto:
            done, file = 0, self._begin(self._own.chain.touched.place[path], ours)
        for before in users[done:upto]:
            change = self._own.of(before)[path]
            file = self._onto(file, change).file if way is Way.LAID else self._passed_over(file, change)
        self._reached[way, path] = ours, upto, file
        return file

    def _merged(self, index: int, given: tuple[_File, ...]) -> tuple[tuple[_File, ...], _Verdict]:
        """Merge a patch onto the given states. Skip the patch if it does not merge."""
        return self._tried(index, given, lay=False)

    def _laid(self, index: int, given: tuple[_File, ...]) -> tuple[tuple[_File, ...], _Verdict]:
        return self._tried(index, given, lay=True)

    def _tried(self, index: int, given: tuple[_File, ...], *, lay: bool) -> tuple[tuple[_File, ...], _Verdict]:
        if not self._own.applies(index):
            return given, (None, None)
        changes = tuple(self._own.of(index).values())
        if self._own.bulky(index):
            return self._replaced(given, changes)
        tried = [self._onto(file, change) for file, change in zip(given, changes, strict=True)]
        clean = all(outcome.clean for outcome in tried)
        verdict = clean, clean and all(outcome.nothing for outcome in tried)
        if clean or lay:
            return tuple(outcome.file for outcome in tried), verdict
        return tuple(map(self._passed_over, given, changes)), verdict

    def _replaced(self, given: tuple[_File, ...], changes: Sequence[PathEdit]) -> tuple[tuple[_File, ...], _Verdict]:
        """Merge a patch that is too large or too costly to analyse, file by file.

        The patch merges only if each of its files in upstream is unchanged, or is already the same as after the patch.
        """
        nothing = all(file.slot == change.new for file, change in zip(given, changes, strict=True))
        clean = all(file.slot in (change.old, change.new) for file, change in zip(given, changes, strict=True))
        if not clean:
            return tuple(_File(file.slot, None, ()) for file in given), (False, False)
        return tuple(
            _File(change.new, self._own.lines(change.new) if self._is_read(change.path) else None, ())
            for change in changes
        ), (True, nothing)

    def _is_read(self, path: bytes) -> bool:
        return self._own.chain.touched.place[path] in self._read

    def _begin(self, place: int, ours: Slot) -> _File:
        key = place, ours
        found = self._begun.get(key)
        if found is None:
            base = self._pin[place]
            if place not in self._read:  # only patches that are not analysed change this path
                found = _File(ours, None, ())
            else:
                left = () if base == ours else self._own.between(base, ours)
                found = _File(ours, self._own.lines(ours), left)
            self._begun[key] = found
        return found

    def _onto(self, file: _File, change: PathEdit) -> _Outcome:
        """Merge one path of a patch. This handles the same cases as `patch._Merging`, with edits instead of texts."""
        ours, base, theirs = file.slot, change.old, change.new
        after = _File(theirs, self._own.lines(theirs), ())
        if self._alike(file, base):
            return _Outcome(after, clean=True, nothing=base == theirs)
        if self._equal(file, after):
            return _Outcome(_File(ours, file.lines, ()), clean=True, nothing=True)
        if ours is None or theirs is None or base is None:
            return _Outcome(self._passed_over(file, change), clean=False, nothing=False)
        mode = ours[0] if theirs[0] == base[0] else theirs[0]
        agreed = ours[0] == theirs[0] or base[0] in (ours[0], theirs[0])
        before = self._own.lines(base)
        if not agreed or file.lines is None or after.lines is None or before is None or change.edits is None:
            return _Outcome(self._passed_over(file, change), clean=False, nothing=False)
        laid = merge_edits(file.lines, after.lines, file.left, change.edits)
        slot: Slot = (mode, ours[1] if laid.nothing else -1)
        nothing = laid.nothing and mode == ours[0]
        return _Outcome(_File(slot, laid.lines, laid.left), clean=laid.clean, nothing=nothing)

    def _alike(self, file: _File, base: Slot) -> bool:
        """Return whether the path has the content that the patch was made for."""
        if file.slot is None or base is None:
            return file.slot is base
        if file.lines is None:
            return file.slot == base
        return not file.left and file.slot[0] == base[0] and self._own.lines(base) is not None

    def _equal(self, file: _File, after: _File) -> bool:
        """Return whether the path already has the content that the patch produces."""
        if file.slot is None or after.slot is None:
            return file.slot is after.slot
        if file.slot[0] != after.slot[0]:
            return False
        if file.lines is None or after.lines is None:
            return file.slot == after.slot
        return len(file.lines) == len(after.lines) and list(file.lines) == list(after.lines)

    def _passed_over(self, file: _File, change: PathEdit) -> _File:
        """Return the state of a path after the patch was skipped.

        The state's edits are relative to the result of the patch.
        """
        theirs = self._own.lines(change.new)
        if file.lines is None or theirs is None:
            return _File(file.slot, file.lines, ())
        if self._own.lines(change.old) is None:
            return _File(file.slot, file.lines, compare(theirs, file.lines))
        if change.edits is None:  # too costly, so no later patch is merged into the text
            return _File(file.slot, None, ())
        return _File(file.slot, file.lines, without(theirs, file.lines, file.left, change.edits))
