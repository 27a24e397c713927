"""Find why a patch fails on a newer upstream.

The cause is the patch's own change, a file that upstream removed or moved, or an earlier patch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from patchstack.git.objects import Objects
from patchstack.git.overlay import Entry, TreeOverlay
from patchstack.git.patch.effort import Pool
from patchstack.upstream.canary.causes import REASONS, REASONS_OF_COMMIT, Culprits, Reason, reasons_against
from patchstack.upstream.canary.line_owners import Ownership
from patchstack.upstream.canary.result import State
from patchstack.upstream.canary.strict_chain import Slot, StrictChain
from patchstack.upstream.history import UpstreamCommit
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch import new_files
from patchstack.upstream.merge.patch_edits import OwnEdits
from patchstack.upstream.merge.renames import find_rename
from patchstack.upstream.merge.series import Carrier, Verdicts, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The reason why one patch fails on one tree.

    In a cascade, earlier patches cause the failure, and `causes` contains their indices. The patch that changed the
    most failing places is first. If the failure is not a cascade, `also` contains the failing earlier patches that
    changed some of these places. `renamed` contains the old and the new path of each missing file that upstream moved.
    """

    state: State
    causes: tuple[int, ...]
    also: tuple[int, ...]
    reasons: tuple[Reason, ...]
    renamed: tuple[tuple[str, str], ...]


