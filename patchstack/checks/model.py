"""Define checks and their results on a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.verdict import Verdict

NO_FUNCTION = "(file)"
"""The name of a site outside any function."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Site:
    """A file, and the function in which a pattern matches.

    If the pattern has a group, `name` also contains the text of that group.
    """

    path: str
    name: str

    @property
    def told(self) -> str:
        """The short name of the site for messages: its function, or its file if no function contains the match."""
        return self.path if self.name == NO_FUNCTION else self.name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A match of a pattern: a line in a file of the tree.

    Line numbers start at 1. `name` is the name of the match's site.
    """

    path: str
    line: int
    name: str

    @property
    def site(self) -> Site:
        return Site(path=self.path, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A regular file of a tree. `mode` is its git file mode, and `oid` is its blob id."""

    path: str
    mode: int
    oid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a check on one tree.

    `places` are the lines that break the check: forbidden or new matches. `new` and `lost` are the sites that differ
    from the recorded sites. `sites` contains all matches if the check records its sites. `output` contains the first
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
    """A check of a series, as declared in `patchstack.yaml`.

    `patch` is the number of the check's patch. It is None for a check of the whole series. `files` are globs. If they
    are empty, the check judges the files that the patch touches. With `at_patch`, the check judges the tree after its
    patch instead of the last tree. With `on_upstream`, the check judges upstream without the series. Such a check only
    shows whether the patch can be dropped. `seconds` is the time limit on one tree. `file` and `line` locate the check.
    `settings` are the settings for its kind.
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
        """The owner of the check: the number of a patch, or `series`."""
        return "series" if self.patch is None else f"{self.patch:04d}"

    @property
    def at(self) -> str:
        """The tree that the check judges: `upstream`, `patch` or `series`."""
        return "upstream" if self.on_upstream else "patch" if self.at_patch else "series"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """A check and its result on a tree. `tree` is None if the tree does not exist."""

    check: Check
    found: Found
    tree: str | None = None

    @property
    def verdict(self) -> Verdict:
        return self.found.verdict


Sites = Mapping[str, tuple[str, ...]]
"""Site names by file path."""
