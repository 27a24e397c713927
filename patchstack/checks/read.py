"""Read the checks of a series from `patchstack.yaml`."""

from __future__ import annotations

import re

from patchstack.causes import SettingsUnusable
from patchstack.checks.model import Check
from patchstack.checks.registry import KINDS, kind_of
from patchstack.workspace import SeriesConfig, parse_time
from patchstack.workspace.node import Node

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_SERIES = "series"


def read_checks(config: SeriesConfig) -> tuple[Check, ...]:
    """Return the checks of a series, in the order of the file.

    Raises `ConfigError`, which lists every problem with its line.
    """
    problems: list[str] = []
    found: list[Check] = []
    for given in config.checks:
        check = _read(given.complaining_to(problems))
        if check is None:
            continue
        if any(one.name == check.name for one in found):
            given.complaining_to(problems).complain("name", f"two checks are named {check.name}")
        found.append(check)
    if problems:
        raise SettingsUnusable(f"the checks of {config.name} cannot be used", problems=problems)
    return tuple(found)


def read_promises(config: SeriesConfig) -> tuple[Check, ...]:
    """Return the checks of a series, except those that judge only upstream.

    A check on upstream shows only whether its patch can be dropped.
    """
    return tuple(check for check in read_checks(config) if not check.on_upstream)


def _read(node: Node) -> Check | None:
    before = len(node.problems)
    name = node.text("name", required=True) or ""
    if name and not _NAME.match(name):
        node.complain("name", "the name of a check may only contain letters, digits, dots, dashes and underscores")
    kind_name = node.text("kind", required=True)
    patch, at = _patch(node), node.text("at") or _SERIES
    if at not in ("patch", _SERIES, "upstream"):
        node.complain("at", f"{at!r} is not one of patch, series, upstream")
    elif at == "patch" and patch is None:
        node.complain("at", "`at: patch` needs the number of a patch")
    files, what, time = node.texts("files"), node.text("what") or "", node.text("time")
    if files is not None and (not files or not all(one.strip() for one in files)):
        node.complain("files", "must be a list of globs; if files is omitted, the check judges its patch's files")
    seconds = parse_time(time) if time is not None else None
    if time is not None and not seconds:
        node.complain("time", f"{time!r} is not a time such as 10s or 5m")
    if kind_name is None or kind_name not in KINDS:
        if kind_name is not None:
            node.complain("kind", f"{kind_name!r} is not one of {', '.join(KINDS)}")
        return None
    kind = kind_of(kind_name)
    settings = kind.read(node)
    node.finish()
    if settings is None or len(node.problems) > before:
        return None
    return Check(
        name=name,
        kind=kind_name,
        patch=patch,
        files=files or (),
        at_patch=at == "patch",
        on_upstream=at == "upstream",
        what=what,
        seconds=seconds or kind.seconds,
        file=node.path,
        line=(node.node.lc.line or 0) + 1,
        settings=settings,
    )


def _patch(node: Node) -> int | None:
    """Return the number of the check's patch. Return None for `series` or an invalid value."""
    value = node.node.get("patch")
    node.used.append("patch")
    if value == _SERIES:
        return None
    if type(value) is int and value >= 0:
        return value
    node.complain("patch" if "patch" in node.node else None, "patch must be the number of a patch, or series")
    return None