class Diagnoser:
    """Diagnoses patches of a series on upstream trees. `commits` is the number of upstream commits."""

    def __init__(self, objects: Objects, chain: StrictChain, pin_tree: str, commits: int) -> None:
        self.objects = objects
        self.chain = chain
        self.own = OwnEdits(chain, pin_tree)
        self.ownership = Ownership(self.own)
        self._pin = TreeOverlay(objects, pin_tree)
        self._pin_tree = pin_tree
        self._pool = Pool(REASONS + REASONS_OF_COMMIT * commits)
        self._base: list[Slot] = list(chain.touched.entries(pin_tree))
        self._carrier = Carrier(self.own, self._base)
        self._carried: dict[tuple[Entry | None, ...], Verdicts] = {}
        self._dependent: dict[int, bool] = {}
        self._moved: dict[str, dict[bytes, tuple[bytes, Entry]]] = {}
        self._found: dict[tuple[str, int], Diagnosis] = {}

    def diagnose(self, tree: str, index: int) -> Diagnosis:
        """Return why a patch fails in the strict chain over a tree."""
        key = (tree, index)
        if key not in self._found:
            self._found[key] = self._diagnosed(tree, index)
        return self._found[key]

    def carried(self, tree: str) -> Verdicts:
        """Return whether each patch's own change merges three-way onto an upstream tree.

        For a change that merges, also return whether it has no effect.
        """
        key = self._entries(tree)
        if key not in self._carried:
            self._carried[key] = self._carrier.merged(key, self._slots(tree))
        return self._carried[key]

    def supposed(self, tree: str) -> tuple[bool | None, ...]:
        """Return whether each patch merges three-way onto a hypothetical tree (see `Carrier.supposed`)."""
        return self._carrier.supposed(self.chain.touched.entries(tree), self._slots(tree))

    def merges_with(self, tree: str, others: Collection[int], index: int) -> bool:
        """Return whether a patch merges onto a tree that includes the conflicting earlier patches `others`."""
        self._carrier.merged(self._entries(tree), self._slots(tree))
        return self._carrier.merges_with(others, index)

    def merges_laid(self, tree: str, index: int) -> bool:
        """Return whether a patch merges onto a tree that includes the changes of all earlier patches."""
        return bool(self._alone(Way.LAID, tree, index)[0])

    def changed(self, tree: str, index: int) -> bool:
        """Return whether any path of a patch has different content in an upstream tree than at the pin."""
        place, there = self.chain.touched.place, self.chain.touched.entries(tree)
        return any(there[place[path]] != self._base[place[path]] for path in self.own.of(index))

    def landed_at(self, tree: str, index: int) -> bool:
        """Return whether a patch's own change has no effect on an upstream tree."""
        return bool(self._alone(Way.BARE, tree, index)[1])

    def _alone(self, way: Way, tree: str, index: int) -> tuple[bool | None, bool | None]:
        return self._carrier.alone(way, self.chain.touched.entries(tree), self._slots(tree), index)

    def _entries(self, tree: str) -> tuple[Entry | None, ...]:
        return tuple(self.chain.touched.entries(tree))

    def _slots(self, tree: str) -> dict[bytes, Slot]:
        return {path: entry for path, (_, entry) in self.moved(tree).items()}

    def moved(self, tree: str) -> Mapping[bytes, tuple[bytes, Entry]]:
        """Map the old path of each touched file that upstream moved to its new path and the entry there.

        A file counts as moved if the tree lacks the file's old path and contains a similar new file.
        """
        found = self._moved.get(tree)
        if found is None:
            found = self._moved[tree] = {}
            entries = self.chain.touched.entries(tree)
            gone = [path for path, now in zip(self.chain.touched.paths, entries, strict=True) if now is None]
            lost = [(path, entry) for path in gone if (entry := self.at_pin(path)) is not None]
            come = new_files(self.objects, self._pin_tree, tree) if lost else {}
            for path, entry in lost:
                rename = find_rename(self.objects, entry, path, come)
                if rename is not None:
                    found[path] = rename[0], come[rename[0]]
        return found

    def at_pin(self, path: bytes) -> Entry | None:
        """Return the entry at a path in the pin's tree. Return None if the path does not exist there."""
        return self._pin.entry(path) if self._pin.obstacle(path) is None else None

    def _diagnosed(self, tree: str, index: int) -> Diagnosis:
        standing = self.chain.standing(tree, index)
        failing = {before for before, applied in enumerate(self.chain.run(tree).applied[:index]) if not applied}
        reasons = reasons_against(standing, index, self._pool)
        owners = [self._owners(reason, index) & failing for reason in reasons]
        owned = Counter(owner for found in owners for owner in found)
        state, also = State.CONFLICT, tuple(sorted(owned))
        gone = {reason.path for reason in reasons if reason.fault == "missing-file"}
        lost = [path for path in sorted(gone) if self.at_pin(path) is not None and not self._made(path, index)]
        moved = self.moved(tree)
        if lost:
            state = State.RENAMED_SOURCE if any(path in moved for path in lost) else State.DELETED_SOURCE
        elif owned and self._only_falls_with(tree, index, reasons, owners):
            state, also = State.CASCADE, ()
        return Diagnosis(
            state=state,
            causes=self._roots(tree, owned) if state is State.CASCADE else (),
            also=also,
            reasons=reasons,
            renamed=tuple((_shown(path), _shown(moved[path][0])) for path in lost if path in moved),
        )

    def _only_falls_with(
        self, tree: str, index: int, reasons: Sequence[Reason], owners: Sequence[frozenset[int]]
    ) -> bool:
        """Return whether a patch fails only because earlier patches that it depends on fail.

        This is true if the patch's own change merges three-way onto upstream. It is also true if all failing places
        belong to failing earlier patches, and one of two conditions holds: the patch merges onto a tree that includes
        the changes of all earlier patches, or upstream changed nothing at the failing places.
        """
        if all(owners) and (
            self.merges_laid(tree, index) or not any(self._edits_in(tree, index, reason) for reason in reasons)
        ):
            return True
        if self._leans(index):
            return False
        return bool(self._alone(Way.BARE, tree, index)[0])

    def _leans(self, index: int) -> bool:
        """Return whether a patch changes lines or files that earlier patches added.

        Such a patch cannot merge without these patches.
        """
        if index not in self._dependent:
            self._dependent[index] = any(
                (change.old is not None and self.at_pin(path) is None)
                or any(
                    self.ownership.of_lines(path, index, edit.at, edit.at + edit.removed) for edit in change.edits or ()
                )
                for path, change in self.own.of(index).items()
            )
        return self._dependent[index]

    def _made(self, path: bytes, index: int) -> bool:
        """Return whether an earlier patch creates or removes a path, so that the path's state depends on the series."""
        changes = (self.own.of(before)[path] for before in self.ownership.touching(path, index))
        return any(change.old is None or change.new is None for change in changes)

    def _owners(self, reason: Reason, index: int) -> frozenset[int]:
        """Return the earlier patches that changed the failing lines.

        If no lines are known, return the earlier patches that changed the file.
        """
        if not reason.path:
            return frozenset()
        span = self._span(reason, index)
        if span is not None:
            return self.ownership.of_lines(reason.path, index, *span)
        if reason.diff is not None and not self._made(reason.path, index):
            return frozenset()  # upstream removed or added the file, so no earlier patch is the cause
        return self.ownership.touching(reason.path, index)

    def _span(self, reason: Reason, index: int) -> tuple[int, int] | None:
        """Return the range of lines that a hunk covers in the pin's version of the file before the patch."""
        change = self.own.of(index).get(reason.path)
        if reason.hunk is None or change is None or reason.hunk >= len(change.spans):
            return None
        return change.spans[reason.hunk]

    def _roots(self, tree: str, owned: Counter[int]) -> tuple[int, ...]:
        """Return the root causes among the patches that own the failing places.

        A root cause fails because of its own change. The patch that owns the most places is first.
        """
        roots: Counter[int] = Counter()
        for owner, count in owned.items():
            causes = self.diagnose(tree, owner).causes
            for cause in causes or (owner,):
                roots[cause] += count
        return tuple(sorted(roots, key=lambda cause: (-roots[cause], -cause)))

    def collides(self, culprits: Culprits, tip: str, index: int) -> tuple[UpstreamCommit, ...]:
        """Return the upstream commits whose lines conflict with a patch at the tip.

        The commit with the most conflicting places is first.
        """
        found: Counter[int] = Counter()
        commits: dict[int, UpstreamCommit] = {}
        for reason in self.diagnose(tip, index).reasons:
            for commit in self._behind(culprits, tip, index, reason):
                commits[commit.index] = commit
                found[commit.index] += 1
        return tuple(commits[one] for one in sorted(found, key=lambda one: (-found[one], -one)))

    def _behind(self, culprits: Culprits, tip: str, index: int, reason: Reason) -> Sequence[UpstreamCommit]:
        if reason.path not in self.chain.touched.place:
            return ()
        if self._span(reason, index) is None:
            last = culprits.of_path(reason.path)
            return (last,) if last is not None else ()
        return [
            commit
            for edit in self._edits_in(tip, index, reason)
            for commit in culprits.of_lines(reason.path, edit.to, edit.to + edit.added)
        ]

    def _edits_in(self, tree: str, index: int, reason: Reason) -> list[Edit]:
        """Return upstream's changes to the lines that a hunk covers, as edits of the text before the patch."""
        span = self._span(reason, index)
        here = self._here(tree, reason.path)
        if span is None or here is None:
            return []
        if self.own.lines(self.own.of(index)[reason.path].old) is None or self.own.lines(here) is None:
            return []
        start, end = span
        upstream_s = self._carrier.apart(reason.path, here, index)
        found = [edit for edit in upstream_s if edit.at <= end and edit.at + edit.removed >= start]
        pin = self._base[self.chain.touched.place[reason.path]]
        if pin is None:
            return found
        # If lines are missing only because an earlier patch is missing, upstream did not change them.
        changed = self.own.between(pin, here)
        return [edit for edit in found if any(_touch(edit, upstream) for upstream in changed)]

    def _here(self, tree: str, path: bytes) -> Entry | None:
        return self.chain.touched.entries(tree)[self.chain.touched.place[path]]


def _touch(one: Edit, other: Edit) -> bool:
    """Return whether two edits with the same new text touch each other in that text.

    A pure removal counts as a point between two lines.
    """
    if not one.added and not other.added:
        return one.to == other.to
    return one.to < other.to + other.added and other.to < one.to + one.added


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "replace")
