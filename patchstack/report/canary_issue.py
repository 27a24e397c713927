"""Write the GitHub issue that describes how upstream affects the series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from patchstack.builds.record.record import BuildDocument
from patchstack.causes import BadValue, InputUnreadable
from patchstack.report.documents.canary import CanaryDocument
from patchstack.report.documents.read import FailedDocument, Report
from patchstack.report.summary import part, summary
from patchstack.report.text import references
from patchstack.verdict import Verdict

# GitHub accepts up to 65,536 characters in an issue's body.
LARGEST = 60_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\Z")
_URL = re.compile(r"https?://[A-Za-z0-9./:_-]+\Z")
_Canary: TypeAlias = CanaryDocument | FailedDocument
_UNTRIED = ("", "skipped", "success")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue on GitHub.

    `marker` is the first line of the body. A later run finds the issue by its marker. `open` is true if there is
    something to do.
    """

    marker: str
    title: str
    body: str
    open: bool


def canary_issue(documents: Sequence[Report], name: str, *, run: str = "", compiled: str = "") -> Issue:
    """Return the issue for the canary documents of all series, and for the builds.

    The issue is open if a patch does not apply, a check fails, a series could not be examined, or a build failed. `run`
    is the URL of the workflow run. `compiled` is the result of the build job, or empty if there was none.

    Raises `UsageError` if there are no canary documents, or if `name` cannot be used in a marker.
    """
    if not _NAME.match(name):
        raise BadValue(
            f"{name!r} cannot be used to mark an issue", hint="use letters, digits, dots, dashes and underscores"
        )
    found = [document for document in documents if _of_canary(document)]
    built = [document for document in documents if isinstance(document, BuildDocument)]
    if not found:
        raise InputUnreadable("there are no canary documents to report", hint="run 'patchstack canary --json > FILE'")
    failing = [document for document in found if not (isinstance(document, CanaryDocument) and _fine(document))]
    rejected = not all(one.built for one in built)
    broken = compiled not in _UNTRIED or rejected
    lines = [part(document) for document in (*found, *built)]
    if broken and not built:
        lines.append([f"### build: the job ended with {references(compiled)} and wrote no document"])
    if _URL.match(run):
        lines.append([f"Reported by [this run]({run}). To move the pin, run `patchstack sync`."])
    marker = f"<!-- patchstack-canary: {name} -->"
    return Issue(
        marker=marker,
        title=_title(found, failing, "does not compile" if rejected else "could not be built" if broken else ""),
        body=f"{marker}\n{summary(lines, LARGEST)}",
        open=bool(failing) or broken,
    )


def _fine(document: CanaryDocument) -> bool:
    """Return whether every patch applies and no check fails."""
    return document.applies and all(one.check.verdict != Verdict.FAIL for one in document.checks)


def _of_canary(document: Report) -> TypeGuard[_Canary]:
    return isinstance(document, CanaryDocument) or (
        isinstance(document, FailedDocument) and document.command == "canary"
    )


def _title(found: Sequence[_Canary], failing: Sequence[_Canary], built: str) -> str:
    """Return the title. `built` describes a failed build; it is empty if no build failed."""
    if not failing:
        return f"canary: {_named(found)} applies to upstream" + (f", and {built} there" if built else "")
    counted = sum(one.patch_count - one.applied_count for one in failing if isinstance(one, CanaryDocument))
    broken = sum(
        one.check.verdict == Verdict.FAIL
        for document in failing
        if isinstance(document, CanaryDocument)
        for one in document.checks
    )
    if not counted and broken:
        checks, fail = ("check", "fails") if broken == 1 else ("checks", "fail")
        return f"canary: {broken} {checks} of {_named(failing)} {fail} on upstream"
    if not counted:
        return f"canary: {_named(failing)} could not be applied to upstream"
    patches, apply = ("patch", "applies") if counted == 1 else ("patches", "apply")
    return f"canary: {counted} {patches} of {_named(failing)} no longer {apply} to upstream"


def _named(documents: Sequence[_Canary]) -> str:
    """Return the series' names for a title, or their number if there are more than three.

    Special characters are replaced by `?`. The names need no escaping for Markdown, because GitHub shows titles as
    plain text.
    """
    names = [re.sub(r"[^A-Za-z0-9._-]", "?", one.series) for one in documents]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} series"
