"""The cells of the cache for layers with a window: which positions of a sequence are still there.

As `find_slot`, `apply_ubatch` and `seq_rm` of `src/llama-kv-cache.cpp` at the pin: a cell is taken if it is empty or
its position is outside the window, and with a position all earlier ones of its sequence go.
"""

from __future__ import annotations


class WindowCells:
    """The cells of one stream, shared by all sequences in it."""

    def __init__(self, size: int, window: int, *, chunked: bool = False) -> None:
        self.size, self.window, self.chunked = size, window, chunked
        self.position = [-1] * size
        self.owner = [-1] * size
        self.where: dict[int, dict[int, int]] = {}  # sequence -> position -> cell
        self.head = 0
        self.used = 0

    def first(self, sequence: int) -> int:
        """The smallest position of a sequence, -1 without any."""
        return min(self.where.get(sequence, ()), default=-1)

    def last(self, sequence: int) -> int:
        """The largest position of a sequence, -1 without any."""
        return max(self.where.get(sequence, ()), default=-1)

    def kept(self, sequence: int) -> list[int]:
        """The positions that a copy of the sequence's state has: those inside the window of its last."""
        last = self.last(sequence)
        return sorted(one for one in self.where.get(sequence, ()) if not self._outside(one, last))

    def add(self, sequence: int, positions: range | list[int]) -> bool:
        """Put the tokens of one ubatch into cells. False if they do not fit; then nothing has changed."""
        found = self._find(len(positions))
        if found is None:
            return False
        overwritten: dict[int, int] = {}
        for cell, position in zip(found, positions, strict=True):
            if (owner := self.owner[cell]) >= 0:
                overwritten[owner] = max(overwritten.get(owner, -1), self.position[cell])
                self._clear(cell)
            self.position[cell], self.owner[cell] = position, sequence
            self.where.setdefault(sequence, {})[position] = cell
            self.used += 1
        for owner, most in overwritten.items():
            if 0 <= self.first(owner) <= most:
                self.remove(owner, 0, most + 1)
        self.head = found[-1] + 1
        return True

    def remove(self, sequence: int, first: int = 0, end: int | None = None) -> None:
        """Remove the positions of a sequence from `first` to before `end`."""
        cells = [
            cell
            for position, cell in self.where.get(sequence, {}).items()
            if position >= first and (end is None or position < end)
        ]
        for cell in cells:
            self._clear(cell)
        if cells:
            self.head = min(self.head, *cells)

    def _clear(self, cell: int) -> None:
        del self.where[self.owner[cell]][self.position[cell]]
        self.position[cell] = self.owner[cell] = -1
        self.used -= 1

    def _find(self, count: int) -> list[int] | None:
        if count > self.size:
            return None
        at = 0 if self.head > self.used + 2 * count else self.head
        next_of = {sequence: self.last(sequence) + 1 for sequence in self.where}
        found: list[int] = []
        for _ in range(2 * self.size):
            if at >= self.size:
                at = 0
            owner = self.owner[at]
            if owner < 0 or self._outside(self.position[at], next_of[owner]):
                found.append(at)
                if len(found) == count:
                    return found
            at += 1
            if len(found) > self.size:
                break
        return None

    def _outside(self, position: int, seen_from: int) -> bool:
        if self.chunked:
            return position < seen_from // self.window * self.window
        return seen_from - position >= self.window
