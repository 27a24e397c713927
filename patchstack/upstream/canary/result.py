"""Define the result of `canary`.

It consists of the state of every patch on a newer upstream, the breaking commits, and the patches to repair.
"""

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
    """An upstream commit that made the same change as a patch, or a similar change.

    `how` has one of these values. `tree`: the patch no longer changes anything in upstream's tip. `reverse`: the patch
    applies to the tip in reverse. `hunks`: the tip contains every hunk. `patch-id`: the commit has the same patch-id.
    `similar`: the commit contains the share `score` of the patch's changed lines. `title`: both touch a common file,
    and the patch's title contains the share `score` of the distinctive words in the commit's title. `commit` is None
    for a change that upstream already had at the pin.
    """

    how: str
    score: float
    commit: UpstreamCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first commit at which a patch fails.

    `together` are earlier commits that are needed to break the patch, oldest first. It is empty if `commit` alone
    breaks the patch, or if the needed commits could not be determined. `root` is true if the patch fails because of its
    own change. If it is false, `causes` are the patches whose failures cause this failure. `lines` describe the
    conflicting places.
    """

    commit: UpstreamCommit
    together: tuple[UpstreamCommit, ...]
    root: bool
    causes: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def caused_by(self) -> str | None:
        """The first of the patches in `causes`."""
        return self.causes[0] if self.causes else None


class Fit(StrEnum):
    """How a patch fits onto one upstream commit. Earlier patches that fail are skipped."""

    APPLIES = "applies"
    OFFSET = "applies at an offset"
    MERGES = "merges three-way"
    FAILS = "fails"
    AT_PIN = "fails at its own pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of commits at which a patch fits in the same way.

    `patch` is the index of the patch. `first` and `last` are the indices of the first and last commits. An index of -1
    means the pin.
    """

    patch: int
    first: int
    last: int
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPatch:
    """One patch of a series on a newer upstream.

    `strict` is the result in a chain of strict `git apply`: `clean`, `offset`, `conflict`, `missing-file`, `malformed`
    or `unsafe`. It is None for an anchored patch. `threeway` is the result in a chain of three-way merges: `clean`,
    `landed` (the patch changes nothing there) or `conflict`. It is None for a patch that does not apply to the pin.
    `causes` are all patches that cause a cascade, and `caused_by` is the first of them. `renamed` contains pairs of an
    old and a new path, for files that upstream moved, and for files that the patch adds to renamed directories.
    `collides` are the commits whose lines conflict. The commit with the most conflicting places is first. `remains` are
    the hunks of a partly landed patch that upstream's tree lacks. `line` is the 1-based line of the patch file that
    does not fit. It is None if the patch applies or the line is unknown.
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
    """The full result for one series.

    `blamed` is `strict` or `threeway` if the first breaking commits were searched for, otherwise None. `timeline` is
    empty unless it was requested. `checks` is empty if the series has no checks. `drops` are the patches that name a
    check in `Drop-Check:`. Such a check decides whether its patch can be dropped. `parked` are the parked patches.
    """

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
        """Whether every patch applies unchanged."""
        return all(patch.applies for patch in self.patches)

    @property
    def landed(self) -> tuple[CanaryPatch, ...]:
        return tuple(patch for patch in self.patches if patch.state is State.LANDED)


def breaking(result: Canary) -> list[tuple[UpstreamCommit, list[CanaryPatch]]]:
    """Return the upstream commits that break patches, in order.

    Each commit is returned with the patches that it was the first to break.
    """
    found: dict[int, tuple[UpstreamCommit, list[CanaryPatch]]] = {}
    for patch in result.patches:
        if patch.first_broken is not None:
            commit = patch.first_broken.commit
            found.setdefault(commit.index, (commit, []))[1].append(patch)
    return [found[index] for index in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Patches that fail because of their own change (`roots`), and the upstream commit that conflicts with them.

    The commit is None if it is unknown. `freed` are patches that fail only because of `roots`, and apply again if
    `roots` are repaired.
    """

    commit: UpstreamCommit | None
    roots: tuple[CanaryPatch, ...]
    freed: tuple[CanaryPatch, ...]


def to_mend(result: Canary) -> list[Culprit]:
    """Return the patches to repair, grouped by upstream commit.

    Groups are sorted by the number of patches that they free, and then by their own number of patches, largest first. A
    patch belongs to the first commit that broke it, if that commit was searched for. Otherwise, it belongs to the
    commit with the most conflicting places.
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
