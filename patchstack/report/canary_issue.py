"""What upstream does to the series, as the one issue that says so: body, title, and whether it is open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.errors import UsageError
from patchstack.report.documents import CANARY, Document, each
from patchstack.report.summary import part, summary

# GitHub takes 65,536 characters of an issue's body.
LARGEST = 60_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """`marker` is the body's first line, by which the issue is found again; `open` tells whether there is anything to
    do."""

    marker: str
    title: str
    body: str
    open: bool


def canary_issue(documents: Sequence[Document], name: str, footer: str = "") -> Issue:
    """The issue for what canary found, one document a series. A series that could not be looked at keeps it open.

    Raises `UsageError` where there is nothing to tell, or a name that does not fit into a marker.
    """
    if not _NAME.match(name):
        raise UsageError(f"{name!r} cannot mark an issue", hint="letters, digits, dots, dashes and underscores")
    found = [document for document in documents if document["schema"] == CANARY]
    if not found:
        raise UsageError("there is no document of canary to tell of", hint="patchstack canary --json > FILE")
    parts = each(found, part)
    failing = [document for document in found if document["applies"] is not True]
    marker = f"<!-- patchstack-canary: {name} -->"
    lines = [*parts, *([[footer]] if footer else [])]
    return Issue(
        marker=marker,
        title=_title(found, failing),
        body=f"{marker}\n{summary(lines, LARGEST)}",
        open=bool(failing),
    )


def _title(found: Sequence[Document], failing: Sequence[Document]) -> str:
    if not failing:
        return f"canary: {_named(found)} applies to upstream"
    counted = sum(one["patch_count"] - one["applied_count"] for one in failing if one["applies"] is False)
    if not counted:
        return f"canary: {_named(failing)} could not be put onto upstream"
    return f"canary: {counted} patch{'es' if counted != 1 else ''} of {_named(failing)} no longer apply to upstream"


def _named(documents: Sequence[Document]) -> str:
    """Names for a title, which is no Markdown; a series' name has no character that could mean anything."""
    names = [re.sub(r"[^A-Za-z0-9._-]", "?", str(one["series"])) for one in documents]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} series"
