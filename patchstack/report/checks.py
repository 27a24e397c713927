"""Show checks as a table and as lines on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.checks.model import CheckRow
from patchstack.report.table import Give, Table
from patchstack.upstream.canary.checks import CheckAhead, Drop, SiteChange
from patchstack.upstream.canary.parked import ParkedAhead
from patchstack.upstream.history import UpstreamCommit
from patchstack.verdict import Verdict, verdict_line

_SHOWN = 12
VERDICT_STYLES = {"PASS": "green", "FAIL": "red", "INVALID": "yellow"}


def checks_table(rows: Sequence[CheckRow]) -> Table:
    """Return a table with the name, patch, kind, verdict and reason of each check."""
    return Table(
        titles=("check", "patch", "kind", "verdict", "reason"),
        rows=[(row.check.name, row.check.of, row.check.kind, row.verdict.value, row.found.reason) for row in rows],
        styles=VERDICT_STYLES,
        gives={"reason": Give.FOLD},
    )


def against(rows: Sequence[CheckRow]) -> Iterator[str]:
    """Yield the violations of each check that does not hold."""
    for row in rows:
        found = row.found
        if found.verdict is Verdict.PASS or not (found.places or found.lost or found.output):
            continue
        yield f"{row.check.name}: {found.verdict}{f': {row.check.what}' if row.check.what else ''}"
        yield from _some([f"    {one.path}:{one.line}: {one.name}" for one in found.places])
        yield from _some([f"    lost: {one.path}: {one.name}" for one in found.lost])
        yield from _some([f"    {line}" for line in found.output])


def checks_line(series: str, rows: Sequence[CheckRow]) -> str:
    """Return the summary line: the combined verdict, and the number of checks with each verdict."""
    return verdict_line(f"{series}: checks", [row.verdict for row in rows])


def ahead_lines(checks: Sequence[CheckAhead]) -> Iterator[str]:
    """Yield each check that does not hold on a newer upstream.

    The lines also show the first upstream commit on which the check fails, and the sites that changed.
    """
    for one in checks:
        row = one.row
        if row.verdict is Verdict.PASS and one.first_fails is None:
            continue
        yield f"{row.check.name}: {row.verdict}{f': {row.check.what}' if row.check.what else ''}"
        if one.at_pin is Verdict.FAIL:
            yield "    the check already fails at the pin: run 'patchstack verify --checks'"
        if one.first_fails is not None:
            yield f"    fails first on {_commit(one.first_fails)}"
        lines = [f"    {_change(change)}" for change in one.changes]
        yield from _some(lines or [f"    {line}" for line in row.found.output or (row.found.reason,)])


def drop_lines(drops: Sequence[Drop]) -> Iterator[str]:
    """Yield the patches that can be dropped according to their checks, and the patches whose check is INVALID."""
    for one in drops:
        when = f": {one.when}" if one.when else ""
        if one.can_go:
            yield f"{one.file} can be dropped{when}: check {one.check} is PASS on upstream alone ({one.found.reason})"
        elif one.found.verdict is Verdict.INVALID:
            yield f"{one.file}: Drop-Check: {one.check}: INVALID: {one.found.reason}"


def parked_lines(parked: Sequence[ParkedAhead]) -> Iterator[str]:
    """Yield the parked patches, and whether each of them would apply to the newer upstream."""
    for one in parked:
        yield f"{one.file} is parked ({one.reason}): it {one.still}"


def _change(change: SiteChange) -> str:
    what = "lost" if change.lost else "new"
    since = f" since {change.since.oid[:12]}" if change.since is not None else ""
    return f"{what} site {change.site.name} in {change.site.path}{since}"


def _commit(commit: UpstreamCommit) -> str:
    title = commit.subject.removesuffix(f"(#{commit.pr})").strip()
    number = f"#{commit.pr} " if commit.pr is not None else ""
    return f"{number}{title} ({commit.oid[:12]}, {commit.author}, {commit.date}; commit {commit.index} after the pin)"


def _some(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"    and {len(lines) - _SHOWN} more (--json has all of them)"
