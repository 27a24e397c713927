"""Turn documents into annotations on the lines of patch files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.record.record import BuildDocument
from patchstack.checks.entries import CheckEntry
from patchstack.git.patch.text import PatchText, read_text
from patchstack.report.documents.canary import CanaryDocument
from patchstack.report.documents.gates import GatesDocument
from patchstack.report.documents.lint import LintDocument
from patchstack.report.documents.read import FailedDocument, Report
from patchstack.report.documents.verify import VerifyDocument
from patchstack.report.github import Annotation, Level
from patchstack.verdict import Verdict


def edited_line(text: PatchText, path: str, diff: str) -> int:
    """Return the line at which a patch differs from its fork commit.

    `diff` is the diff from the series' file to the fork's file. The result is the first of these lines that exists:

    - the first line that the patch adds and the fork lacks
    - the line after which the fork has an extra line
    - the line where the diff of the file starts
    - the subject line of the patch
    """
    wanted = path.encode("utf-8", "replace")
    file = next((one for one in text.files if wanted in (one.old, one.new)), None)
    if file is None:
        return text.subject_line
    lines = diff.encode("utf-8", "replace").split(b"\n")
    body = [line for line in lines if not line.startswith((b"--- ", b"+++ ", b"@@ "))]
    ours = {line[1:] for line in body if line.startswith(b"-")}
    for line in file.added:
        if line.text in ours:
            return line.number
    for at, shown in enumerate(body):
        if shown.startswith(b"+") and at:
            before = next(
                (line.number for line in file.lines if line.text == body[at - 1][1:] and line.text.strip()), None
            )
            if before is not None:
                return before
    return file.number


def added_line(text: PatchText, path: str) -> int:
    """Return the line at which the diff of a file starts in a patch, or the line of the subject if there is none."""
    wanted = path.encode("utf-8", "replace")
    return next((one.number for one in text.files if wanted in (one.old, one.new)), text.subject_line)


GRAVE_RULES = frozenset({"unreadable", "secrets"})
"""Lint rules whose findings are errors. Findings of other rules are warnings."""
_NAMED = 10  # the maximum number of commits or places in an annotation
_QUIET = ("ok", "inherits", "skipped")
_CANARY = {"landed": Level.NOTICE, "stale": Level.NOTICE, "cascade": Level.NOTICE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The locations of patch files in a checkout.

    `root` is the root of the repository. Annotations use paths relative to it. `directories` maps the name of each
    series to its directory.
    """

    root: Path
    directories: Mapping[str, Path]

    def file(self, series: str, name: str) -> str | None:
        """Return the path of a file relative to the root.

        `name` is relative to the series' directory if that directory contains the file, and to the current directory
        otherwise. Return None if the file is not below the root.
        """
        directory = self.directories.get(series)
        path = directory / name if directory is not None and os.path.lexists(directory / name) else Path(name)
        relative = os.path.relpath(path.parent.resolve() / path.name, self.root.resolve())
        return None if relative.startswith(os.pardir) else relative.replace(os.sep, "/")

    def text(self, series: str, name: str) -> PatchText:
        """Parse a patch file of a series.

        If the series is unknown, or if the file cannot be read, return the result for an empty file.
        """
        directory = self.directories.get(series)
        try:
            return read_text((directory / name).read_bytes() if directory is not None else b"")
        except (OSError, ValueError):
            return read_text(b"")


def remarks(document: Report, ground: Checkout) -> list[Annotation]:
    """Return the annotations for a document, in the document's order."""
    match document:
        case FailedDocument():
            error = document.error
            message = "\n".join(filter(None, [error.message, error.hint and f"hint: {error.hint}"]))
            title = f"patchstack {document.command} {document.series}"
            return [Annotation(level=Level.ERROR, title=title, message=message)]
        case VerifyDocument():
            return list(_verify(document, ground))
        case LintDocument():
            return list(_lint(document, ground))
        case CanaryDocument():
            return list(_canary(document, ground))
        case BuildDocument():
            return list(_build(document, ground))
        case GatesDocument():
            return list(_gates(document))


def all_remarks(documents: Iterable[Report], ground: Checkout) -> list[Annotation]:
    """Return the annotations for all documents, in the order of the documents."""
    return [one for document in documents for one in remarks(document, ground)]


