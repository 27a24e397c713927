"""Objects made in memory, within bounds: what was made long ago moves to a temporary file without a name."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO

_LIMIT = 48 * 1024 * 1024


class MadeObjects:
    """A store of objects by id. Contents beyond `limit` bytes are kept on disk, the oldest first; every one stays
    readable for as long as the store lives."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._held: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._size = 0
        self._spilled: dict[str, tuple[str, int, int]] = {}
        self._file: BinaryIO | None = None
        self._end = 0

    def __contains__(self, oid: str) -> bool:
        return oid in self._held or oid in self._spilled

    def add(self, oid: str, kind: str, data: bytes) -> None:
        if oid in self:
            return
        self._held[oid] = (kind, data)
        self._size += len(data)
        while self._size > self._limit and len(self._held) > 1:
            self._spill(*self._held.popitem(last=False))

    def get(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content, or None for an object not made here."""
        held = self._held.get(oid)
        if held is not None:
            return held
        place = self._spilled.get(oid)
        if place is None or self._file is None:
            return None
        kind, start, size = place
        return kind, os.pread(self._file.fileno(), size, start)

    def _spill(self, oid: str, made: tuple[str, bytes]) -> None:
        kind, data = made
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="patchstack-", buffering=0)  # noqa: SIM115  (it lives as long as we)
        written = 0
        while written < len(data):
            written += os.pwrite(self._file.fileno(), memoryview(data)[written:], self._end + written)
        self._spilled[oid] = (kind, self._end, len(data))
        self._end += len(data)
        self._size -= len(data)

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._held
