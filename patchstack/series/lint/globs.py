"""Match paths with globs as in `.gitignore`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache


def matching(path: str, globs: Iterable[str]) -> str | None:
    """Return the first glob that a path matches, or None.

    `*` and `?` do not match a slash, but `**` does. A glob without a slash, or with a slash only at its end, matches at
    any depth. Any other glob matches from the root. A glob that names a directory matches everything below it.
    """
    return next((glob for glob in globs if _matches(glob, path)), None)


_MANY = re.compile(r"\*+|\?")
_SHORT = 512


def effort(path: str, globs: Iterable[str]) -> int:
    """Estimate the work of matching a path with globs, in units of about one microsecond."""
    return sum(len(path) * (1 if _simple(glob, path) else len(glob)) for glob in globs)


def _simple(glob: str, path: str) -> bool:
    return len(_MANY.findall(glob)) <= 1 and len(path) <= _SHORT


def _matches(glob: str, path: str) -> bool:
    """Return whether a glob matches a path.

    Both may come from a patch. A regular expression with several wildcards can take extremely long, so a glob with
    several wildcards is matched character by character.
    """
    if _simple(glob, path):
        return as_pattern(glob).match(path) is not None
    return followed(glob, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One step of a glob.

    The step consumes a character for which `takes` is true. With `again`, it consumes any number of such characters.
    `skips` contains the offsets of the steps that can be reached without consuming a character.
    """

    takes: Callable[[str], object]
    again: bool = False
    skips: tuple[int, ...] = ()


def followed(glob: str, path: str) -> bool:
    """Return whether a glob matches a path, without a regular expression.

    The time is at most proportional to the length of the glob times the length of the path.
    """
    steps = _steps(glob)
    here = _reached({0}, steps)
    for character in path:
        ahead = {at if steps[at].again else at + 1 for at in here if at < len(steps) and steps[at].takes(character)}
        here = _reached(ahead, steps)
    return len(steps) in here


def _reached(places: set[int], steps: Sequence[_Step]) -> set[int]:
    """Return the positions, and all positions that can be reached from them without consuming a character."""
    pending = list(places)
    while pending:
        at = pending.pop()
        for skip in steps[at].skips if at < len(steps) else ():
            if at + skip not in places:
                places.add(at + skip)
                pending.append(at + skip)
    return places


@cache
def _steps(glob: str) -> tuple[_Step, ...]:
    slash, inside_name = _Step(takes="/".__eq__), "/".__ne__
    directories = (_Step(takes=_nothing, skips=(1, 3)), _Step(takes=bool, again=True, skips=(1,)), slash)
    body = glob.rstrip("/")
    steps: list[_Step] = [] if "/" in body else [*directories]
    body = body.lstrip("/")
    at = 0
    while at < len(body):
        if body.startswith("**/", at):
            steps += directories
            at += 3
        elif body.startswith("**", at):
            steps.append(_Step(takes=bool, again=True, skips=(1,)))
            at += 2
        elif body[at] == "*":
            steps.append(_Step(takes=inside_name, again=True, skips=(1,)))
            at += 1
        elif body[at] == "?":
            steps.append(_Step(takes=inside_name))
            at += 1
        elif body[at] == "[" and (end := body.find("]", at + 2)) > 0:
            try:
                steps.append(_Step(takes=re.compile(_class(body[at + 1 : end]), re.DOTALL).match))
            except re.error:
                return tuple(_Step(takes=character.__eq__) for character in glob)
            at = end + 1
        else:
            steps.append(_Step(takes=body[at].__eq__))
            at += 1
    end_skips = () if glob.endswith("/") else (3,)
    below = (_Step(takes="/".__eq__, skips=end_skips), _Step(takes=bool), _Step(takes=bool, again=True, skips=(1,)))
    return (*steps, *below)


def _nothing(_: str) -> bool:
    return False


def _class(inside: str) -> str:
    # These characters have no meaning in a glob, but future versions of Python may read them as set operators.
    plain = re.sub(r"[\\\[&|~]|(?<=-)-", lambda found: f"\\{found[0]}", inside)
    return f"[^{plain[1:]}]" if inside.startswith("!") else f"[{plain}]"


@cache
def as_pattern(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a glob. It is fast for few wildcards and short paths."""
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
            pattern, at = pattern + _class(body[at + 1 : end]), end + 1
        else:
            pattern, at = pattern + re.escape(body[at]), at + 1
    below = "/.+" if glob.endswith("/") else "(?:/.+)?"
    try:
        return re.compile(pattern + below + r"\Z", re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob) + r"\Z")