def _verify(document: VerifyDocument, ground: Checkout) -> Iterator[Annotation]:
    series = document.series
    drifts = {one.file: one for one in (document.drift.patches if document.drift is not None else ())}
    told = False
    without: list[str] = []
    for row in document.patches:
        name, state = row.file, row.state
        if state in _QUIET:
            continue
        told = True
        remark = f"{name}: {row.detail or state}"
        if name is None:
            without.append(f"{str(row.fork_commit)[:12]}: {row.subject}")
            continue
        text = ground.text(series, name)
        files = drifts[name].files if name in drifts else ()
        for file in files:
            yield Annotation(
                level=Level.ERROR,
                title=f"{series}: {state}",
                message=f"{file.path} is not what fork commit {drifts[name].fork_commit[:12]} makes of it; "
                f"patches are exported, not edited\n{file.diff}",
                file=ground.file(series, name),
                line=edited_line(text, file.path, file.diff),
            )
        if not files:
            line = next((one.line for one in row.problems if one.line is not None), text.subject_line)
            place = ground.file(series, name)
            yield Annotation(level=Level.ERROR, title=f"{series}: {state}", message=remark, file=place, line=line)
    if without:
        more = [f"and {len(without) - _NAMED} more"] if len(without) > _NAMED else []
        message = "\n".join(["fork commits without a patch:", *without[:_NAMED], *more])
        yield Annotation(level=Level.ERROR, title=f"{series}: unmirrored", message=message)
    if document.holds is not True and not told:
        message = document.first_problem or "there is nothing to compare the series with"
        yield Annotation(level=Level.ERROR, title=f"{series}: does not hold", message=message)
    yield from _checks(series, document.checks or (), ground)
    for warning in document.warnings:
        yield Annotation(level=Level.WARNING, title=series, message=warning)


def _checks(series: str, checks: Iterable[CheckEntry], ground: Checkout) -> Iterator[Annotation]:
    """Yield an annotation on the definition of each check that does not hold.

    The annotation lists the places in the tree that violate the check.
    """
    for one in checks:
        if one.verdict == Verdict.PASS:
            continue
        places = [f"{place.path}:{place.line}: {place.name}" for place in one.places[:_NAMED]]
        more = [f"and {len(one.places) - _NAMED} more places"] if len(one.places) > _NAMED else []
        yield Annotation(
            level=Level.ERROR if one.verdict == Verdict.FAIL else Level.WARNING,
            title=f"{series}: check {one.name}: {one.verdict}",
            message="\n".join([*filter(None, [one.what]), one.reason, *places, *more]),
            file=ground.file(series, one.file),
            line=one.line,
        )


def _lint(document: LintDocument, ground: Checkout) -> Iterator[Annotation]:
    series = document.series
    for finding in document.findings:
        yield Annotation(
            level=Level.ERROR if finding.rule in GRAVE_RULES else Level.WARNING,
            title=f"{series}: {finding.rule}",
            message=finding.message,
            file=ground.file(series, finding.file),
            line=finding.line,
        )
    yield from _checks(series, document.checks, ground)


def _canary(document: CanaryDocument, ground: Checkout) -> Iterator[Annotation]:
    series = document.series
    for patch in document.patches:
        if patch.state in ("clean", "offset"):
            continue
        name = patch.file
        yield Annotation(
            level=_CANARY.get(patch.state, Level.WARNING),
            title=f"{series}: {patch.state}",
            message=f"{name}: {patch.detail or patch.state}",
            file=ground.file(series, name),
            line=patch.line or ground.text(series, name).subject_line,
        )
    yield from _checks(series, [one.check for one in document.checks], ground)


def _build(document: BuildDocument, ground: Checkout) -> Iterator[Annotation]:
    rejection = document.rejection
    variant = document.variant
    if rejection is not None:
        name = rejection.patch
        place = f"{rejection.file}:{rejection.line}: " if rejection.file else ""
        message = f"{place}{rejection.message}\n{rejection.origin or ''}".rstrip()
        file, line = None, None
        for series in ground.directories:
            if name is not None and os.path.lexists(ground.directories[series] / name):
                file = ground.file(series, name)
                line = added_line(ground.text(series, name), rejection.file or "")
        yield Annotation(level=Level.ERROR, title=f"{variant}: {rejection.kind}", message=message, file=file, line=line)
    for proof in document.proofs:
        if proof.verdict != "PASS":
            message = f"{proof.verdict}: {proof.detail}"
            yield Annotation(level=Level.ERROR, title=f"{variant}: proof {proof.id}", message=message)


def _gates(document: GatesDocument) -> Iterator[Annotation]:
    for gate in document.gates:
        if gate.verdict != "PASS":
            message = f"{gate.verdict}: {gate.reason}"
            yield Annotation(level=Level.ERROR, title=f"{gate.suite}/{gate.name}", message=message)
