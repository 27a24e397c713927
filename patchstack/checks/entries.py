"""Define the JSON form of checks for the documents of `verify`, `lint` and `canary`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchstack.document import Part

if TYPE_CHECKING:
    from pathlib import Path

    from patchstack.checks.model import CheckRow, Place, Site


class SiteEntry(Part, frozen=True, kw_only=True):
    """A site: a file of the tree, and the function in which the pattern matches.

    If the pattern has a group, `name` ends with a colon and the text of that group.
    """

    path: str
    name: str


class PlaceEntry(SiteEntry, frozen=True, kw_only=True):
    """A match: a line in a file of the tree. Line numbers start at 1."""

    line: int


class CheckEntry(Part, frozen=True, kw_only=True):
    """A check and its result.

    `patch` is null for a check of the whole series. `tree` is the tree that was judged. It is null if the tree does not
    exist. `places` are the lines that break the check. `new` and `lost` are the sites that differ from the recorded
    sites. `output` contains the first lines that a command printed. `file` and `line` locate the check in
    `patchstack.yaml`.
    """

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
    """Return the JSON form of checks and their results."""
    return tuple(map(check_entry, rows))


def check_entry(row: CheckRow) -> CheckEntry:
    """Return the JSON form of a check and its result."""
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
    """Return the JSON form of a match."""
    return PlaceEntry(path=place.path, line=place.line, name=place.name)


def site_entry(site: Site) -> SiteEntry:
    """Return the JSON form of a site."""
    return SiteEntry(path=site.path, name=site.name)


def shown(path: Path) -> str:
    """Return the path of a workspace file in the form used in documents, with forward slashes."""
    return path.as_posix()
