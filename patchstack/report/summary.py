"""Write documents as a step summary in Markdown. All untrusted text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from patchstack.builds.record.record import BuildDocument
from patchstack.checks.entries import CheckEntry
from patchstack.report.documents.canary import CanaryDocument, CanaryPatchEntry
from patchstack.report.documents.gates import GatesDocument
from patchstack.report.documents.lint import LintDocument
from patchstack.report.documents.read import FailedDocument, Report, command_of, subject_of
from patchstack.report.documents.verify import VerifyDocument
from patchstack.report.text import block, code, counted, cut, folded, patch_count, table
from patchstack.verdict import Verdict

# GitHub accepts step summaries of up to 1 MiB.
LARGEST = 1000 * 1024
_FOLDED_ABOVE = 25
_SHOWN_FINDINGS = 200
_HOLDS = {True: "holds", False: "does not hold", None: "not compared"}


def summary(parts: Sequence[Sequence[str]], size: int = LARGEST) -> str:
    """Join the parts into one text of at most `size` bytes."""
    return cut([line for part in parts for line in (*part, "")], size)


def part(document: Report) -> list[str]:
    """Convert a document to lines of Markdown."""
    match document:
        case FailedDocument():
            return _failed(document)
        case VerifyDocument():
            return list(_verify(document))
        case LintDocument():
            return list(_lint(document))
        case CanaryDocument():
            return list(canary_part(document))
        case BuildDocument():
            return list(_build(document))
        case GatesDocument():
            return list(_gates(document))


def failure(command: str, code_: int, talk: str) -> list[str]:
    """Return the exit status and the last output of a command that printed no document, as lines of Markdown."""
    lines = [line for line in talk.splitlines() if line.strip()][-40:]
    return [
        f"### patchstack {code(command)}: exit {code_}",
        "",
        *(block(lines, "text") if lines else ["The command printed no output."]),
    ]


def _failed(document: FailedDocument) -> list[str]:
    error = document.error
    told = [error.message, *([f"hint: {error.hint}"] if error.hint else [])]
    return [f"### {document.command} {code(document.series)}: not examined", "", *block(told, "text")]


def _verify(document: VerifyDocument) -> Iterator[str]:
    word = _HOLDS[document.holds]
    yield f"### verify {code(document.series)}: {word}"
    yield ""
    applied = f"{document.applied_count} of {patch_count(document.patch_count)}"
    yield (
        f"Base {code(document.base.commit)} with {applied} gives tree {code(document.applied_tree)}; "
        + (
            f"expected is {code(document.expected_tree)}, from {code(document.expected_from or '')}."
            if document.expected_tree
            else "there is no tree to compare this tree with."
        )
    )
    yield ""
    if document.first_problem:
        yield f"First problem: {code(document.first_problem, 600)}"
        yield ""
    rows = [
        [
            f"{row.number:04d}" if row.number is not None else "-",
            code(row.subject),
            code((row.tree or "-")[:12]),
            code((row.fork_commit or "-")[:12]),
            row.state if row.state == "ok" else f"**{code(row.state)}**",
        ]
        for row in document.patches
    ]
    lines = table(("number", "subject", "prefix tree", "fork commit", "state"), rows)
    if len(rows) > _FOLDED_ABOVE:
        good = sum(row.state == "ok" for row in document.patches)
        lines = folded(f"{patch_count(len(rows))}, {good} ok", lines, opened=document.holds is not True)
    yield from lines
    drift = document.drift
    for sentence in drift.summary if drift else ():
        yield ""
        yield f"- {code(sentence, 1000)}"
    for patch in drift.patches if drift else ():
        for file in patch.files:
            yield ""
            name = f"{code(patch.file)}, {code(file.path)}: - the series, + the fork"
            yield from folded(name, block(file.diff.splitlines(), "diff"), opened=True)
    yield from _checks(document.checks or ())
    for warning in document.warnings:
        yield ""
        yield f"Warning: {code(warning, 1000)}"


def _checks(checks: Sequence[CheckEntry], since: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Yield a table of checks.

    `since` maps the name of a check to the upstream commit that made the check fail.
    """
    if not checks:
        return
    yield ""
    rows = [
        [
            code(one.name),
            f"{one.patch:04d}" if one.patch is not None else "series",
            _verdict(one.verdict),
            code(one.reason, 500) + since.get(one.name, ""),
        ]
        for one in checks
    ]
    yield from table(("check", "patch", "verdict", "reason"), rows)


def _lint(document: LintDocument) -> Iterator[str]:
    found = document.findings
    waived = f", {len(document.waived)} waived" if document.waived else ""
    word = "clean" if document.clean else f"{len(found)} finding{'s' if len(found) != 1 else ''}"
    yield f"### lint {code(document.series)}: {word} in {patch_count(document.patch_count)}{waived}"
    yield from _checks(document.checks)
    if not found:
        return
    yield ""
    rows = [[code(one.file), str(one.line), code(one.rule), code(one.message, 500)] for one in found[:_SHOWN_FINDINGS]]
    yield from table(("file", "line", "rule", "message"), rows)
    if len(found) > _SHOWN_FINDINGS:
        yield ""
        yield f"and {len(found) - _SHOWN_FINDINGS} more"


