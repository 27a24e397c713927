"""Check that the output of a program is complete.

It is complete if it contains the sentinel: the line that the program prints last.
"""

from __future__ import annotations

import re

LOST = "its output was lost: its last line is missing"

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def lines_of(stream: bytes) -> list[str]:
    """Return the complete lines of a stream, without colours.

    A last line without a line break is omitted, because it may be truncated.
    """
    return [line.rstrip("\r") for line in _plain(stream).split("\n")[:-1]]


def all_lines_of(*streams: bytes) -> list[str]:
    """Return all lines of several streams, without colours (`test-backend-ops` uses colours even in a file)."""
    return [line for stream in streams for line in _plain(stream).splitlines()]


def sentinel_missing(stream: bytes, pattern: str) -> str | None:
    """Return why the output may be incomplete. Return None if it contains the sentinel."""
    search = re.compile(pattern).search
    if any(search(line) for line in reversed(lines_of(stream))):
        return None
    return LOST


def _plain(stream: bytes) -> str:
    return _COLOUR.sub("", stream.decode("utf-8", "backslashreplace"))
