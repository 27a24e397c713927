"""Format counts, and make untrusted text safe for a terminal and for Markdown.

GitHub renders summaries, comments and issues with HTML, mentions, references, emoji and automatic links. Untrusted text
is therefore put into `<code>`, in which GitHub creates no mentions or references. Every special character is written as
a numeric character reference, which Markdown and HTML always show literally.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence

_PLAIN = frozenset(string.ascii_letters + string.digits + " -/,()=+")
_FENCE = re.compile(r"`+")


def printable(text: str) -> str:
    """Escape every control and formatting character, for example as `\\x1b`. Line breaks and tabs stay unchanged."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def code(text: str, width: int = 300) -> str:
    """Return untrusted text as escaped code for a table cell, a list or a heading.

    At most `width` characters are shown.
    """
    line = printable(" ".join(text.split()))
    line = line if len(line) <= width else line[: width - 3] + "..."
    return f"<code>{references(line)}</code>" if line else ""


def references(text: str) -> str:
    """Write every character as a numeric character reference, except letters, digits and harmless signs."""
    return "".join(c if c in _PLAIN or (ord(c) > 127 and c.isalnum()) else f"&#{ord(c)};" for c in text)


def block(lines: Iterable[str], language: str = "", limit: int = 200) -> list[str]:
    """Return untrusted lines as a fenced block. No line can end the block.

    At most `limit` lines are shown. If there are more, the last line states how many were omitted.
    """
    shown = [printable(line.rstrip("\r\n")).replace("\n", "\\n") for line in lines]
    left = len(shown) - limit
    shown = shown[:limit] + ([f"... {left} more lines"] if left > 0 else [])
    longest = max((len(found) for line in shown for found in _FENCE.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *shown, fence]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table. The cells must already be escaped Markdown."""
    return [_row(titles), _row(["---"] * len(titles)), *(_row(row) for row in rows)]


def folded(title: str, lines: Sequence[str], *, opened: bool = False) -> list[str]:
    """Return lines that GitHub shows as a collapsible section with a title."""
    return [f"<details{' open' if opened else ''}><summary>{title}</summary>", "", *lines, "", "</details>"]


def cut(lines: Sequence[str], size: int) -> str:
    """Join lines into a text of at most `size` bytes.

    If lines are omitted, the text ends with a note. Blocks that are still open are closed before the note.
    """
    text = "\n".join(lines) + "\n"
    if len(text.encode()) <= size:
        return text
    told = "\nCut here, because the text is too long: the documents contain the rest.\n"
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
    """Return a number with its noun, for example `1 patch` or `2 patches`.

    `many` is the plural. It is needed if the plural is not formed with an s.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def patch_count(number: int) -> str:
    """Return a number of patches as text: `1 patch` or `2 patches`."""
    return counted(number, "patch", "patches")
