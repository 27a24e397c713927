"""Read the settings that several kinds of checks have in common."""

from __future__ import annotations

import re

from patchstack.checks.model import Place, Sites
from patchstack.checks.scan import compiled
from patchstack.series.lint.globs import matching
from patchstack.workspace.node import Node

_NOWHERE = "matches the empty string, and therefore matches everywhere"


def read_pattern(node: Node) -> re.Pattern[str] | None:
    """Return the `pattern:` of an entry.

    Report a problem and return None if the pattern is missing or invalid, matches the empty string, or has several
    groups.
    """
    text = node.text("pattern", required=True)
    if text is None:
        return None
    try:
        pattern = compiled(text)
    except (re.error, OverflowError, RecursionError) as error:
        node.complain("pattern", f"{text[:80]!r} is not a regular expression: {error}")
        return None
    if pattern.search("") is not None:
        node.complain("pattern", _NOWHERE)
        return None
    if pattern.groups > 1:
        node.complain("pattern", "has more than one group; use (?:…) for groups that need not capture")
        return None
    return pattern


def read_sites(node: Node, key: str) -> Sites | None:
    """Return the value of a key that maps paths to lists of names.

    Return None if the entry does not have the key. Report invalid values as problems.
    """
    given = node.mapping(key) if key in node.node else None
    if given is None:
        node.used.append(key)
        return None
    found = {}
    for path in given.node:
        names = given.texts(str(path))
        if names is not None and len(set(names)) < len(names):
            given.complain(str(path), "a name is listed twice")
        found[str(path)] = names or ()
    return found


def is_named(place: Place, named: Sites) -> bool:
    """Return whether `named` contains a place.

    `named` maps globs of files to names of functions. An empty list of names means all functions.
    """
    return any(
        matching(place.path, [glob]) is not None and (not names or place.name in names) for glob, names in named.items()
    )


def numbered(count: int, what: str) -> str:
    """Return a count with its noun: `1 place`, `2 places`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def places_told(places: tuple[Place, ...], most: int = 3) -> str:
    """Return the first `most` places, and the number of the others, as text for a message."""
    told = ", ".join(f"{one.path}:{one.line} ({one.name})" for one in places[:most])
    return told + (f" and {len(places) - most} more" if len(places) > most else "")
