"""Checks in the documents of `verify`, `lint` and `canary`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patchstack.checks.model import CheckRow, Place, Site
from patchstack.document import Part


class SiteEntry(Part, frozen=True, kw_only=True):
    """A file of the tree and the function in which a pattern is found, with what its group caught after a colon."""

    path: str
    name: str


class PlaceEntry(SiteEntry, frozen=True, kw_only=True):
    """A line of a file of the tree, from 1."""

    line: int


class CheckEntry(Part, frozen=True, kw_only=True):
    """A check and what it found. `patch` is null for a check of the whole series; `tree` is the tree that was judged,
    null if there was none. `places` are the lines that break the check; `new` and `lost` are sites that differ from the
    recorded ones; `output` are the first lines of a command. `file` and `line` are where the check is written."""

    name: str
    kind: str
    patch: int | None
    at: str
    what: str
    verdict: str
    reason: str
    tree: str | None
    places: tuple[PlaceEntry, ...]
    new: tuple[SiteEntry, ...]
    lost: tuple[SiteEntry, ...]
    output: tuple[str, ...]
    file: str
    line: int


def check_entries(rows: Iterable[CheckRow]) -> tuple[CheckEntry, ...]:
    """Return checks in the form of a document."""
    return tuple(map(check_entry, rows))


def check_entry(row: CheckRow) -> CheckEntry:
    """Return one check and its result in the form of a document."""
    check, found = row.check, row.found
    return CheckEntry(
        name=check.name,
        kind=check.kind,
        patch=check.patch,
        at=check.at,
        what=check.what,
        verdict=found.verdict.value,
        reason=found.reason,
        tree=row.tree,
        places=tuple(map(place_entry, found.places)),
        new=tuple(map(site_entry, found.new)),
        lost=tuple(map(site_entry, found.lost)),
        output=found.output,
        file=shown(check.file),
        line=check.line,
    )


def place_entry(place: Place) -> PlaceEntry:
    """Return a place in the form of a document."""
    return PlaceEntry(path=place.path, line=place.line, name=place.name)


def site_entry(site: Site) -> SiteEntry:
    """Return a site in the form of a document."""
    return SiteEntry(path=site.path, name=site.name)


def shown(path: Path) -> str:
    """Return the name of a workspace file in documents."""
    return path.as_posix()
