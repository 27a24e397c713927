"""A whole series carried onto a tree of upstream, three-way: a verdict for every patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from patchstack.git.overlay import EXECUTABLE, FILE
from patchstack.upstream.canary.strict_chain import Slot
from patchstack.upstream.merge.edits import Lines, compare, merge_edits, without
from patchstack.upstream.merge.patch_edits import OwnEdits, PathEdit
from patchstack.upstream.merge.text import Edit

_REGULAR = (FILE, EXECUTABLE)


class Way(Enum):
    """How a series is carried.

    `MERGED`: each patch onto upstream with those before it that merge. `BARE`: onto upstream alone. `LAID`: onto
    upstream with every patch before it, collisions settled (see `carry.lay`).
    """

    MERGED = "merged"
    BARE = "bare"
    LAID = "laid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What becomes of every patch's own change: whether it merges, and whether it then changes nothing. None for a
    patch that does not apply to the pin, and one that was not asked for."""

    clean: tuple[bool | None, ...]
    nothing: tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class _File:
    """A path on its way: what stands there, its lines where it is a text, and the edits that lead to them from the
    series' own version (of no meaning where one of the two is not there)."""

    slot: Slot
    lines: Lines | None
    left: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    file: _File
    clean: bool
    nothing: bool


class Carrier:
    """Carries one series onto trees."""

    def __init__(self, own: OwnEdits) -> None:
        self._own = own

    def carry(
        self,
        way: Way,
        pin: Sequence[Slot],
        there: Sequence[Slot],
        moved: Mapping[bytes, Slot],
        *,
        only: int | None = None,
    ) -> Verdicts:
        """The verdicts on a tree. `pin` and `there` are what stands at the touched paths at the pin and in the tree;
        `moved` what stands there under other names. `only` asks for one patch, and looks at its paths alone."""
        place = self._own.chain.touched.place
        paths = None if only is None else self._own.of(only).keys()
        files: dict[bytes, _File] = {}
        clean: list[bool | None] = []
        nothing: list[bool | None] = []
        for index in range(len(self._own) if only is None else only + 1):
            if not self._own.applies(index):
                clean.append(None)
                nothing.append(None)
                continue
            changes = self._own.of(index)
            if paths is not None:
                changes = {path: change for path, change in changes.items() if path in paths}
            for path in changes.keys() - files.keys():
                at = place[path]
                files[path] = self._begin(pin[at], moved.get(path, there[at]))
            tried = {path: self._onto(files[path], change) for path, change in changes.items()}
            merges = all(outcome.clean for outcome in tried.values())
            clean.append(merges)
            nothing.append(merges and all(outcome.nothing for outcome in tried.values()))
            taken = way is Way.LAID or (way is Way.MERGED and merges)
            for path, outcome in tried.items():
                files[path] = outcome.file if taken else self._passed_over(files[path], changes[path])
        return Verdicts(clean=tuple(clean), nothing=tuple(nothing))

    def _begin(self, base: Slot, ours: Slot) -> _File:
        if base == ours:
            return _File(ours, self._own.lines(ours), ())
        return _File(ours, self._own.lines(ours), self._own.between(base, ours))

    def _onto(self, file: _File, change: PathEdit) -> _Outcome:
        """One path of a patch onto what stands there (the table of `threeway._Merging`, in edits)."""
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
        laid = merge_edits(before, file.lines, after.lines, file.left, change.edits)
        slot: Slot = (mode, ours[1] if laid.nothing else -1)
        nothing = laid.nothing and mode == ours[0]
        return _Outcome(_File(slot, laid.lines, laid.left), clean=laid.clean, nothing=nothing)

    def _alike(self, file: _File, base: Slot) -> bool:
        """Whether what stands there is what the patch was made for."""
        if file.slot is None or base is None:
            return file.slot is base
        if file.lines is None:
            return file.slot == base
        return not file.left and file.slot[0] == base[0] and self._own.lines(base) is not None

    def _equal(self, file: _File, after: _File) -> bool:
        """Whether what stands there is what the patch makes of it."""
        if file.slot is None or after.slot is None:
            return file.slot is after.slot
        if file.slot[0] != after.slot[0]:
            return False
        if file.lines is None or after.lines is None:
            return file.slot == after.slot
        return len(file.lines) == len(after.lines) and list(file.lines) == list(after.lines)

    def _passed_over(self, file: _File, change: PathEdit) -> _File:
        """What stands there, told from the patch's result without the patch in it."""
        theirs = self._own.lines(change.new)
        if file.lines is None or theirs is None:
            return _File(file.slot, file.lines, ())
        if change.old is None or change.edits is None:
            return _File(file.slot, file.lines, compare(theirs, file.lines))
        return _File(file.slot, file.lines, without(theirs, file.lines, file.left, change.edits))