def canary_part(document: CanaryDocument) -> Iterator[str]:
    """Yield the result for a series on a newer upstream, as lines of Markdown.

    The lines show which patches apply, and which upstream commits break the other patches.
    """
    upstream = document.upstream
    word = "applies to" if document.applies else "does not apply to"
    yield f"### canary {code(document.series)}: {word} upstream {code(upstream.commit[:12])}"
    yield ""
    yield (
        f"{document.applied_count} of {patch_count(document.patch_count)} apply as they are to "
        f"{code(upstream.repository)} {code(upstream.ref)}, {counted(document.commits, 'commit')} "
        f"after the pin {code(document.pin.commit[:12])}."
    )
    yield ""
    rows = [
        [
            f"{patch.number:04d}" if patch.number is not None else "-",
            code(patch.subject),
            patch.strict or "-",
            patch.threeway or "-",
            patch.state if patch.state in ("clean", "offset") else f"**{code(patch.state)}**",
            _because(patch),
        ]
        for patch in document.patches
    ]
    lines = table(("number", "subject", "strict", "three-way", "state", "because of"), rows)
    if len(rows) > _FOLDED_ABOVE:
        lines = folded(patch_count(len(rows)), lines, opened=False)
    yield from lines
    for commit in document.breaking:
        yield ""
        number = f" ({code('#' + str(commit.pr))})" if commit.pr is not None else ""
        names = ", ".join(code(name) for name in commit.patches[:12])
        more = f" and {len(commit.patches) - 12} more" if len(commit.patches) > 12 else ""
        told = f"{code(commit.commit[:12])}{number} {code(commit.subject)}, {code(commit.date)}"
        yield f"- {told}, breaks {names}{more}"
    for parked in document.parked:
        yield ""
        yield f"- {code(parked.file)} is parked ({code(parked.reason)}): it {parked.still}."
    for drop in document.drops:
        if drop.verdict == Verdict.PASS:
            yield ""
            yield f"- {code(drop.file)} can be dropped: {code(drop.check)} passes on upstream alone. {code(drop.when)}"
    yield from _checks(
        [one.check for one in document.checks],
        {
            one.check.name: f", since {code(one.first_fails.commit[:12])} {code(one.first_fails.subject)}"
            for one in document.checks
            if one.first_fails is not None
        },
    )
    for warning in document.warnings:
        yield ""
        yield f"Warning: {code(warning, 1000)}"


def _because(patch: CanaryPatchEntry) -> str:
    broken = patch.first_broken
    if patch.caused_by:
        return code(patch.caused_by)
    if patch.like and patch.state == "landed":
        commit = patch.like.commit
        return code(commit.subject) if commit else "the pin"
    return code(broken.subject) if broken and patch.state not in ("clean", "offset", "stale") else ""


def _build(document: BuildDocument) -> Iterator[str]:
    what = "found" if document.hit is True else document.status
    yield f"### build {code(document.variant)}: {code(what)}"
    yield ""
    source = document.source
    for_ = " ".join(code(word) for word in (document.platform, document.arch) if word)
    yield f"{code(source.label)}, tree {code(source.tree)}, for {for_}; build key {code(document.key)}."
    rejection = document.rejection
    if rejection is not None:
        yield ""
        yield f"{code(rejection.message, 1000)} {code(rejection.origin or '', 500)}".rstrip()
        yield ""
        yield from block([line for text in rejection.block for line in text.splitlines()], "text", 80)
    if document.proofs:
        yield ""
        rows = [[code(one.id), _verdict(one.verdict), code(one.detail, 500)] for one in document.proofs]
        yield from table(("proof", "verdict", "detail"), rows)


def _gates(document: GatesDocument) -> Iterator[str]:
    counted = ", ".join(f"{count} {code(word)}" for word, count in document.verdicts.items() if count)
    yield f"### gates {code(document.suite)}: {counted}"
    yield ""
    yield f"Of {code(document.programs)}."
    yield ""
    rows = [[code(one.name), code(one.kind), _verdict(one.verdict), code(one.reason, 500)] for one in document.gates]
    yield from table(("gate", "kind", "verdict", "reason"), rows)


def _verdict(verdict: str) -> str:
    return verdict if verdict == "PASS" else f"**{code(verdict)}**"


def in_a_line(document: Report) -> str:
    """Summarize a document in one line for a log."""
    name = f"{command_of(document)} {subject_of(document)}"
    match document:
        case FailedDocument():
            return f"{name}: {document.error.message}"
        case VerifyDocument():
            word = _HOLDS[document.holds]
            problem = f": {document.first_problem}" if document.first_problem else ""
            return f"{name}: {word}, {document.applied_count} of {patch_count(document.patch_count)}{problem}"
        case LintDocument():
            return f"{name}: {counted(len(document.findings), 'finding')} in {patch_count(document.patch_count)}"
        case CanaryDocument():
            return f"{name}: {document.applied_count} of {patch_count(document.patch_count)} apply"
        case BuildDocument():
            return f"{name}: {document.status}, build {document.key[:12]}"
        case GatesDocument():
            return f"{name}: " + ", ".join(f"{count} {word}" for word, count in document.verdicts.items())
