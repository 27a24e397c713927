"""Track which step of a file's history added each line, or removed lines between two lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch_edits import OwnEdits

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Owned:
    """The owners of all lines and joints of a text.

    A joint is the place before the first line, between two lines, or after the last line. The owner of a line is the
    step that added it. The owner of a joint is the step that last removed lines there or added a line next to it.
    `NOBODY` owns everything that existed from the beginning.
    """

    lines: tuple[int, ...]
    joints: tuple[int, ...]

    def within(self, start: int, end: int) -> frozenset[int]:
        """Return the owners of some lines and of the joints between them.

        If the range has no lines, return the owner of its joint.
        """
        joints = self.joints[start + 1 : end] if end > start else self.joints[start : start + 1]
        return frozenset((*self.lines[start:end], *joints)) - {NOBODY}


def unowned(count: int) -> Owned:
    """Return the ownership of a text with `count` lines that all belong to `NOBODY`."""
    return Owned((NOBODY,) * count, (NOBODY,) * (count + 1))


def owned_after(last: Owned, by: int, changes: Sequence[Edit]) -> Owned:
    """Return the owners after the step `by`, which makes the edits in `changes`."""
    lines: list[int] = []
    joints: list[int] = []
    before = list(last.joints)
    at = 0
    for edit in changes:
        lines += [*last.lines[at : edit.at], *(by,) * edit.added]
        joints += [*before[at : edit.at], *(by,) * edit.added]
        at = edit.at + edit.removed
        before[at] = by
    return Owned((*lines, *last.lines[at:]), (*joints, *before[at:]))


class Ownership:
    """The owners of the lines in a series' files.

    The series is applied to the pin. An owner is the index of a patch.
    """

    def __init__(self, own: OwnEdits) -> None:
        self._own = own
        self._owned: dict[bytes, list[tuple[int, Owned]]] = {}
        self._users: dict[bytes, list[int]] = {}
        for index in range(len(own)):
            for path in own.of(index):
                self._users.setdefault(path, []).append(index)

    def touching(self, path: bytes, before: int) -> frozenset[int]:
        """Return the patches before index `before` that change a path."""
        return frozenset(index for index in self._users.get(path, ()) if index < before)

    def changing(self, path: bytes) -> Sequence[int]:
        """Return all patches that change a path, in order."""
        return self._users.get(path, ())

    def of_lines(self, path: bytes, index: int, start: int, end: int) -> frozenset[int]:
        """Return the owners of a range of lines in a file.

        The range refers to the file just before patch `index`, with the series on the pin. The owners are earlier
        patches that added lines of the range, or removed lines within it.
        """
        found = None
        for by, owned in self._versions(path):
            if by < index:
                found = owned
        return found.within(start, end) if found is not None else frozenset()

    def _versions(self, path: bytes) -> list[tuple[int, Owned]]:
        """Return the ownership of a path after each patch that changes the path."""
        known = self._owned.get(path)
        if known is None:
            known = self._owned[path] = []
            for index in self.changing(path):
                change = self._own.of(index)[path]
                lines, after = self._own.lines(change.old), self._own.lines(change.new)
                if after is None:
                    continue
                if lines is None or change.edits is None:
                    owned = Owned((index,) * len(after), (index,) * (len(after) + 1))
                else:
                    owned = owned_after(known[-1][1] if known else unowned(len(lines)), index, change.edits)
                known.append((index, owned))
        return known
