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
"""The style of each verdict. The word is always printed."""

_TALK = {"error:": "bold red", "warning:": "yellow", "hint:": "cyan", **VERDICTS}
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class When(StrEnum):
    """The values of `--color`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


_manner = [(When.AUTO, False, False)]  # --color, --quiet, error codes; not a class, because imports are slow


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
    """Set the output options of a command line. With `coded`, errors are shown with their codes."""
    before, hushed, with_codes = _manner[0]
    _manner[0] = (color or before, quiet or hushed, coded or with_codes)


def quiet() -> bool:
    """Return whether only results and errors are wanted."""
    return _manner[0][1]


def coded() -> bool:
    """Return whether errors are shown with their codes."""
    return _manner[0][2]


_besides: list[Callable[[], AbstractContextManager[None]]] = []


def beside(aside: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
    """Register a context manager that hides a changing line of a terminal.

    `printing` enters it. Return a function that unregisters it.
    """
    _besides.append(aside)
    return lambda: _besides.remove(aside)


@contextmanager
def printing() -> Iterator[None]:
    """Hide the changing line of a terminal while the block prints other text."""
    if _besides:
        with _besides[-1]():
            yield
    else:
        yield


def terminal(stream: Stream) -> bool:
    """Return whether the stream is a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(stream: Stream) -> bool:
    """Return whether the stream gets colour.

    The first of these that is set decides: `--color`, NO_COLOR, FORCE_COLOR. Otherwise, a terminal gets colour.
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
    """Return the text with its style, such as `bold red`, if the stream gets colour."""
    if not style or not coloured(stream):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def paint_words(text: str, stream: Stream) -> str:
    """Return the text with colour on the first word of a line.

    The word must be a verdict, `error:`, `warning:` or `hint:`.
    """
    return "\n".join(_line(line, stream) for line in text.split("\n")) if coloured(stream) else text


def _line(line: str, stream: Stream) -> str:
    word, blank, rest = line.partition(" ")
    style = _TALK.get("error:" if word.startswith("error[") and word.endswith("]:") else word)
    return paint(word, style, stream) + blank + rest if style else line
