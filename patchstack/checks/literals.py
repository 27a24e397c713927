"""Literal texts that a pattern needs. A file that contains none of them need not be searched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def needed_texts(pattern: re.Pattern[str]) -> tuple[bytes, ...]:
    """Return texts such that every match of the pattern contains at least one of them; empty if they are not known.

    It reads the output of Python's pattern parser, which is not a documented interface. For a pattern that it does not
    understand, it returns no texts, and all contents are searched.
    """
    if pattern.flags & (re.IGNORECASE | re.VERBOSE):
        return ()
    try:
        from re import _parser  # type: ignore[attr-defined]

        found = _best(_alternatives(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)))
    except Exception:
        return ()
    texts = tuple(one.encode() for one in found or ())
    return texts if texts and all(texts) else ()


def _alternatives(sequence: Iterable[Any]) -> list[tuple[str, ...]]:
    """Return, for each part of a sequence, the texts of which one is needed."""
    found: list[tuple[str, ...]] = []
    run = ""
    for operation, argument in sequence:
        name = str(operation)
        if name == "LITERAL":
            run += chr(argument)
            continue
        found, run = [*found, (run,)] if run else found, ""
        if name == "SUBPATTERN" and not argument[1] and not argument[2]:
            found += _alternatives(argument[3])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] >= 1:
            found += _alternatives(argument[2])
        elif name == "BRANCH":
            each = [_best(_alternatives(branch)) for branch in argument[1]]
            if all(each):
                found.append(tuple(text for texts in each for text in texts or ()))
    return [*found, (run,)] if run else found


def _best(found: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the texts that are probably the rarest: those whose shortest text is the longest."""
    return max(found, key=lambda texts: min(map(len, texts)), default=None)
