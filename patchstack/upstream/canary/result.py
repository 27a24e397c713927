"""The result of canary: a state for every patch on a newer upstream, the breaking commits, and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchstack.upstream.canary.checks import CheckAhead, Drop
from patchstack.upstream.canary.parked import ParkedAhead
from patchstack.upstream.history import UpstreamCommit, UpstreamRange


class State(StrEnum):
    """The state of one patch on a newer upstream."""

    CLEAN = "clean"
    OFFSET = "offset"
    STALE = "stale"
    LANDED = "landed"
    PARTLY_LANDED = "partly-landed"
    FAILS_AT_PIN = "fails-at-pin"
    CONFLICT = "conflict"
    DELETED_SOURCE = "deleted-source"
    RENAMED_SOURCE = "renamed-source"
    CASCADE = "cascade"


APPLIES = frozenset({State.CLEAN, State.OFFSET, State.STALE})
_ROOTS = frozenset({State.CONFLICT, State.PARTLY_LANDED, State.DELETED_SOURCE, State.RENAMED_SOURCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """An upstream commit with the change of a patch, or a similar one.

    `how` is `tree` (the patch no longer changes anything there), `reverse` (it applies in reverse), `hunks` (upstream's
    tree contains every hunk), `patch-id` (the same change), `similar` (`score` of its changed lines are the commit's)
    or `title` (both touch a file, and the patch's title has `score` of the distinctive words of the commit's). The
    first three are about upstream's tree, the others about a commit's change. `commit` is None for a change that
    upstream already had at the pin.
    """

    how: str
    score: float
    commit: UpstreamCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first commit at which a patch fails.

    `together` are earlier commits that are needed to break it, oldest first; empty if that commit alone breaks it.
    `root` is whether the patch fails there by itself; else `causes` are the patches whose failure causes its own.
    `lines` show the conflict.
    """

    commit: UpstreamCommit
    together: tuple[UpstreamCommit, ...]
    root: bool
    causes: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def caused_by(self) -> str | None:
        """The first of the causes."""
        return self.causes[0] if self.causes else None


class Fit(StrEnum):
    """How a patch fits onto one upstream commit, without the earlier patches that fail."""

    APPLIES = "applies"
    OFFSET = "applies at an offset"
    MERGES = "merges three-way"
    FAILS = "fails"
    AT_PIN = "fails at its own pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A patch, by index, and the range of commits, `first` to `last` inclusive, at which it fits in the same way. -1 is
    the pin."""

    patch: int
    first: int
    last: int
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPatch:
    """One patch of a series on a newer upstream.

    `strict` is its place in a chain of strict `git apply`: `clean`, `offset`, `conflict`, `missing-file`, `malformed`
    or `unsafe`; None for an anchored patch. `threeway` is its place in a chain of three-way merges: `clean`, `landed`
    (it changes nothing there) or `conflict`; None for one that does not apply to the pin.
    `caused_by` is the first patch that causes a cascade, `causes` are all of them. `renamed` are files that moved: the
    name at the pin and the new one. `collides` are the commits whose lines conflict, the most lines first. `remains`
    are the hunks of a partly landed patch that upstream's tree lacks. `line` is the 1-based line of the patch file that
    does not fit; None if the patch applies or the line is unknown.
    """

    file: str
    number: int | None
    subject: str
    state: State
    strict: str | None
    threeway: str | None
    caused_by: str | None
    causes: tuple[str, ...]
    detail: str
    problems: tuple[str, ...]
    remains: tuple[str, ...]
    line: int | None
    renamed: tuple[tuple[str, str], ...]
    collides: tuple[UpstreamCommit, ...]
    like: Likeness | None
    first_broken: Broken | None

    @property
    def applies(self) -> bool:
        return self.state in APPLIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The full result for one series. `blamed` is `strict` or `threeway` if the first breaking commits were searched
    for, else None. `timeline` is empty unless requested, `checks` if the series has none; `drops` are patches that name
    a check by which they can be dropped; `parked` are the parked patches."""

    series: str
    upstream: str
    range: UpstreamRange
    patches: tuple[CanaryPatch, ...]
    blamed: str | None
    warnings: tuple[str, ...]
    timeline: tuple[Span, ...] = ()
    checks: tuple[CheckAhead, ...] = ()
    drops: tuple[Drop, ...] = ()
    parked: tuple[ParkedAhead, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether every patch applies there unchanged."""
        return all(patch.applies for patch in self.patches)

    @property
    def landed(self) -> tuple[CanaryPatch, ...]:
        return tuple(patch for patch in self.patches if patch.state is State.LANDED)


def breaking(result: Canary) -> list[tuple[UpstreamCommit, list[CanaryPatch]]]:
    """Return upstream's commits that break patches, in order, each with the patches that it is the first to break."""
    found: dict[int, tuple[UpstreamCommit, list[CanaryPatch]]] = {}
    for patch in result.patches:
        if patch.first_broken is not None:
            commit = patch.first_broken.commit
            found.setdefault(commit.index, (commit, []))[1].append(patch)
    return [found[index] for index in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Patches that fail by themselves, and the upstream commit that conflicts with them (None if unknown). `freed` are
    the cascades that depend on no other patches: they apply once these are repaired."""

    commit: UpstreamCommit | None
    roots: tuple[CanaryPatch, ...]
    freed: tuple[CanaryPatch, ...]


def to_mend(result: Canary) -> list[Culprit]:
    """Return the patches to repair by commit, those that free the most patches first, then those with the most patches.

    A patch belongs to the first commit that broke it, if that was searched for, else to the one with the most
    conflicting lines.
    """
    groups: dict[int, list[CanaryPatch]] = {}
    commits: dict[int, UpstreamCommit] = {}
    for patch in result.patches:
        if patch.state in _ROOTS:
            commit = patch.first_broken.commit if patch.first_broken is not None else None
            commit = commit or next(iter(patch.collides), None)
            key = commit.index if commit is not None else -1
            groups.setdefault(key, []).append(patch)
            if commit is not None:
                commits[key] = commit
    found = []
    for key, roots in groups.items():
        files = {patch.file for patch in roots}
        freed = tuple(
            patch
            for patch in result.patches
            if patch.state is State.CASCADE and patch.causes and files.issuperset(patch.causes)
        )
        found.append(Culprit(commit=commits.get(key), roots=tuple(roots), freed=freed))
    return sorted(found, key=lambda one: (-len(one.freed), -len(one.roots), one.commit.index if one.commit else -1))
