"""Globs as in `.gitignore`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


def matching(path: str, globs: Iterable[str]) -> str | None:
    """Return the first glob that a path matches, or None.

    `*` and `?` stop at a slash, `**` does not. A glob without a slash (or with one only at its end) matches at any
    depth; any other matches from the root. A glob that names a directory matches everything below it.
    """
    return next((glob for glob in globs if _compiled(glob).match(path)), None)


@cache
def _compiled(glob: str) -> re.Pattern[str]:
    body = glob.rstrip("/")
    anchored = "/" in body
    body = body.lstrip("/")
    pattern = "" if anchored else "(?:.*/)?"
    at = 0
    while at < len(body):
        if body.startswith("**/", at):
            pattern, at = pattern + "(?:.*/)?", at + 3
        elif body.startswith("**", at):
            pattern, at = pattern + ".*", at + 2
        elif body[at] == "*":
            pattern, at = pattern + "[^/]*", at + 1
        elif body[at] == "?":
            pattern, at = pattern + "[^/]", at + 1
        elif body[at] == "[" and (end := body.find("]", at + 2)) > 0:
            inside = body[at + 1 : end].replace("\\", "\\\\")
            inside = "^" + inside[1:] if inside.startswith("!") else inside
            pattern, at = pattern + f"[{inside}]", end + 1
        else:
            pattern, at = pattern + re.escape(body[at]), at + 1
    below = "/.+" if glob.endswith("/") else "(?:/.+)?"
    try:
        return re.compile(pattern + below + r"\Z", re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob) + r"\Z")
