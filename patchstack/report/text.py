"""Text that others wrote, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every control and formatting character spelled out (`\\x1b`); line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)
