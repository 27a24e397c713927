"""Find literal strings that a pattern needs.

Every match of the pattern contains at least one of the strings. A file without any of them need not be searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def needed_texts(pattern: re.Pattern[str]) -> tuple[bytes, ...]:
    """Return literal strings that a pattern needs.

    Every match of the pattern contains at least one of them. The strings come from the output of Python's regular
    expression parser, which is not documented. If that output cannot be interpreted or yields no strings, the result is
    empty, and every file is searched.
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
    """Return the requirements of a parsed pattern.

    Each requirement is a tuple of strings. Every match contains at least one string of each requirement.
    """
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
    """Return the requirement whose shortest string is longest, because it probably excludes the most files."""
    return max(found, key=lambda texts: min(map(len, texts)), default=None)
