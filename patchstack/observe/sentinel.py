"""Check that a program's output is complete: it contains the sentinel, a line that the program prints last."""

from __future__ import annotations

import re

LOST = "its output was lost: the line that it prints last is missing"

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def lines_of(stream: bytes) -> list[str]:
    """Return the complete lines of a stream, without colours. A last line without a line break may be cut off and is
    left out."""
    return [line.rstrip("\r") for line in _plain(stream).split("\n")[:-1]]


def all_lines_of(*streams: bytes) -> list[str]:
    """Return every line of some streams, without colours (`test-backend-ops` colours even what it writes to a file)."""
    return [line for stream in streams for line in _plain(stream).splitlines()]


def sentinel_missing(stream: bytes, pattern: str) -> str | None:
    """Return why a run cannot be trusted to have printed everything; None if the sentinel exists."""
    search = re.compile(pattern).search
    if any(search(line) for line in reversed(lines_of(stream))):
        return None
    return LOST


def _plain(stream: bytes) -> str:
    return _COLOUR.sub("", stream.decode("utf-8", "backslashreplace"))
