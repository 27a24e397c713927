"""A check, and its result on a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.verdict import Verdict

NO_FUNCTION = "(file)"
"""The name of a place outside any function."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Site:
    """A file and the function in which a pattern is found, with the text of the pattern's group if it has one."""

    path: str
    name: str

    @property
    def told(self) -> str:
        """The site for people: its function if it has one, else its file."""
        return self.path if self.name == NO_FUNCTION else self.name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A line (from 1) of a file of the tree at which a pattern is found, and the name of its site."""

    path: str
    line: int
    name: str

    @property
    def site(self) -> Site:
        return Site(path=self.path, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A regular file of a tree."""

    path: str
    mode: int
    oid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a check on one tree.

    `places` are the lines that break the check: lines that must not exist, or that are new. `new` and `lost` are sites
    that differ from the recorded ones. `sites` are all places of a check that records its sites. `output` is the first
    lines that a command printed.
    """

    verdict: Verdict
    reason: str
    places: tuple[Place, ...] = ()
    new: tuple[Site, ...] = ()
    lost: tuple[Site, ...] = ()
    sites: tuple[Place, ...] = ()
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of a series in `patchstack.yaml`.

    `patch` is the number of its patch; None for a check of the whole series. `files` are globs; empty selects the files
    that the patch touches. With `at_patch`, the check judges the tree after its patch instead of the last tree. With
    `on_upstream`, it judges upstream alone, to show whether a patch can be dropped; such a check promises nothing.
    `seconds` is the time limit on one tree. `file` and `line` locate the check. `settings` are those of its kind.
    """

    name: str
    kind: str
    patch: int | None
    files: tuple[str, ...]
    at_patch: bool
    on_upstream: bool
    what: str
    seconds: float
    file: Path
    line: int
    settings: Any

    @property
    def of(self) -> str:
        """The owner of the check: a patch's number, or `series`."""
        return "series" if self.patch is None else f"{self.patch:04d}"

    @property
    def at(self) -> str:
        """The tree that it judges: `upstream`, `patch` or `series`."""
        return "upstream" if self.on_upstream else "patch" if self.at_patch else "series"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """A check and its result on a tree; `tree` is None if there is no tree to judge."""

    check: Check
    found: Found
    tree: str | None = None

    @property
    def verdict(self) -> Verdict:
        return self.found.verdict


Sites = Mapping[str, tuple[str, ...]]
"""The names of sites, by the paths of their files."""
