"""Control the output on stdout and stderr: colours, and how much is printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Stream(Protocol):
        """A stream that can tell whether it is a terminal."""

        def isatty(self) -> bool:
            """Return whether the stream is a terminal."""
            ...


VERDICTS = {"PASS": "green", "FAIL": "bold red", "INVALID": "yellow"}
"""The style of each verdict. Verdicts are always printed as words too, because a colour alone is not enough."""

_TALK = {"error:": "bold red", "warning:": "yellow", "hint:": "cyan", **VERDICTS}
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class When(StrEnum):
    """The values of `--color`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


# The values are --color, --quiet, and whether error codes are shown. A class would slow down the import of this module.
_manner = [(When.AUTO, False, False)]


@contextmanager
def manners() -> Iterator[None]:
    """Restore the output options after the block.

    This is needed because a command may run other commands in this process.
    """
    before = _manner[0]
    try:
        yield
    finally:
        _manner[0] = before


def choose(*, color: When | None = None, quiet: bool = False, coded: bool = False) -> None:
    """Set the output options of a command line. Options that are not given keep their values.

    `coded` means that errors are shown with their codes.
    """
    before, hushed, with_codes = _manner[0]
    _manner[0] = (color or before, quiet or hushed, coded or with_codes)


def quiet() -> bool:
    """Return whether only results and errors are printed (`--quiet`)."""
    return _manner[0][1]


def coded() -> bool:
    """Return whether errors are shown with their codes."""
    return _manner[0][2]


_besides: list[Callable[[], AbstractContextManager[None]]] = []


def beside(aside: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
    """Register a context manager that hides the status line of a terminal while other text is printed.

    `printing` enters the context manager. Return a function that unregisters it.
    """
    _besides.append(aside)
    return lambda: _besides.remove(aside)


@contextmanager
def printing() -> Iterator[None]:
    """Hide the status line of a terminal while the block prints other text."""
    if _besides:
        with _besides[-1]():
            yield
    else:
        yield


def terminal(stream: Stream) -> bool:
    """Return whether the stream is a terminal that supports control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(stream: Stream) -> bool:
    """Return whether output to the stream uses colour.

    The first of `--color`, NO_COLOR and FORCE_COLOR that is set decides. If none is set, terminals use colour.
    """
    chosen = _manner[0][0]
    if chosen is not When.AUTO:
        return chosen is When.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced != "0"
    return terminal(stream)


def paint(text: str, style: str, stream: Stream) -> str:
    """Return the text in a style, such as `bold red`, if output to the stream uses colour."""
    if not style or not coloured(stream):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def paint_words(text: str, stream: Stream) -> str:
    """Colour the first word of each line if the word is a verdict, `error:`, `warning:` or `hint:`."""
    return "\n".join(_line(line, stream) for line in text.split("\n")) if coloured(stream) else text


def _line(line: str, stream: Stream) -> str:
    word, blank, rest = line.partition(" ")
    style = _TALK.get("error:" if word.startswith("error[") and word.endswith("]:") else word)
    return paint(word, style, stream) + blank + rest if style else line
