"""Colour for words that already say it: the user's option first, then NO_COLOR, FORCE_COLOR and the terminal."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Protocol

VERDICTS = {"PASS": "green", "FAIL": "bold red", "INVALID": "yellow"}
"""The style of each verdict. The word is always printed."""

_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class When(StrEnum):
    """The values of `--color`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Stream(Protocol):
    """A stream that knows whether it is a terminal."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        ...


_chosen = [When.AUTO]


def choose(when: When) -> None:
    """Set the user's choice for the rest of this run."""
    _chosen[0] = when


def terminal(stream: Stream) -> bool:
    """Whether a person looks at the stream, on a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(stream: Stream) -> bool:
    """Whether the stream gets colour."""
    if _chosen[0] is not When.AUTO:
        return _chosen[0] is When.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced != "0"
    return terminal(stream)


def paint(text: str, style: str, stream: Stream) -> str:
    """The text with its style, if the stream gets colour. `style` is words of rich: `bold red`."""
    if not style or not coloured(stream):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def paint_verdict(line: str, stream: Stream) -> str:
    """The line with its first word painted, if that is a verdict."""
    word, blank, rest = line.partition(" ")
    return paint(word, VERDICTS[word], stream) + blank + rest if word in VERDICTS else line
