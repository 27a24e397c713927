"""Text for people: numbers in sentences, and what others wrote, made safe for a terminal and for Markdown.

GitHub renders summaries, comments and issues with HTML, mentions, references, emoji and automatic links. So foreign
text is put into `<code>` (no mentions or references are made there), and every character that could mean something is
written as a number: a character reference never has a meaning in Markdown or HTML but itself.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence

_PLAIN = frozenset(string.ascii_letters + string.digits + " -/,()=+")
_FENCE = re.compile(r"`+")


def printable(text: str) -> str:
    """The text with every control and formatting character spelled out (`\\x1b`); line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def code(text: str, width: int = 300) -> str:
    """Foreign text in a line: fit for a table's cell, a list or a heading."""
    line = printable(" ".join(text.split()))
    line = line if len(line) <= width else line[: width - 3] + "..."
    return f"<code>{references(line)}</code>" if line else ""


def references(text: str) -> str:
    """Text in which nothing but letters, digits and harmless signs stands for itself."""
    return "".join(c if c in _PLAIN or (ord(c) > 127 and c.isalnum()) else f"&#{ord(c)};" for c in text)


def block(lines: Iterable[str], language: str = "", limit: int = 200) -> list[str]:
    """Foreign lines as a fenced block, which none of them can end; those past the limit are counted."""
    shown = [printable(line.rstrip("\r\n")).replace("\n", "\\n") for line in lines]
    left = len(shown) - limit
    shown = shown[:limit] + ([f"... {left} more lines"] if left > 0 else [])
    longest = max((len(found) for line in shown for found in _FENCE.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *shown, fence]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already."""
    return [_row(titles), _row(["---"] * len(titles)), *(_row(row) for row in rows)]


def folded(title: str, lines: Sequence[str], *, opened: bool = False) -> list[str]:
    """Lines after a title that opens them."""
    return [f"<details{' open' if opened else ''}><summary>{title}</summary>", "", *lines, "", "</details>"]


def cut(lines: Sequence[str], size: int) -> str:
    """The lines as a text of at most so many bytes. Where that is not all, it says so, and closes what is open."""
    text = "\n".join(lines) + "\n"
    if len(text.encode()) <= size:
        return text
    told = "\nCut here: the rest is in the report's documents.\n"
    kept: list[str] = []
    opened = 0
    fence = ""
    room = size - len(told) - 200
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = "`" * (len(line) - len(line.lstrip("`")))
        else:
            opened += line.startswith("<details") - (line == "</details>")
    kept += [fence] if fence else []
    kept += ["", "</details>"] * opened
    return "\n".join(kept) + "\n" + told


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def counted(number: int, one: str, many: str = "") -> str:
    """The number with its noun: `1 patch`, `2 patches`. `many` is needed if it is not `one` and an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def patch_count(number: int) -> str:
    """`1 patch`, `2 patches`."""
    return counted(number, "patch", "patches")
